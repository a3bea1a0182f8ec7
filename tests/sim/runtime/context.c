/* SPDX-License-Identifier: MIT */
/* The thread's device, primary contexts, and the device-wide calls that need nothing else. */
#include "runtime.h"

#include <pthread.h>

/* One device's primary context, as this runtime holds it. */
struct primary {
    CUcontext context; /* as it was retained last */
    bool retained;     /* false before the first call, and after a reset until the next one */
};

static struct primary primaries[RT_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards primaries */
static bool was_reset; /* a device was reset, so that a current context may be one that is gone */

static __thread int thread_device;

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
    struct primary *primary = &primaries[device];
    unsigned flags;
    int active = 0;

    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&lock);
    /* The program may have reset it by the driver. */
    if (primary->retained)
        (void)rt_driver.cuDevicePrimaryCtxGetState(handle, &flags, &active);
    if (!active) {
        error = retain_error(rt_driver.cuDevicePrimaryCtxRetain(&primary->context, handle));
        primary->retained = error == cudaSuccess;
    }
    *context_out = primary->context;
    pthread_mutex_unlock(&lock);
    return error;
}

void rt_release_contexts(void)
{
    CUdevice handle;

    pthread_mutex_lock(&lock);
    for (int device = 0; device < rt_device_count(); device++) {
        if (primaries[device].retained && rt_device(device, &handle) == cudaSuccess)
            (void)rt_driver.cuDevicePrimaryCtxRelease(handle);
        primaries[device].retained = false;
    }
    pthread_mutex_unlock(&lock);
}

static cudaError_t bind_thread(int device)
{
    CUcontext context;
    cudaError_t error = rt_primary_context(device, &context);

    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxSetCurrent(context);
    if (error == cudaSuccess)
        thread_device = device;
    return error;
}

/* The device whose primary context is current but was reset, or -1. A reset leaves the context
 * current to its threads, and the next call of the runtime brings it back (CUDA Runtime API,
 * "Interactions with the CUDA Driver API"). */
static int device_to_restart(CUcontext current)
{
    int found = -1;

    if (!__atomic_load_n(&was_reset, __ATOMIC_ACQUIRE))
        return -1;
    pthread_mutex_lock(&lock);
    for (int device = 0; device < RT_MAX_DEVICES; device++)
        if (primaries[device].context == current && !primaries[device].retained)
            found = device;
    pthread_mutex_unlock(&lock);
    return found;
}

cudaError_t rt_enter(void)
{
    cudaError_t error = rt_load();
    CUcontext current = NULL;
    int device = thread_device;

    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxGetCurrent(&current);
    if (error == cudaSuccess && current != NULL)
        device = device_to_restart(current);
    if (error == cudaSuccess && device >= 0)
        error = bind_thread(device);
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

/* A context that the program made itself counts, whatever cudaSetDevice said before. */
static cudaError_t current_device(int *device_out)
{
    cudaError_t error = rt_load();
    CUcontext current = NULL;

    *device_out = thread_device;
    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuCtxGetCurrent(&current);
    if (error == cudaSuccess && current != NULL)
        error = (cudaError_t)rt_driver.cuCtxGetDevice(device_out, current);
    return error;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = device == NULL ? cudaErrorInvalidValue : current_device(device);

    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    int device;
    CUdevice handle;
    cudaError_t error = current_device(&device);

    if (error == cudaSuccess && (flags & ~(unsigned)cudaDeviceMask) != 0)
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess)
        error = rt_device(device, &handle);
    return error != cudaSuccess ? rt_fail(error)
                                : rt_return(rt_driver.cuDevicePrimaryCtxSetFlags(handle, flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    CUdevice handle;
    cudaError_t error = rt_enter();
    int device, active;

    if (error != cudaSuccess)
        return error;
    error = flags == NULL ? cudaErrorInvalidValue : current_device(&device);
    if (error == cudaSuccess)
        error = rt_device(device, &handle);
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

/* Destroys all of the device's memory, streams and events, whoever retained its context; the next
 * call starts a new one. */
cudaError_t cudaDeviceReset(void)
{
    int device, active = 0;
    unsigned flags;
    CUdevice handle;
    CUcontext context;
    cudaError_t error = current_device(&device);
    CUresult result;

    if (error == cudaSuccess)
        error = rt_device(device, &handle);
    if (error == cudaSuccess)
        error = (cudaError_t)rt_driver.cuDevicePrimaryCtxGetState(handle, &flags, &active);
    if (error == cudaSuccess && active)
        error = rt_primary_context(device, &context); /* to know it again in its threads */
    if (error != cudaSuccess)
        return rt_fail(error);
    pthread_mutex_lock(&lock);
    result = rt_driver.cuDevicePrimaryCtxReset(handle);
    if (result == CUDA_SUCCESS) {
        primaries[device].retained = false;
        __atomic_store_n(&was_reset, true, __ATOMIC_RELEASE);
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
