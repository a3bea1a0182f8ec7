/* SPDX-License-Identifier: MIT */
/* Requests for device memory, and for arrays. */
#include "base/life.h"
#include "driver/copy.h"
#include "driver/stream.h"
#include "hook/request.h"
#include "memory/device.h"
#include "memory/reclaim.h"

ZC_ORIGINAL(call_alloc, cuMemAlloc_v2, f->dptr, f->bytes)

ZC_BODY(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytes))
{
    struct zc_request request =
        ZC_REQUEST(cuMemAlloc, bytes, DEVICE, .flags = ZC_BLOCK_SYNC_MEMOPS);
    return ZC_ALLOCATE(request, call_alloc, .dptr = dptr, .bytes = bytes);
}

/* A converted pitched block has the pitch that the driver would choose: the width rounded up to the
 * texture alignment. */
static size_t pitch_of(size_t width)
{
    CUdevice device = 0;
    int alignment = 0;
    if (zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        zc_real.cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, device) !=
            CUDA_SUCCESS ||
        alignment <= 0)
        return 0;
    size_t unit = (size_t)alignment, pitch = (width + unit - 1) / unit * unit;
    return pitch < width ? 0 : pitch;
}

ZC_ORIGINAL(call_pitch, cuMemAllocPitch_v2, f->dptr, f->pitch, f->width, f->height, f->element)

ZC_BODY(cuMemAllocPitch_v2,
        (CUdeviceptr * dptr, size_t *pitch, size_t width, size_t height, unsigned int element))
{
    size_t rows = 0, bytes = 0;
    bool good = dptr && pitch && width && height && (element == 4 || element == 8 || element == 16);
    if (good)
        rows = pitch_of(width);
    if (!rows || __builtin_mul_overflow(rows, height, &bytes))
        return real(dptr, pitch, width, height, element);
    struct zc_request request =
        ZC_REQUEST(cuMemAllocPitch, bytes, DEVICE, .flags = ZC_BLOCK_SYNC_MEMOPS);
    CUresult result = ZC_ALLOCATE(request, call_pitch, .dptr = dptr, .pitch = pitch, .width = width,
                                  .height = height, .element = element);
    if (result == CUDA_SUCCESS && zc_converted_at(*dptr))
        *pitch = rows; /* Otherwise the driver has stored it. */
    return result;
}

ZC_ORIGINAL(call_async, cuMemAllocAsync, f->dptr, f->bytes, f->stream)

ZC_BODY(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytes, CUstream stream))
{
    struct zc_request request =
        ZC_REQUEST(cuMemAllocAsync, bytes, DEVICE, .flags = ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS,
                   .stream = zc_stream_kind_of(stream, entry->flavour));
    return ZC_ALLOCATE(request, call_async, .dptr = dptr, .bytes = bytes, .stream = stream);
}

/* The program has had a pool whose memory is not a device's.  Atomic. */
static bool pool_other;

void zc_pool_note(const CUmemLocation *location, CUmemAllocationType type)
{
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED || zc_location_device(location) < 0)
        __atomic_store_n(&pool_other, true, __ATOMIC_RELAXED);
}

ZC_ORIGINAL(call_from_pool, cuMemAllocFromPoolAsync, f->dptr, f->bytes, f->pool, f->stream)

ZC_BODY(cuMemAllocFromPoolAsync,
        (CUdeviceptr * dptr, size_t bytes, CUmemoryPool pool, CUstream stream))
{
    struct zc_request request = ZC_REQUEST(cuMemAllocFromPoolAsync, bytes, DEVICE,
                                           .flags = ZC_BLOCK_STREAM | ZC_BLOCK_SYNC_MEMOPS,
                                           .stream = zc_stream_kind_of(stream, entry->flavour));
    if (!__atomic_load_n(&pool_other, __ATOMIC_RELAXED))
        return ZC_ALLOCATE(request, call_from_pool, .dptr = dptr, .bytes = bytes, .stream = stream,
                           .pool = pool);
    CUresult result = ZC_RECLAIMING(real(dptr, bytes, pool, stream));
    if (result == CUDA_SUCCESS && zc_request_begin(&request)) {
        request.asked = zc_memory_type(*dptr) == CU_MEMORYTYPE_HOST ? ZC_KIND_PINNED
                        : zc_memory_managed(*dptr)                  ? ZC_KIND_MANAGED
                                                                    : ZC_KIND_DEVICE;
        zc_request_track(&request, *dptr, NULL, NULL, NULL);
    }
    return result;
}

/* The program asks for managed memory itself: counted, and left as it is. */
ZC_BODY(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytes, unsigned int flags))
{
    struct zc_request request = ZC_REQUEST(cuMemAllocManaged, bytes, MANAGED);
    CUresult result = ZC_RECLAIMING(real(dptr, bytes, flags));
    if (result == CUDA_SUCCESS && zc_request_begin(&request))
        zc_request_track(&request, *dptr, NULL, NULL, NULL);
    return result;
}
