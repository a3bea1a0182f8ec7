/* SPDX-License-Identifier: MIT */
/*
 * Inside of the simulated CUDA runtime (libcudart.so.13): the driver's entry points, the calling
 * thread's error and context, and what the registration of binaries leaves behind.
 *
 * Sources in streams/ are compiled twice, the second time with RT_PER_THREAD=1 (nvcc's
 * -default-stream per-thread): CUDA's header then renames each function to its _ptds or _ptsz twin,
 * and RT_STREAM_CALL goes to the driver's twins.
 */
#ifndef RUNTIME_H
#define RUNTIME_H

#ifndef RT_PER_THREAD
#define RT_PER_THREAD 0
#endif

/* The driver's header comes first, so that the renaming below reaches the runtime's names alone. */
#include <cuda.h>
#include <cudaTypedefs.h>
#if RT_PER_THREAD
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#endif
#include <cuda_runtime_api.h>
#if CUDART_VERSION < 13000 || CUDART_VERSION >= 14000
#error "libcudart.so.13 has the functions of CUDA 13: set CUDA_HOME to a toolkit of that release"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same prototype, which cudaTypedefs.h names after the later ABI version only. */
typedef PFN_cuDevicePrimaryCtxRelease_v11000 PFN_cuDevicePrimaryCtxRelease_v7000;
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;

/* Devices that the runtime can tell apart; the driver's own limit is far below. */
#define RT_MAX_DEVICES 64

/* Entry points without a default stream; NULL is never stored (see rt_load). */
struct rt_driver {
#define DRIVER(name, version) PFN_##name##_v##version name;
#define STREAM(name, version, per_thread_version)
#include "driver.def"
};

/* Entry points whose NULL stream means one of the two default streams. */
struct rt_streams {
#define STREAM(name, version, per_thread_version) PFN_##name##_v##version name;
#include "driver.def"
};

extern struct rt_driver rt_driver;
extern struct rt_streams rt_streams[2]; /* 0: legacy default stream, 1: per-thread */

/* Makes the driver ready (dlopen, entry points, cuInit). Unlike rt_enter it records no error. */
cudaError_t rt_load(void);

/* Number of devices, at most RT_MAX_DEVICES. After rt_load. */
int rt_device_count(void);

/* The driver's handle of a device; cudaErrorInvalidDevice for no device. After rt_load. */
cudaError_t rt_device(int ordinal, CUdevice *device_out);

/*
 * Every API function that touches a device starts here: loads the driver and makes sure that a
 * context is current, the primary one of the thread's device where the program set none itself
 * (CUDA Runtime API, "Interactions with the CUDA Driver API"). An error is recorded.
 */
cudaError_t rt_enter(void);

/* The primary context of a device, retained once for the life of the process. */
cudaError_t rt_primary_context(int device, CUcontext *context_out);

/* Gives the retained contexts back; part of the process's exit. */
void rt_release_contexts(void);

/*
 * Records an error as the thread's last one and hands it through. Codes of the driver and the
 * runtime have had the same values since CUDA 10.1.
 */
cudaError_t rt_fail(cudaError_t error);

static inline cudaError_t rt_return(CUresult result)
{
    return result == CUDA_SUCCESS ? cudaSuccess : rt_fail((cudaError_t)result);
}

/* Enters and calls one driver entry point; the value is the function's own return value. */
#define RT_CALL(function, ...)                                                                     \
    (rt_enter() != cudaSuccess ? cudaPeekAtLastError() : rt_return(rt_driver.function(__VA_ARGS__)))
#define RT_STREAM_CALL(function, ...)                                                              \
    (rt_enter() != cudaSuccess ? cudaPeekAtLastError()                                             \
                               : rt_return(rt_streams[RT_PER_THREAD].function(__VA_ARGS__)))

static inline CUdeviceptr rt_address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/*
 * The kernel behind a host stub's address; cudaErrorInvalidDeviceFunction for an unknown one. Needs
 * a current context; the error is not recorded.
 */
cudaError_t rt_kernel(const void *stub, CUkernel *kernel_out);

/*
 * Enters, and gives what the driver takes for a function: the kernel behind a stub, or the argument
 * itself, which may be a kernel's handle; the driver knows. The error is recorded.
 */
cudaError_t rt_enter_function(const void *stub, CUfunction *function_out);

/* Address and size of the variable behind a host shadow; cudaErrorInvalidSymbol if unknown. */
cudaError_t rt_symbol(const void *symbol, CUdeviceptr *address_out, size_t *bytes_out);

/*
 * One side of a copy with rows: memory with a pitch, or an array. `x` is in bytes, `y` in rows and
 * `z` in slices.
 */
struct rt_side {
    CUmemorytype type;
    const void *pointer; /* host, device or unified memory */
    CUarray array;       /* with CU_MEMORYTYPE_ARRAY */
    size_t pitch;        /* bytes from row to row */
    size_t height;       /* rows from slice to slice */
    size_t x, y, z;
};

/* The two sides that a copy's kind names; false for a value that is no kind. */
bool rt_sides_of(enum cudaMemcpyKind kind, CUmemorytype *source_out, CUmemorytype *target_out);

/* Describes a copy of width bytes x height rows x depth slices for the driver. */
void rt_copy_2d(CUDA_MEMCPY2D *copy, const struct rt_side *target, const struct rt_side *source,
                size_t width, size_t height);
void rt_copy_3d(CUDA_MEMCPY3D *copy, const struct rt_side *target, const struct rt_side *source,
                size_t width, size_t height, size_t depth);

/* The runtime's description of a copy, translated for the driver. The error is not recorded. */
cudaError_t rt_copy_of_parms(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy);
cudaError_t rt_copy_of_peer_parms(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D_PEER *copy);

/* Bytes of one element of an array. */
cudaError_t rt_element_bytes(cudaArray_const_t array, size_t *bytes_out);

#endif
