/* SPDX-License-Identifier: MIT */
/* Linear memory: device, pinned, registered and managed; pointer attributes and IPC. */
#include "runtime.h"

#include <string.h>

/* cuMemAllocPitch aligns the rows for elements of this size; the largest it knows suits all. */
#define PITCH_ELEMENT_BYTES 16

/* An allocation of nothing succeeds with NULL in the runtime; the driver refuses it. */
cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (bytes > 0)
        error = rt_return(rt_driver.cuMemAlloc(&address, bytes));
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

/* The driver too takes NULL for nothing to free; programs use that to create the context. */
cudaError_t cudaFree(void *pointer)
{
    return RT_CALL(cuMemFree, rt_address(pointer));
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    cudaError_t error = rt_enter();

    if (error != cudaSuccess || bytes > 0)
        return error != cudaSuccess ? error
                                    : rt_return(rt_driver.cuMemHostAlloc(pointer, bytes, flags));
    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *pointer = NULL;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return RT_CALL(cuMemFreeHost, pointer);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    return RT_CALL(cuMemHostRegister, pointer, bytes, flags);
}

cudaError_t cudaHostUnregister(void *pointer)
{
    return RT_CALL(cuMemHostUnregister, pointer);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
    CUdeviceptr address = 0;
    cudaError_t error = RT_CALL(cuMemHostGetDevicePointer, &address, host, flags);

    if (error == cudaSuccess)
        *device = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *host)
{
    return RT_CALL(cuMemHostGetFlags, flags, host);
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    if (bytes > 0)
        error = rt_return(rt_driver.cuMemAllocManaged(&address, bytes, flags));
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    if (pointer == NULL || pitch == NULL)
        return rt_fail(cudaErrorInvalidValue);
    *pitch = 0;
    if (width > 0 && height > 0)
        error = rt_return(
            rt_driver.cuMemAllocPitch(&address, pitch, width, height, PITCH_ELEMENT_BYTES));
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    void *pointer = NULL;
    size_t pitch;
    cudaError_t error;

    if (pitched == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
    if (error == cudaSuccess) {
        pitched->ptr = pointer;
        pitched->pitch = pitch;
        pitched->xsize = extent.width;
        pitched->ysize = extent.height;
    }
    return error;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    return RT_CALL(cuMemGetInfo, free, total);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};

    return RT_CALL(cuMemAdvise, rt_address(pointer), bytes, (CUmem_advise)advice, where);
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_size,
                                     enum cudaMemRangeAttribute attribute, const void *pointer,
                                     size_t bytes)
{
    return RT_CALL(cuMemRangeGetAttribute, data, data_size, (CUmem_range_attribute)attribute,
                   rt_address(pointer), bytes);
}

/* For unknown memory the driver gives no memory type, which is cudaMemoryTypeUnregistered. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    CUmemorytype type = (CUmemorytype)0;
    unsigned managed = 0;
    int device = cudaInvalidDeviceId;
    CUdeviceptr device_pointer = 0;
    void *host_pointer = NULL;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
    };
    void *values[] = {&type, &managed, &device, &device_pointer, &host_pointer};
    cudaError_t error;

    if (attributes == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = RT_CALL(cuPointerGetAttributes, sizeof(which) / sizeof(which[0]), which, values,
                    rt_address(pointer));
    if (error != cudaSuccess)
        return error;
    memset(attributes, 0, sizeof(*attributes));
    if (managed)
        attributes->type = cudaMemoryTypeManaged;
    else if (type == CU_MEMORYTYPE_HOST)
        attributes->type = cudaMemoryTypeHost;
    else if (type == CU_MEMORYTYPE_DEVICE)
        attributes->type = cudaMemoryTypeDevice;
    else
        attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)device_pointer;
    attributes->hostPointer = host_pointer;
    if (attributes->type == cudaMemoryTypeUnregistered)
        attributes->hostPointer = (void *)(uintptr_t)pointer;
    return cudaSuccess;
}

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "one handle, two names");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    return RT_CALL(cuIpcGetMemHandle, (CUipcMemHandle *)handle, rt_address(pointer));
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle copy;
    CUdeviceptr address = 0;
    cudaError_t error;

    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memcpy(&copy, &handle, sizeof(copy));
    error = RT_CALL(cuIpcOpenMemHandle, &address, copy, flags);
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    return RT_CALL(cuIpcCloseMemHandle, rt_address(pointer));
}
