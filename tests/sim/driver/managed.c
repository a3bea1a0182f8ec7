/* SPDX-License-Identifier: MIT */
/* Managed memory: one address for CPU and GPU. Its pages are the CPU's, but its bytes count against
 * the device, and there is never more of it than the device has free: on real hardware that much
 * can hang the GPU for everyone.  With SIM_MANAGED=untouched its pages are nowhere until they are
 * touched, as on real hardware, and take nothing of the device. */
#define _GNU_SOURCE
#include "capture.h"
#include "hmm.h"
#include "memory.h"
#include "pages.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool untouched(void)
{
    const char *text = getenv("SIM_MANAGED");
    return text && !strcmp(text, "untouched");
}

CUresult sim_managed_alloc(size_t size, struct sim_context *ctx, int device, struct sim_pool *pool,
                           struct sim_block **out)
{
    size_t bytes = (size + 4095) / 4096 * 4096;
    size_t taken = untouched() ? 0 : bytes;
    if (bytes < size || !sim_device_take(device, taken))
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *p = sim_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        sim_device_give(device, taken);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p[0] = p[size - 1] = (char)0xA5; /* Memory that was used before is not cleared. */
    struct sim_block *b = sim_block_add((CUdeviceptr)(uintptr_t)p, size, SIM_MANAGED, device, ctx);
    b->storage = p;
    b->footprint = bytes;
    b->taken = taken;
    b->flags = CU_MEM_ATTACH_GLOBAL;
    b->pool = pool;
    *out = b;
    return CUDA_SUCCESS;
}

