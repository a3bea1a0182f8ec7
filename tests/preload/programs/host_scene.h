/* SPDX-License-Identifier: MIT */
/* Shared by scenes with the driver API: its functions as libcudart finds them, patterns, a busy
 * stream. */
#ifndef TESTS_PRELOAD_HOST_SCENE_H
#define TESTS_PRELOAD_HOST_SCENE_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define BLOCK (4 * MIB)

/* The driver functions that the scenes call, found as libcudart finds them. */
#define DRIVER(X)                                                                                  \
    X(cuInit)                                                                                      \
    X(cuDeviceGet)                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxReset_v2)                                                                  \
    X(cuCtxSetCurrent)                                                                             \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemFree_v2)                                                                                \
    X(cuMemcpyHtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemcpyHtoDAsync_v2)                                                                        \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuMemcpyDtoD_v2)                                                                             \
    X(cuMemsetD8_v2)                                                                               \
    X(cuMemcpy)                                                                                    \
    X(cuStreamCreate)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuLaunchHostFunc)                                                                            \
    X(cuPointerGetAttribute)                                                                       \
    X(cuPointerGetAttributes)                                                                      \
    X(cuMemGetAddressRange_v2)                                                                     \
    X(cuMemHostGetDevicePointer_v2)                                                                \
    X(cuMemHostGetFlags)                                                                           \
    X(cuMemHostRegister_v2)                                                                        \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuStreamBeginCapture_v2)                                                                     \
    X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuMemcpy2DAsync_v2)

static struct {
#define FIELD(name) __typeof__(name) *name;
    DRIVER(FIELD)
#undef FIELD
    unsigned long long (*sim_calls)(const char *name);
} cu;

static CUcontext context;
static CUdeviceptr device;

static inline void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(name, ...) check(#name, cu.name(__VA_ARGS__))

static inline void start(void)
{
    CUdevice d;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle)
        exit(77);
#define FIND(name) cu.name = (__typeof__(name) *)dlsym(handle, #name);
    DRIVER(FIND)
    cu.sim_calls = (unsigned long long (*)(const char *))dlsym(handle, "sim_calls");
    CHECK(cuInit, 0);
    CHECK(cuDeviceGet, &d, 0);
    CHECK(cuDevicePrimaryCtxRetain, &context, d);
    CHECK(cuCtxSetCurrent, context);
    CHECK(cuMemAlloc_v2, &device, 16 * BLOCK);
}

static inline unsigned registrations(void)
{
    return cu.sim_calls ? (unsigned)cu.sim_calls("cuMemHostRegister_v2") : 0;
}

static unsigned char ramp[512]; /* 0 to 255, twice. */

__attribute__((constructor)) static void make_ramp(void)
{
    for (unsigned i = 0; i < sizeof(ramp); i++)
        ramp[i] = (unsigned char)i;
}

/* The bytes that filled() puts into 256 bytes of a block from i on, a multiple of 256. */
static inline const unsigned char *pattern(size_t i, unsigned seed)
{
    return ramp + (((i >> 12) * 31 + i + seed) & 255);
}

static inline unsigned char *filled(unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += 256)
        memcpy(p + i, pattern(i, seed), n - i < 256 ? n - i : 256);
    return p;
}

static inline bool holds(const unsigned char *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i += 256)
        if (memcmp(p + i, pattern(i, seed), n - i < 256 ? n - i : 256) != 0)
            return false;
    return true;
}

/* Copies there and back through memory of libc's own. */
static inline bool device_holds(size_t n, unsigned seed)
{
    static unsigned char seen[8 * BLOCK];
    CHECK(cuMemcpyDtoH_v2, seen, device, n);
    return holds(seen, n, seed);
}

static inline void CUDA_CB sleep_a_little(void *arg)
{
    struct timespec t = {0, 80000000};
    (void)arg;
    nanosleep(&t, NULL);
}

/* Work of a stream that goes on until a call has returned; the driver's own copies of pageable
 * memory may wait for it in the call, so it ends at some time. */
static atomic_bool call_returned, work_ended;

static inline void CUDA_CB work(void *unused)
{
    const struct timespec a_while = {0, 10000000};
    (void)unused;
    for (int i = 0; i < 200 && !call_returned; i++)
        nanosleep(&a_while, NULL);
    work_ended = true;
}

#endif
