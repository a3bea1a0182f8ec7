/* SPDX-License-Identifier: MIT */
/* Memory in stream order: allocation from pools, prefetching and attaching managed memory. */
#include "../runtime.h"

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = RT_STREAM_CALL(cuMemAllocAsync, &address, bytes, stream);
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    CUdeviceptr address = 0;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    if (pointer == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = RT_STREAM_CALL(cuMemAllocFromPoolAsync, &address, bytes, pool, stream);
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return RT_STREAM_CALL(cuMemFreeAsync, rt_address(pointer), stream);
}

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};

    return RT_STREAM_CALL(cuMemPrefetchAsync, rt_address(pointer), bytes, where, flags, stream);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes,
                                     unsigned int flags)
{
    return RT_STREAM_CALL(cuStreamAttachMemAsync, stream, rt_address(pointer), bytes, flags);
}
