/* SPDX-License-Identifier: MIT */
/* Copies with rows and slices: pitched memory and arrays. */
#include "../runtime.h"

/*
 * Gives the two sides of a 2D copy their types, which the kind sets unless they are arrays, and
 * checks them.  Nothing to copy gives *empty_out.  The error is recorded.
 */
static cudaError_t prepare(struct rt_side *dst, struct rt_side *src, size_t width, size_t height,
                           enum cudaMemcpyKind kind, bool *empty_out)
{
    CUmemorytype source, target;

    *empty_out = width == 0 || height == 0;
    if (!rt_sides_of(kind, &source, &target))
        return rt_fail(cudaErrorInvalidMemcpyDirection);
    if ((dst->array == NULL && width > dst->pitch) || (src->array == NULL && width > src->pitch))
        return rt_fail(cudaErrorInvalidPitchValue);
    dst->type = dst->array != NULL ? CU_MEMORYTYPE_ARRAY : target;
    src->type = src->array != NULL ? CU_MEMORYTYPE_ARRAY : source;
    dst->height = height;
    src->height = height;
    return rt_enter();
}

/* With an array NVIDIA's runtime makes a copy of one slice of it. */
static cudaError_t copy_now(struct rt_side dst, struct rt_side src, size_t width, size_t height,
                            enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    CUDA_MEMCPY3D slice;
    bool empty;
    cudaError_t error = prepare(&dst, &src, width, height, kind, &empty);

    if (error != cudaSuccess || empty)
        return error;
    if (dst.array != NULL || src.array != NULL) {
        rt_copy_3d(&slice, &dst, &src, width, height, 1);
        return RT_STREAM_CALL(cuMemcpy3D, &slice);
    }
    rt_copy_2d(&copy, &dst, &src, width, height);
    return RT_STREAM_CALL(cuMemcpy2DUnaligned, &copy);
}

static cudaError_t copy_async(struct rt_side dst, struct rt_side src, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    CUDA_MEMCPY3D slice;
    bool empty;
    cudaError_t error = prepare(&dst, &src, width, height, kind, &empty);

    if (error != cudaSuccess || empty)
        return error;
    if (dst.array != NULL || src.array != NULL) {
        rt_copy_3d(&slice, &dst, &src, width, height, 1);
        return RT_STREAM_CALL(cuMemcpy3DAsync, &slice, stream);
    }
    rt_copy_2d(&copy, &dst, &src, width, height);
    return RT_STREAM_CALL(cuMemcpy2DAsync, &copy, stream);
}

static struct rt_side in_memory(const void *pointer, size_t pitch)
{
    return (struct rt_side){.pointer = pointer, .pitch = pitch};
}

static struct rt_side in_array(cudaArray_const_t array, size_t x, size_t y)
{
    return (struct rt_side){.array = (CUarray)(uintptr_t)array, .x = x, .y = y};
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    return copy_now(in_memory(dst, dpitch), in_memory(src, spitch), width, height, kind);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    return copy_async(in_memory(dst, dpitch), in_memory(src, spitch), width, height, kind, stream);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t spitch,
                                size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return copy_now(in_array(dst, x, y), in_memory(src, spitch), width, height, kind);
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src,
                                     size_t spitch, size_t width, size_t height,
                                     enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async(in_array(dst, x, y), in_memory(src, spitch), width, height, kind, stream);
}

cudaError_t cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t x,
                                  size_t y, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return copy_now(in_memory(dst, dpitch), in_array(src, x, y), width, height, kind);
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t x,
                                       size_t y, size_t width, size_t height,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_async(in_memory(dst, dpitch), in_array(src, x, y), width, height, kind, stream);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t dst_x, size_t dst_y,
                                     cudaArray_const_t src, size_t src_x, size_t src_y,
                                     size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return copy_now(in_array(dst, dst_x, dst_y), in_array(src, src_x, src_y), width, height, kind);
}

/* With an array the elements' size is asked of the driver, so the context comes first. */
static cudaError_t describe_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy)
{
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    error = rt_copy_of_parms(p, copy);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = describe_3d(p, &copy);

    return error != cudaSuccess ? error : RT_STREAM_CALL(cuMemcpy3D, &copy);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = describe_3d(p, &copy);

    return error != cudaSuccess ? error : RT_STREAM_CALL(cuMemcpy3DAsync, &copy, stream);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    error = rt_copy_of_peer_parms(p, &copy);
    return error != cudaSuccess ? rt_fail(error) : RT_STREAM_CALL(cuMemcpy3DPeer, &copy);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D_PEER copy;
    cudaError_t error = rt_enter();

    if (error != cudaSuccess)
        return error;
    error = rt_copy_of_peer_parms(p, &copy);
    return error != cudaSuccess ? rt_fail(error)
                                : RT_STREAM_CALL(cuMemcpy3DPeerAsync, &copy, stream);
}
