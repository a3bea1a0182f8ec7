/* SPDX-License-Identifier: MIT */
/* The CUDA driver, loaded as zc-views runs, and what a step says of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "driver/newer.h"

#define VIEW_CALLS(X)                                                                              \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuStreamCreate)                                                                              \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemHostRegister_v2)                                                                        \
    X(cuMemHostUnregister)                                                                         \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemCreate)                                                                                 \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemsetD32_v2)                                                                              \
    X(cuMemcpyDtoD_v2)                                                                             \
    X(cuMemcpyDtoH_v2)                                                                             \
    X(cuMemcpyDtoHAsync_v2)                                                                        \
    X(cuMemcpy2D_v2)                                                                               \
    X(cuStreamSynchronize)                                                                         \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

struct view_driver {
#define VIEW_CALL(name) __typeof__(name) *name;
    VIEW_CALLS(VIEW_CALL)
#undef VIEW_CALL
    CUresult (*cuMemPrefetchAsync)(CUdeviceptr, size_t, CUdevice, CUstream); /* NULL: without it. */
};
extern struct view_driver driver;

/* Loads the driver; else the name of what is missing, or why it does not start. */
const char *view_load(void);

/* The device of a step, and whether it reaches pageable memory. */
struct view_device {
    int number;
    bool reaches;   /* It reaches pageable memory, */
    bool tables;    /* by the CPU's page table (ATS). */
    bool read_only; /* It registers memory for reading. */
};

/* Asks for the attributes; after view_load(). */
struct view_device view_device(int number);

/* A step ends with one of these, which print its line and end the process: what it has found is not
 * as a pair needs it, or the machine has nothing to try. */
_Noreturn void view_wrong(const char *fmt, ...);
_Noreturn void view_has_none(const char *why);

/* The step is wrong unless the call succeeded. */
void view_must(CUresult result, const char *call);
#define MUST(name, ...) view_must(driver.name(__VA_ARGS__), #name)

/* Makes the device's context current, with the kernels and `bytes` of device memory for what
 * kernels find. */
void view_start(const struct view_device *device, size_t bytes);

/* The device memory of view_start(). */
extern CUdeviceptr view_out;

/* The stream that kernels which are watched run in. */
extern CUstream view_stream;

enum view_kernel { VIEW_COPY, VIEW_FILL, VIEW_WATCH, VIEW_COUNT, VIEW_KERNELS };

/* Launches a kernel of kernels.h: one thread for `watch` and `count`, else many.  Does not wait. */
CUresult view_launch(enum view_kernel kernel, CUstream stream, void **arguments);
