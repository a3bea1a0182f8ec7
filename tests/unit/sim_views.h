/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the two views of pinned memory: memory to pin, and what kernels and
 * copies find there. */
#ifndef SIM_VIEWS_H
#define SIM_VIEWS_H

#include "sim_test.h"
#include <sys/mman.h>

#define PAGE (2 * MIB) /* what moves at a time */

static CUfunction load, store;
static CUdeviceptr out; /* device memory, 4 bytes */

/* to[0] = from[0] */
static inline int load_run(void *const *args, const struct sim_launch *l)
{
    const int *from = sim_gpu_pointer(*(CUdeviceptr *)args[0]);
    int *to = sim_gpu_pointer_write(*(CUdeviceptr *)args[1]);
    (void)l;
    if (!from || !to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *to = *from;
    return CUDA_SUCCESS;
}

/* to[0] = value, at whatever the GPU has there */
static inline int store_run(void *const *args, const struct sim_launch *l)
{
    int *to = sim_gpu_pointer(*(CUdeviceptr *)args[0]);
    (void)l;
    if (!to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *to = *(int *)args[1];
    return CUDA_SUCCESS;
}

static inline int start(void **state)
{
    static const size_t pointers[] = {8, 8}, mixed[] = {8, 4};
    CUmodule module;
    sim_test_start(state);
    sim_kernel_register("load", load_run, 2, pointers);
    sim_kernel_register("store", store_run, 2, mixed);
    ok(cuModuleLoadData(&module, "image"));
    ok(cuModuleGetFunction(&load, module, "load"));
    ok(cuModuleGetFunction(&store, module, "store"));
    return 0;
}

static inline CUdeviceptr at(const volatile void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* A kernel's value at an address. */
static inline int gpu_reads(const volatile int *p)
{
    CUdeviceptr from = at(p);
    void *args[] = {&from, &out};
    int value = -1;
    ok(cuMemAlloc_v2(&out, 4));
    ok(cuLaunchKernel(load, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    ok(cuMemcpyDtoH_v2(&value, out, 4));
    ok(cuMemFree_v2(out));
    return value;
}

static inline CUresult gpu_writes(volatile int *p, int value)
{
    CUdeviceptr to = at(p);
    void *args[] = {&to, &value};
    CUresult r = cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL);
    return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}

/* The value at an address by a copy of so many bytes. */
static inline int copy_reads(const volatile int *p, size_t bytes)
{
    int value = -1;
    ok(cuMemAlloc_v2(&out, bytes));
    ok(cuMemcpy(out, at(p), bytes));
    ok(cuMemcpyDtoH_v2(&value, out, 4));
    ok(cuMemFree_v2(out));
    return value;
}

/* The same by a copy engine: a copy that is too long for the CPU. */
static inline int dma_reads(const volatile int *p)
{
    return copy_reads(p, PAGE / 2);
}

static inline volatile int *pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(MAP_FAILED, p);
    return p;
}

/* Two pages of the program's, registered, with 7 in front. */
static inline volatile int *pinned(unsigned flags)
{
    volatile int *p = pages(2 * PAGE);
    *p = 7;
    ok(cuMemHostRegister_v2((void *)p, 2 * PAGE, flags));
    return p;
}

static inline void release(volatile int *p)
{
    ok(cuMemHostUnregister((void *)p));
    munmap((void *)p, 2 * PAGE);
}

static inline void *move(volatile void *from, volatile void *to)
{
    return mremap((void *)from, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to);
}

#endif