SIM_API(cuMemAllocManaged, (CUdeviceptr * dptr, size_t size, unsigned int flags),
        (dptr, size, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_supports(ctx->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_block *b;
    r = sim_managed_alloc(size, ctx, ctx->device, NULL, &b);
    if (r != CUDA_SUCCESS)
        return r;
    b->flags = flags;
    *dptr = b->va;
    return CUDA_SUCCESS;
}

/* The managed block that holds a whole range, or NULL. */
static struct sim_block *managed(CUdeviceptr va, size_t count)
{
    struct sim_block *b = sim_block_find(va);
    bool inside = b && b->kind == SIM_MANAGED && count > 0 && count <= b->footprint - (va - b->va);
    return inside ? b : NULL;
}

/* Index of a location in an access table, or -1. */
static int user_of(CUmemLocation at)
{
    switch ((int)at.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_valid(at.id) ? at.id : -1;
    case CU_MEM_LOCATION_TYPE_HOST:
        return SIM_CPU;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return at.id == 0 ? SIM_CPU : -1;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return SIM_CPU;
    default:
        return -1;
    }
}

static CUmemLocation location_of(CUdevice dev)
{
    CUmemLocation at = {CU_MEM_LOCATION_TYPE_DEVICE, dev};
    if (dev == CU_DEVICE_CPU)
        at = (CUmemLocation){(CUmemLocationType)CU_MEM_LOCATION_TYPE_HOST, 0};
    return at;
}

/* Memory that nobody gave to the driver, and that the device reaches all the same, takes advice
 * (CUDA driver API, cuMemAdvise); what comes of it is not simulated. */
static bool is_system(CUdeviceptr va, size_t count, int device)
{
    return sim_reaches_all(device) && va && count && !sim_va_reserved(va) &&
           !sim_block_overlap(va, count);
}

/* The location counts for advice that names one; the others ignore it (CUDA driver API,
 * cuMemAdvise). */
static CUresult advise(CUdeviceptr va, size_t count, CUmem_advise advice, CUmemLocation at)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = managed(va, count);
    int user = user_of(at);
    bool needs_user = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                      advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                      advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    if (!b && !is_system(va, count, ctx->device))
        return CUDA_ERROR_INVALID_VALUE;
    if (b && b->pool)
        return CUDA_ERROR_NOT_SUPPORTED; /* measured */
    if (needs_user && user < 0)
        return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                      : CUDA_ERROR_INVALID_VALUE;
    if (!b)
        return CUDA_SUCCESS;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        b->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        b->preferred = at;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        b->preferred = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, 0};
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        b->accessed_by[user] = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_API(cuMemAdvise, (CUdeviceptr va, size_t count, CUmem_advise advice, CUdevice dev),
        (va, count, advice, dev))
{
    return advise(va, count, advice, location_of(dev));
}

SIM_API(cuMemAdvise_v2, (CUdeviceptr va, size_t count, CUmem_advise advice, CUmemLocation at),
        (va, count, advice, at))
{
    return advise(va, count, advice, at);
}

/* Nothing moves in the simulation; the call takes its place in the stream. */
static CUresult prefetch(CUdeviceptr va, size_t count, CUmemLocation at, unsigned flags,
                         CUstream handle)
{
    struct sim_stream *s;
    struct sim_work nothing = {.kind = SIM_WORK_EMPTY};
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = managed(va, count);
    if ((!b && !is_system(va, count, s->ctx->device)) || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (user_of(at) < 0)
        return at.type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
                                                      : CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    r = sim_capture_implicit(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (b)
        b->prefetched = at;
    return sim_submit(s, &nothing);
}

SIM_API_PTSZ(cuMemPrefetchAsync, (CUdeviceptr va, size_t count, CUdevice dev, CUstream stream),
             (va, count, dev, stream))
{
    return prefetch(va, count, location_of(dev), 0, stream);
}

SIM_API_PTSZ(cuMemPrefetchAsync_v2,
             (CUdeviceptr va, size_t count, CUmemLocation at, unsigned int flags, CUstream stream),
             (va, count, at, flags, stream))
{
    return prefetch(va, count, at, flags, stream);
}

#if CUDA_VERSION >= 13000
/* Checks all ranges of a batch. */
static bool ranges_managed(const CUdeviceptr *ptrs, const size_t *sizes, size_t count,
                           unsigned long long flags)
{
    bool valid = ptrs && sizes && count && !flags;
    for (size_t i = 0; valid && i < count; i++)
        valid = managed(ptrs[i], sizes[i]) != NULL;
    return valid;
}

static CUresult prefetch_batch(CUdeviceptr *ptrs, size_t *sizes, size_t count,
                               CUmemLocation *locations, size_t *starts, size_t n,
                               unsigned long long flags, CUstream stream)
{
    CUresult r = CUDA_SUCCESS;
    if (!ranges_managed(ptrs, sizes, count, flags) || !locations || !starts || n == 0 ||
        n > count || starts[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, k = 0; i < count && r == CUDA_SUCCESS; i++) {
        k += k + 1 < n && starts[k + 1] == i;
        r = prefetch(ptrs[i], sizes[i], locations[k], 0, stream);
    }
    return r;
}

SIM_API_PTSZ(cuMemPrefetchBatchAsync,
             (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
              size_t *starts, size_t n, unsigned long long flags, CUstream stream),
             (ptrs, sizes, count, locations, starts, n, flags, stream))
{
    return prefetch_batch(ptrs, sizes, count, locations, starts, n, flags, stream);
}

SIM_API_PTSZ(cuMemDiscardAndPrefetchBatchAsync,
             (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
              size_t *starts, size_t n, unsigned long long flags, CUstream stream),
             (ptrs, sizes, count, locations, starts, n, flags, stream))
{
    return prefetch_batch(ptrs, sizes, count, locations, starts, n, flags, stream);
}

SIM_API_PTSZ(cuMemDiscardBatchAsync,
             (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags,
              CUstream stream),
             (ptrs, sizes, count, flags, stream))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    return ranges_managed(ptrs, sizes, count, flags) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

/* The last destination of a managed block or of a page of the host. */
static CUresult location_at(CUdeviceptr va, size_t count, CUmemLocation *out)
{
    const struct sim_block *b = managed(va, count);
    struct sim_place place;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    *out = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    if (b)
        *out = b->prefetched;
    else if (r == CUDA_SUCCESS)
        r = sim_resolve(va, count, ctx->device, false, true, &place) == CUDA_SUCCESS &&
                    place.kind == SIM_PAGEABLE
                ? CUDA_SUCCESS
                : CUDA_ERROR_INVALID_VALUE;
    return r;
}

SIM_API(cuMemGetLocationInfo,
        (CUdeviceptr va, size_t count, size_t summary, size_t sampling, CUmemLocation *out),
        (va, count, summary, sampling, out))
{
    CUmemLocation at;
    if (!out || !summary || summary > count || sampling > summary)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = location_at(va, count, &at);
    for (size_t done = 0; r == CUDA_SUCCESS && done < count; done += summary)
        *out++ = at;
    return r;
}

SIM_API_PTSZ(cuStreamAttachMemAsync,
             (CUstream stream, CUdeviceptr va, size_t length, unsigned int flags),
             (stream, va, length, flags))
{
    struct sim_stream *s;
    struct sim_work nothing = {.kind = SIM_WORK_EMPTY};
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = sim_block_find(va);
    bool single = flags == CU_MEM_ATTACH_SINGLE;
    bool known = single || flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (!b || b->kind != SIM_MANAGED || !known ||
        (length != 0 && (va != b->va || length != b->size)))
        return CUDA_ERROR_INVALID_VALUE;
    if (single && s->builtin)
        return CUDA_ERROR_INVALID_VALUE; /* no single association with a default stream */
    if (s->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    b->flags = flags;
    return sim_submit(s, &nothing);
}
