/* SPDX-License-Identifier: MIT */
/* Linear copies, copies of symbols, and sets. */
#include "../runtime.h"

/* NVIDIA's runtime copies from host to host as one row. */
static CUDA_MEMCPY2D host_row(void *dst, const void *src, size_t count)
{
    struct rt_side target = {.type = CU_MEMORYTYPE_HOST, .pointer = dst, .pitch = count};
    struct rt_side source = {.type = CU_MEMORYTYPE_HOST, .pointer = src, .pitch = count};
    CUDA_MEMCPY2D copy;

    rt_copy_2d(&copy, &target, &source, count, 1);
    return copy;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    CUmemorytype source, target;
    CUDA_MEMCPY2D row;

    if (!rt_sides_of(kind, &source, &target))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    if (count == 0)
        return rt_enter();
    switch (kind) {
    case cudaMemcpyHostToHost:
        row = host_row(dst, src, count);
        return RT_STREAM_CALL(cuMemcpy2DUnaligned, &row);
    case cudaMemcpyHostToDevice:
        return RT_STREAM_CALL(cuMemcpyHtoD, rt_address(dst), src, count);
    case cudaMemcpyDeviceToHost:
        return RT_STREAM_CALL(cuMemcpyDtoH, dst, rt_address(src), count);
    case cudaMemcpyDeviceToDevice:
        return RT_STREAM_CALL(cuMemcpyDtoD, rt_address(dst), rt_address(src), count);
    default:
        return RT_STREAM_CALL(cuMemcpy, rt_address(dst), rt_address(src), count);
    }
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    CUmemorytype source, target;
    CUDA_MEMCPY2D row;

    if (!rt_sides_of(kind, &source, &target))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    if (count == 0)
        return rt_enter();
    switch (kind) {
    case cudaMemcpyHostToHost:
        row = host_row(dst, src, count);
        return RT_STREAM_CALL(cuMemcpy2DAsync, &row, stream);
    case cudaMemcpyHostToDevice:
        return RT_STREAM_CALL(cuMemcpyHtoDAsync, rt_address(dst), src, count, stream);
    case cudaMemcpyDeviceToHost:
        return RT_STREAM_CALL(cuMemcpyDtoHAsync, dst, rt_address(src), count, stream);
    case cudaMemcpyDeviceToDevice:
        return RT_STREAM_CALL(cuMemcpyDtoDAsync, rt_address(dst), rt_address(src), count, stream);
    default:
        return RT_STREAM_CALL(cuMemcpyAsync, rt_address(dst), rt_address(src), count, stream);
    }
}

/*
 * The address of bytes offset..offset+count of a variable.  `wrong` is the direction that this copy
 * cannot have.  The error is recorded.
 */
static cudaError_t part_of_symbol(const void *symbol, size_t offset, size_t count,
                                  enum cudaMemcpyKind kind, enum cudaMemcpyKind wrong,
                                  void **address_out)
{
    CUdeviceptr address = 0;
    size_t bytes;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    error = rt_symbol(symbol, &address, &bytes);
    if (error == cudaSuccess && (offset > bytes || count > bytes - offset))
        error = cudaErrorInvalidValue;
    if (error == cudaSuccess && kind == wrong)
        error = cudaErrorInvalidMemcpyDirection;
    *address_out = (void *)(uintptr_t)(address + offset);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    void *address;
    cudaError_t error =
        part_of_symbol(symbol, offset, count, kind, cudaMemcpyDeviceToHost, &address);

    return error != cudaSuccess ? error : cudaMemcpy(address, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    void *address;
    cudaError_t error =
        part_of_symbol(symbol, offset, count, kind, cudaMemcpyHostToDevice, &address);

    return error != cudaSuccess ? error : cudaMemcpy(dst, address, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
                                    size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *address;
    cudaError_t error =
        part_of_symbol(symbol, offset, count, kind, cudaMemcpyDeviceToHost, &address);

    return error != cudaSuccess ? error : cudaMemcpyAsync(address, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *address;
    cudaError_t error =
        part_of_symbol(symbol, offset, count, kind, cudaMemcpyHostToDevice, &address);

    return error != cudaSuccess ? error : cudaMemcpyAsync(dst, address, count, kind, stream);
}

cudaError_t cudaMemset(void *pointer, int value, size_t count)
{
    if (count == 0)
        return rt_enter();
    return RT_STREAM_CALL(cuMemsetD8, rt_address(pointer), (unsigned char)value, count);
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t count, cudaStream_t stream)
{
    if (count == 0)
        return rt_enter();
    return RT_STREAM_CALL(cuMemsetD8Async, rt_address(pointer), (unsigned char)value, count,
                          stream);
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    if (width == 0 || height == 0)
        return rt_enter();
    return RT_STREAM_CALL(cuMemsetD2D8, rt_address(pointer), pitch, (unsigned char)value, width,
                          height);
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    if (width == 0 || height == 0)
        return rt_enter();
    return RT_STREAM_CALL(cuMemsetD2D8Async, rt_address(pointer), pitch, (unsigned char)value,
                          width, height, stream);
}

/* Slices lie pitch * ysize apart, so a full slice after the other is one set with more rows. */
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                              cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;

    if (extent.height == p.ysize)
        return cudaMemset2DAsync(p.ptr, p.pitch, value, extent.width, extent.height * extent.depth,
                                 stream);
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = cudaMemset2DAsync((char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value,
                                  extent.width, extent.height, stream);
    return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    cudaError_t error = cudaSuccess;

    if (extent.height == p.ysize)
        return cudaMemset2D(p.ptr, p.pitch, value, extent.width, extent.height * extent.depth);
    for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++)
        error = cudaMemset2D((char *)p.ptr + z * p.pitch * p.ysize, p.pitch, value, extent.width,
                             extent.height);
    return error;
}
