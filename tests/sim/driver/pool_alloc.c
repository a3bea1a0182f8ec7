/* SPDX-License-Identifier: MIT */
/* Stream-ordered blocks: they exist from the call that allocates them until their stream reaches
 * the call that frees them. Also the export of pools, and the 13.0 names of the current pools. */
#include "capture.h"
#include "graph.h"
#include "pool.h"
#include "stream.h"
#include <string.h>

static void count(struct sim_block *block)
{
    struct sim_pool *pool = block->pool;
    block->counted = true;
    pool->used += block->size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
}

CUresult sim_pool_alloc(struct sim_pool *pool, size_t size, int device, struct sim_block **out)
{
    CUresult r = pool->managed ? sim_managed_alloc(size, NULL, device, pool, out)
                               : sim_device_alloc(size, SIM_POOLED, NULL, pool->device, pool, out);
    if (r != CUDA_SUCCESS)
        return r;
    pool->blocks++;
    count(*out);
    memcpy((*out)->access, pool->access, sizeof pool->access);
    return CUDA_SUCCESS;
}

static void uncount(struct sim_block *block)
{
    block->pool->used -= block->counted ? block->size : 0;
    block->counted = false;
}

/* The program gives a block up, and `stream` will free it. */
static void begin_free(struct sim_block *block, unsigned long long stream)
{
    block->freeing = true;
    block->freeing_in = stream;
    block->pool->freeing++;
    if (!block->graph_refs)
        uncount(block);
}

/* A block of that size which the stream has yet to free: work behind the free may have it at once
 * (measured on an H200). */
static struct sim_block *given_again(struct sim_pool *pool, size_t size, unsigned long long stream)
{
    struct sim_block *b;
    for (size_t i = 0; pool->freeing && (b = sim_block_at(i)) != NULL; i++)
        if (b->pool == pool && b->freeing && b->freeing_in == stream && b->size == size &&
            !b->graph_refs) {
            b->freeing = false;
            pool->freeing--;
            b->reused++;
            b->id = sim_next_id();
            count(b);
            return b;
        }
    return NULL;
}

void sim_pool_free(struct sim_block *block)
{
    struct sim_pool *pool = block->pool;
    if (block->reused) { /* one of the frees that streams have yet to come to is this one */
        block->reused--;
        begin_free(block, 0);
        return;
    }
    pool->freeing -= block->freeing;
    if (block->graph_refs) {
        block->dormant = true; /* a later launch allocates it again, at the same address */
        block->freeing = false;
        return;
    }
    pool->blocks--;
    uncount(block);
    if (!pool->managed)
        sim_device_free(block);
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t size, CUmemoryPool handle, bool current,
                            CUstream stream)
{
    struct sim_stream *s;
    struct sim_block *b;
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_pool *pool =
        current ? sim_devices[s->ctx->device].current_pool : sim_pool_of(handle);
    if (!sim_supports(s->ctx->device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!dptr || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (size == 0) {
        *dptr = 0;
        return CUDA_SUCCESS;
    }
    if (s->capture && pool->managed)
        return CUDA_ERROR_INVALID_VALUE; /* measured */
    if (s->capture)
        return sim_capture_alloc(s, pool, size, dptr);
    r = sim_capture_unsafe_call();
    if (r == CUDA_SUCCESS)
        r = sim_capture_implicit(s);
    if (r == CUDA_SUCCESS && (b = given_again(pool, size, s->id)) == NULL)
        r = sim_pool_alloc(pool, size, s->ctx->device, &b);
    if (r == CUDA_SUCCESS)
        *dptr = b->va;
    return r;
}

SIM_API_PTSZ(cuMemAllocAsync, (CUdeviceptr * dptr, size_t size, CUstream stream),
             (dptr, size, stream))
{
    return alloc_async(dptr, size, NULL, true, stream);
}

SIM_API_PTSZ(cuMemAllocFromPoolAsync,
             (CUdeviceptr * dptr, size_t size, CUmemoryPool pool, CUstream stream),
             (dptr, size, pool, stream))
{
    return alloc_async(dptr, size, pool, false, stream);
}

/* Blocks of cuMemAlloc may be freed in stream order too.  A pool's block is not in use from the
 * call on, though the stream has yet to come to it (measured on an H200). */
SIM_API_PTSZ(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream), (dptr, stream))
{
    struct sim_stream *s;
    struct sim_work work = {.kind = SIM_WORK_FREE, .u.free = dptr};
    CUresult r = sim_stream_find_bare(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (dptr == 0)
        return CUDA_SUCCESS;
    if (s->capture)
        return sim_capture_free(s, dptr);
    struct sim_block *b = sim_block_find(dptr);
    if (!b || b->va != dptr || b->freeing || b->dormant ||
        (b->kind != SIM_POOLED && b->kind != SIM_DEVICE && b->kind != SIM_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind == SIM_MANAGED && !b->pool)
        return CUDA_ERROR_NOT_SUPPORTED; /* measured */
    r = sim_capture_implicit(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (b->pool)
        begin_free(b, s->id);
    else
        b->freeing = true;
    return sim_submit(s, &work);
}

/* Pools can be shared with other processes only if their properties ask for it; sharing itself is
 * not simulated. */
SIM_API(cuMemPoolExportToShareableHandle,
        (void *out, CUmemoryPool handle, CUmemAllocationHandleType type, unsigned long long flags),
        (out, handle, type, flags))
{
    struct sim_pool *p = sim_pool_of(handle);
    if (!out || !p || flags || !(p->props.handleTypes & type))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_API(cuMemPoolExportPointer, (CUmemPoolPtrExportData * out, CUdeviceptr ptr), (out, ptr))
{
    struct sim_block *b = sim_block_find(ptr);
    if (!out || !b || b->kind != SIM_POOLED ||
        b->pool->props.handleTypes == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}

#if CUDA_VERSION >= 13000
/* The pool of managed memory near no device that nobody made. */
static struct sim_pool *managed_pool(const CUmemLocation *location, CUmemAllocationType type)
{
    bool named = location && location->type == CU_MEM_LOCATION_TYPE_NONE &&
                 type == CU_MEM_ALLOCATION_TYPE_MANAGED;
    return named ? sim_pool_managed() : NULL;
}

static CUresult device_of(const CUmemLocation *location, CUmemAllocationType type,
                          struct sim_device **out)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_device_valid(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = &sim_devices[location->id];
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetDefaultMemPool,
        (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
        (out, location, type))
{
    struct sim_device *d;
    if (out && (*out = (CUmemoryPool)managed_pool(location, type)) != NULL)
        return CUDA_SUCCESS;
    CUresult r = out ? device_of(location, type, &d) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUmemoryPool)d->default_pool;
    return r;
}

SIM_API(cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation *location, CUmemAllocationType type),
        (out, location, type))
{
    struct sim_device *d;
    if (out && (*out = (CUmemoryPool)managed_pool(location, type)) != NULL)
        return CUDA_SUCCESS;
    CUresult r = out ? device_of(location, type, &d) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUmemoryPool)d->current_pool;
    return r;
}

SIM_API(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool handle),
        (location, type, handle))
{
    struct sim_device *d;
    struct sim_pool *p = sim_pool_of(handle);
    CUresult r = p ? device_of(location, type, &d) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    if (d != &sim_devices[p->device])
        return CUDA_ERROR_INVALID_VALUE;
    d->current_pool = p;
    return CUDA_SUCCESS;
}
#endif
