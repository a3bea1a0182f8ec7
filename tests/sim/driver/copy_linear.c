/* SPDX-License-Identifier: MIT */
/* Linear copies: cuMemcpy and its typed, peer and array forms. The typed forms take any address
 * that the driver can place, as unified addressing lets the real one do; but a device parameter
 * must be memory that the GPU can reach. */
#include "array.h"
#include "copy.h"

#define HOST CU_MEMORYTYPE_UNIFIED /* a host parameter may be any address */
#define DEVICE CU_MEMORYTYPE_DEVICE
#define ANY CU_MEMORYTYPE_UNIFIED

static CUresult linear(CUmemorytype dst_type, CUdeviceptr dst, CUmemorytype src_type,
                       CUdeviceptr src, size_t n, CUstream stream, enum sim_copy_mode mode)
{
    CUDA_MEMCPY3D shape = sim_copy_linear(dst_type, dst, src_type, src, n);
    return sim_copy(&shape, stream, mode);
}

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

SIM_API_PTDS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n))
{
    return linear(ANY, dst, ANY, src, n, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
             (dst, src, n, stream))
{
    return linear(ANY, dst, ANY, src, n, stream, SIM_COPY_ASYNC);
}

/* Of no CUDA, see future.c. */
SIM_ALIAS_PTSZ(cuMemcpyAsync_v2, body_cuMemcpyAsync,
               (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), (dst, src, n, stream))
SIM_ALIAS_PTSZ(cuMemcpyFutureAsync, body_cuMemcpyAsync,
               (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream), (dst, src, n, stream))

SIM_API_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), (dst, src, n))
{
    return linear(DEVICE, dst, HOST, address(src), n, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream stream),
             (dst, src, n, stream))
{
    return linear(DEVICE, dst, HOST, address(src), n, stream, SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), (dst, src, n))
{
    return linear(HOST, address(dst), DEVICE, src, n, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream stream),
             (dst, src, n, stream))
{
    return linear(HOST, address(dst), DEVICE, src, n, stream, SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n))
{
    return linear(DEVICE, dst, DEVICE, src, n, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
             (dst, src, n, stream))
{
    return linear(DEVICE, dst, DEVICE, src, n, stream, SIM_COPY_ASYNC);
}

static CUresult peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                     size_t n, CUstream stream, enum sim_copy_mode mode)
{
    CUDA_MEMCPY3D shape = sim_copy_linear(DEVICE, dst, DEVICE, src, n);
    shape.reserved0 = src_ctx;
    shape.reserved1 = dst_ctx;
    return sim_copy_peer(&shape, stream, mode);
}

SIM_API_PTDS(cuMemcpyPeer,
             (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n),
             (dst, dst_ctx, src, src_ctx, n))
{
    return peer(dst, dst_ctx, src, src_ctx, n, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyPeerAsync,
             (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t n,
              CUstream stream),
             (dst, dst_ctx, src, src_ctx, n, stream))
{
    return peer(dst, dst_ctx, src, src_ctx, n, stream, SIM_COPY_ASYNC);
}

/* Linear copies of arrays have offsets in bytes into one-dimensional arrays.  An H200's driver
 * refuses them in further rows. */
static CUresult array_end(CUarray array, size_t offset, size_t n)
{
    struct sim_array *a = sim_array_of(array);
    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    return offset > a->row || n > a->row - offset ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Which sides are arrays. */
enum sides { TO_ARRAY = 1, FROM_ARRAY = 2 };

static CUresult with_arrays(enum sides sides, CUarray dst_array, CUdeviceptr dst, CUarray src_array,
                            CUdeviceptr src, size_t n, bool device_side, CUstream stream,
                            enum sim_copy_mode mode)
{
    CUmemorytype type = device_side ? DEVICE : HOST;
    CUDA_MEMCPY3D c = sim_copy_linear(type, dst, type, src, n);
    CUresult r = CUDA_SUCCESS;
    if (sides & TO_ARRAY) {
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = dst_array;
        c.dstXInBytes = dst;
        r = array_end(dst_array, dst, n);
    }
    if (sides & FROM_ARRAY && r == CUDA_SUCCESS) {
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c.srcArray = src_array;
        c.srcXInBytes = src;
        r = array_end(src_array, src, n);
    }
    return r == CUDA_SUCCESS ? sim_copy(&c, stream, mode) : r;
}

SIM_API_PTDS(cuMemcpyDtoA_v2, (CUarray dst, size_t offset, CUdeviceptr src, size_t n),
             (dst, offset, src, n))
{
    return with_arrays(TO_ARRAY, dst, offset, NULL, src, n, true, NULL, SIM_COPY_SYNC);
}

SIM_API_PTDS(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t offset, size_t n),
             (dst, src, offset, n))
{
    return with_arrays(FROM_ARRAY, NULL, dst, src, offset, n, true, NULL, SIM_COPY_SYNC);
}

SIM_API_PTDS(cuMemcpyHtoA_v2, (CUarray dst, size_t offset, const void *src, size_t n),
             (dst, offset, src, n))
{
    return with_arrays(TO_ARRAY, dst, offset, NULL, address(src), n, false, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyHtoAAsync_v2,
             (CUarray dst, size_t offset, const void *src, size_t n, CUstream stream),
             (dst, offset, src, n, stream))
{
    return with_arrays(TO_ARRAY, dst, offset, NULL, address(src), n, false, stream, SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t offset, size_t n),
             (dst, src, offset, n))
{
    return with_arrays(FROM_ARRAY, NULL, address(dst), src, offset, n, false, NULL, SIM_COPY_SYNC);
}

SIM_API_PTSZ(cuMemcpyAtoHAsync_v2,
             (void *dst, CUarray src, size_t offset, size_t n, CUstream stream),
             (dst, src, offset, n, stream))
{
    return with_arrays(FROM_ARRAY, NULL, address(dst), src, offset, n, false, stream,
                       SIM_COPY_ASYNC);
}

SIM_API_PTDS(cuMemcpyAtoA_v2,
             (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t n),
             (dst, dst_offset, src, src_offset, n))
{
    return with_arrays(TO_ARRAY | FROM_ARRAY, dst, dst_offset, src, src_offset, n, true, NULL,
                       SIM_COPY_SYNC);
}
