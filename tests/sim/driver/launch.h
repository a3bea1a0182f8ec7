/* SPDX-License-Identifier: MIT */
/* Kernels and variables of the host build, and their launch. */
#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "memory.h"
#include "stream.h"

/* One registered kernel. CUfunction and CUkernel both point to it; it lives for ever. */
struct sim_function {
    struct sim_function *next;             /* all kernels */
    const char *name;                      /* mangled name, borrowed */
    sim_thunk thunk;                       /* runs a grid */
    size_t nparams;                        /* arguments */
    const size_t *sizes;                   /* their sizes, borrowed */
    int attributes[CU_FUNC_ATTRIBUTE_MAX]; /* settable attributes */
};

/* One registered variable. Lives for ever. */
struct sim_variable {
    struct sim_variable *next;       /* all variables */
    const char *name;                /* mangled name, borrowed */
    void *address;                   /* storage in the host build */
    size_t size;                     /* bytes */
    CUdeviceptr va[SIM_MAX_DEVICES]; /* public address on each device, 0 before it is asked for */
};

/* Lookup by name; NULL where nobody registered it. The tables have a lock of their own, because
 * constructors of kernel libraries fill them at any time. */
struct sim_function *sim_function_find(const char *name);
struct sim_variable *sim_variable_find(const char *name);

/* The kernel of a CUfunction or CUkernel, or NULL. */
struct sim_function *sim_function_of(const void *handle);

/* Public address of a variable on a device; 0 where no addresses are left. */
CUdeviceptr sim_variable_address(struct sim_variable *variable, int device);

/* One owned block with pointers to copies of the arguments. */
void **sim_kernel_args(const struct sim_function *function, void **args);

/* Runs a kernel operation. Called without sim_lock. */
CUresult sim_kernel_run(struct sim_work *work, int device);

/* A device's clock, which its events read: the time of its kernels so far, by SIM_KERNEL_US. */
uint64_t sim_kernel_time_ns(int device);

/* Builds the operation of a launch; CUDA_ERROR_INVALID_VALUE and friends for a bad shape. */
CUresult sim_kernel_work(struct sim_work *out, CUfunction handle, const unsigned grid[3],
                         const unsigned block[3], unsigned shared, void **params, void **extra);

/* Runs cuStreamWriteValue and cuStreamWaitValue operations. Called without sim_lock. */
CUresult sim_value_run(struct sim_work *work, int device);

#endif
