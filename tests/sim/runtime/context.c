/* SPDX-License-Identifier: MIT */
/* The thread's device, primary contexts, and the device-wide calls that need nothing else. */
#include "runtime.h"

#include <pthread.h>

/* One device's primary context, as this runtime holds it. */
struct primary {
    CUcontext context;   /* NULL while not retained */
    unsigned generation; /* counts cudaDeviceReset, which makes bindings of threads stale */
};

static struct primary primaries[RT_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards primaries */

static __thread int thread_device;
static __thread bool thread_bound;          /* this runtime has set the thread's context */
static __thread unsigned thread_generation; /* of primaries[thread_device] when it did */

/* A device that an error has broken cannot be had again; the runtime's word for that is another. */
static cudaError_t retain_error(CUresult result)
{
    return result >= CUDA_ERROR_ILLEGAL_ADDRESS && result < CUDA_ERROR_NOT_PERMITTED
               ? cudaErrorDevicesUnavailable
               : (cudaError_t)result;
}

cudaError_t rt_primary_context(int device, CUcontext *context_out)
{
    CUdevice handle;
    cudaError_t error = rt_device(device, &handle);

    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&lock);
    if (primaries[device].context == NULL)
        error =
            retain_error(rt_driver.cuDevicePrimaryCtxRetain(&primaries[device].context, handle));
    *context_out = primaries[device].context;
    pthread_mutex_unlock(&lock);
    return error;
}

void rt_release_contexts(void)
{
    CUdevice handle;

    pthread_mutex_lock(&lock);
    for (int device = 0; device < rt_device_count(); device++) {
        if (primaries[device].context != NULL && rt_device(device, &handle) == cudaSuccess)
            (void)rt_driver.cuDevicePrimaryCtxRelease(handle);
        primaries[device].context = NULL;
    }
    pthread_mutex_unlock(&lock);
}

static cudaError_t bind_thread(int device)
{
    CUcontext context;
    cudaError_t error = rt_primary_context(device, &context);

    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxSetCurrent(context);
    if (error == cudaSuccess) {
        thread_device = device;
        thread_bound = true;
        thread_generation = __atomic_load_n(&primaries[device].generation, __ATOMIC_ACQUIRE);
    }
    return error;
}

/* Another thread may have reset the device under this thread's context. */
static bool is_stale(void)
{
    unsigned *generation = &primaries[thread_device].generation;

    return thread_bound && thread_generation != __atomic_load_n(generation, __ATOMIC_ACQUIRE);
}

cudaError_t rt_enter(void)
{
    cudaError_t error = rt_load();
    CUcontext current = NULL;

    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxGetCurrent(&current);
    if (error == cudaSuccess && (current == NULL || is_stale()))
        error = bind_thread(thread_device);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = rt_load();

    if (error == cudaSuccess)
        error = bind_thread(device);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    cudaError_t error = rt_load();
    CUcontext context;

    (void)device_flags;
    if (error == cudaSuccess)
        error = flags > cudaInitDeviceFlagsAreValid ? cudaErrorInvalidValue
                                                    : rt_primary_context(device, &context);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = rt_load();
    CUcontext current = NULL;

    if (error == cudaSuccess && device == NULL)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxGetCurrent(&current);
    if (error != cudaSuccess)
        return rt_fail(error);
    *device = thread_device;
    /* A context that the program made itself counts, whatever cudaSetDevice said before. */
    return current == NULL ? cudaSuccess : rt_return(rt_driver.cuCtxGetDevice(device, current));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = rt_load();
    CUdevice handle;

    if (error == cudaSuccess && (flags & ~(unsigned)cudaDeviceMask) != 0)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_device(thread_device, &handle);
    return error != cudaSuccess ? rt_fail(error)
                                : rt_return(rt_driver.cuDevicePrimaryCtxSetFlags(handle, flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    CUdevice handle;
    cudaError_t error = rt_enter();
    int active;

    if (error != cudaSuccess)
        return error;
    error = flags == NULL ? cudaErrorInvalidValue : rt_device(thread_device, &handle);
    return error != cudaSuccess
               ? rt_fail(error)
               : rt_return(rt_driver.cuDevicePrimaryCtxGetState(handle, flags, &active));
}

cudaError_t cudaDeviceSynchronize(void)
{
    CUcontext current = NULL;
    cudaError_t error = RT_CALL(cuCtxGetCurrent, &current);

    return error != cudaSuccess ? error : rt_return(rt_driver.cuCtxSynchronize(current));
}

/* Destroys all of the device's memory, streams and events; the next call starts a new context. */
cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = rt_load();
    CUresult result = CUDA_SUCCESS;
    CUdevice handle;

    if (error == cudaSuccess)
        error = rt_device(thread_device, &handle);
    if (error != cudaSuccess)
        return rt_fail(error);
    pthread_mutex_lock(&lock);
    if (primaries[thread_device].context != NULL)
        result = rt_driver.cuDevicePrimaryCtxReset(handle);
    if (result == CUDA_SUCCESS) {
        primaries[thread_device].context = NULL;
        __atomic_add_fetch(&primaries[thread_device].generation, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return rt_return(result);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    return RT_CALL(cuCtxGetLimit, value, (CUlimit)limit);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    return RT_CALL(cuCtxSetLimit, (CUlimit)limit, value);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return RT_CALL(cuCtxGetStreamPriorityRange, least, greatest);
}
