/* SPDX-License-Identifier: MIT */
/* Shared by the test programs: scenarios by name, checked calls, a context, and a gate that holds
 * a stream until the program opens it. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/sim.h"

/* One scenario of a program: its first argument. */
struct scenario {
    const char *name; /* As on the command line. */
    void (*run)(void);
};

/* Ends the program with status 1 and the call's name unless it succeeds. */
#define CHECK(call) check(#call, (int)(call), __LINE__)

/* Ends the program with status 1 and the condition unless it holds. */
#define EXPECT(condition) expect(#condition, !!(condition), __LINE__)

/* Prints a call with the code that it gave. */
#define SHOW(call) printf("%s -> %d\n", #call, (int)(call))

static inline void check(const char *call, int code, int line)
{
    if (code == 0)
        return;
    fprintf(stderr, "line %d: %s gave %d\n", line, call, code);
    exit(1);
}

static inline void expect(const char *condition, int holds, int line)
{
    if (holds)
        return;
    fprintf(stderr, "line %d: not so: %s\n", line, condition);
    exit(1);
}

/* Runs the scenario that argv[1] names; 2 for an unknown name. */
static inline int run_scenario(const struct scenario *all, size_t count, int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (!strcmp(all[i].name, argv[1])) {
            all[i].run();
            return 0;
        }
    fprintf(stderr, "%s: no scenario '%s'\n", argv[0], argc > 1 ? argv[1] : "");
    return 2;
}

#define RUN_SCENARIO(all, argc, argv) run_scenario(all, sizeof(all) / sizeof((all)[0]), argc, argv)

/* Makes the primary context of a device current, as the runtime does. */
static inline CUcontext start_gpu(int device)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

/* Makes a context beside the primary one, and makes it current. */
static inline CUcontext another_context(void)
{
    CUcontext context;
#if CUDA_VERSION >= 13000
    CHECK(cuCtxCreate(&context, NULL, 0, 0));
#else
    CHECK(cuCtxCreate(&context, 0, 0));
#endif
    return context;
}

/* Of fill() and gate_close_by_kernel(), once loaded; they go with their context. */
static CUfunction fill_kernel, hold_kernel;

/* Destroys the context with all its memory, so that what is live afterwards is a leak. */
static inline void end_gpu(int device)
{
    fill_kernel = hold_kernel = NULL;
    CHECK(cuDevicePrimaryCtxReset(device));
}

/* Holds a stream until it is opened. */
struct gate {
    atomic_int open; /* 0 while the stream must wait. */
};

static inline void CUDA_CB gate_wait(void *gate)
{
    while (!atomic_load(&((struct gate *)gate)->open))
        usleep(200);
}

static inline void gate_close(struct gate *gate, CUstream stream)
{
    atomic_store(&gate->open, 0);
    CHECK(cuLaunchHostFunc(stream, gate_wait, gate));
}

static inline void gate_open(struct gate *gate)
{
    atomic_store(&gate->open, 1);
}

/* Waits until a kernel has failed; no call of the driver. */
static inline void wait_for_error(void)
{
    while (sim_error() == CUDA_SUCCESS)
        usleep(200);
}

/* A kernel fill(pointer, value, bytes): sets bytes of any memory that the GPU can write. */
static inline int fill_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr at = *(CUdeviceptr *)args[0];
    size_t bytes = *(size_t *)args[2];
    char *to = sim_gpu_pointer_write(at);
    if (!to || !sim_gpu_pointer_write(at + bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memset(to, *(int *)args[1], bytes);
    return 0;
}

static inline CUfunction load_kernel(const char *name, sim_thunk grid, size_t count,
                                     const size_t *sizes)
{
    CUmodule module;
    CUfunction kernel;
    sim_kernel_register(name, grid, count, sizes);
    CHECK(cuModuleLoadData(&module, ""));
    CHECK(cuModuleGetFunction(&kernel, module, name));
    return kernel;
}

static inline void fill(CUdeviceptr to, int value, size_t bytes, CUstream stream)
{
    static const size_t sizes[] = {sizeof(to), sizeof(value), sizeof(bytes)};
    if (!fill_kernel)
        fill_kernel = load_kernel("fill", fill_grid, 3, sizes);
    void *args[] = {&to, &value, &bytes};
    CHECK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

static inline int hold_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    gate_wait(*(void **)args[0]);
    return 0;
}

/* As gate_close(), by a kernel that takes its time: nothing tells that it waits for the CPU. */
static inline void gate_close_by_kernel(struct gate *gate, CUstream stream)
{
    static const size_t sizes[] = {sizeof(gate)};
    if (!hold_kernel)
        hold_kernel = load_kernel("hold", hold_grid, 1, sizes);
    atomic_store(&gate->open, 0);
    void *args[] = {&gate};
    CHECK(cuLaunchKernel(hold_kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
}

/* True if all bytes of host memory have one value. */
static inline int all_are(const void *memory, int value, size_t bytes)
{
    const unsigned char *p = memory;
    return bytes == 0 || (p[0] == (unsigned char)value && !memcmp(p, p + 1, bytes - 1));
}

#endif
