/* SPDX-License-Identifier: MIT */
/* Device memory: cuMemAlloc, cuMemAllocPitch, cuMemFree, cuMemGetInfo, cuMemGetAddressRange. Blocks
 * of up to 1 MiB share 2 MiB chunks in units of 512 bytes; larger ones have pages of their own. */
#include "graph.h"
#include "capture.h"
#include "memory.h"
#include "pool.h"
#include <stdlib.h>
#include <string.h>

#define UNIT 512u
#define UNITS (SIM_PAGE / UNIT)

/* 2 MiB of device memory, shared by small blocks of one kind and one pool. */
struct sim_chunk {
    struct sim_chunk *next;     /* of the device */
    CUdeviceptr va;             /* first address */
    const void *owner;          /* pool of all its blocks; NULL for cuMemAlloc */
    unsigned used;              /* units in use */
    unsigned char taken[UNITS]; /* one byte a unit */
};

bool sim_device_take(int device, size_t bytes)
{
    struct sim_device *d = &sim_devices[device];
    if (bytes > d->total)
        return false;
    for (int tries = 0; __atomic_add_fetch(d->used, bytes, __ATOMIC_RELAXED) > d->total; tries++) {
        __atomic_fetch_sub(d->used, bytes, __ATOMIC_RELAXED);
        if (tries > 0)
            return false;
        sim_pools_trim(device);
    }
    d->own += bytes;
    return true;
}

void sim_device_give(int device, size_t bytes)
{
    __atomic_fetch_sub(sim_devices[device].used, bytes, __ATOMIC_RELAXED);
    sim_devices[device].own -= bytes;
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Device memory for pages of a pool comes from the pool's reserve, other memory from the device. */
static bool pages_take(int device, struct sim_pool *pool, size_t bytes)
{
    return pool ? sim_pool_take(pool, bytes) : sim_device_take(device, bytes);
}

static void pages_give(int device, struct sim_pool *pool, size_t bytes)
{
    if (pool)
        sim_pool_give(pool, bytes);
    else
        sim_device_give(device, bytes);
}

static CUdeviceptr pages_alloc(size_t bytes, int device, struct sim_pool *pool)
{
    if (!pages_take(device, pool, bytes))
        return 0;
    CUdeviceptr va = sim_va_take(bytes, SIM_PAGE);
    if (va && sim_alias_back(va, bytes, device))
        return va;
    if (va)
        sim_va_give(va, bytes);
    pages_give(device, pool, bytes);
    return 0;
}

static void pages_free(CUdeviceptr va, size_t bytes, int device, struct sim_pool *pool)
{
    sim_alias_drop(va, bytes, device);
    sim_va_give(va, bytes);
    pages_give(device, pool, bytes);
}

/* First run of `units` free units, or -1. */
static int chunk_fit(const struct sim_chunk *c, unsigned units)
{
    if (UNITS - c->used < units)
        return -1;
    for (unsigned i = 0, run = 0; i < UNITS; i++) {
        run = c->taken[i] ? 0 : run + 1;
        if (run == units)
            return (int)(i + 1 - units);
    }
    return -1;
}

/* An empty chunk, in no list: the spare one if there is one. */
static struct sim_chunk *chunk_new(int device, struct sim_pool *pool)
{
    struct sim_chunk *c = sim_devices[device].spare;
    if (c) {
        if (!pages_take(device, pool, SIM_PAGE))
            return NULL;
        sim_devices[device].spare = NULL;
        return c;
    }
    CUdeviceptr va = pages_alloc(SIM_PAGE, device, pool);
    if (!va)
        return NULL;
    c = calloc(1, sizeof *c);
    c->va = va;
    return c;
}

/* Without a spare, a program that allocates and frees one small block would map 2 MiB each time. */
static void chunk_free(struct sim_chunk *c, int device, struct sim_pool *pool)
{
    if (!sim_devices[device].spare) {
        sim_devices[device].spare = c;
        pages_give(device, pool, SIM_PAGE);
        return;
    }
    pages_free(c->va, SIM_PAGE, device, pool);
    free(c);
}

static struct sim_chunk *chunk_of(int device, struct sim_pool *pool, unsigned units, int *at)
{
    for (struct sim_chunk *c = sim_devices[device].chunks; c; c = c->next)
        if (c->owner == pool && (*at = chunk_fit(c, units)) >= 0)
            return c;
    struct sim_chunk *c = chunk_new(device, pool);
    if (!c)
        return NULL;
    c->owner = pool;
    c->next = sim_devices[device].chunks;
    sim_devices[device].chunks = c;
    *at = 0;
    return c;
}

static CUresult small_alloc(size_t size, enum sim_kind kind, struct sim_context *ctx, int device,
                            struct sim_pool *pool, struct sim_block **out)
{
    unsigned units = (unsigned)(round_up(size, UNIT) / UNIT);
    int at;
    struct sim_chunk *c = chunk_of(device, pool, units, &at);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(c->taken + at, 1, units);
    c->used += units;
    CUdeviceptr va = c->va + (size_t)at * UNIT;
    struct sim_block *b = sim_block_add(va, size, kind, device, ctx);
    b->chunk = c;
    b->pool = pool;
    b->storage = sim_alias(va, device);
    memset(b->storage, 0xA5, (size_t)units * UNIT); /* garbage again where an older block lay */
    *out = b;
    return CUDA_SUCCESS;
}

CUresult sim_device_alloc(size_t size, enum sim_kind kind, struct sim_context *ctx, int device,
                          struct sim_pool *pool, struct sim_block **out)
{
    if (size <= SIM_PAGE / 2)
        return small_alloc(size, kind, ctx, device, pool, out);
    if (size > sim_devices[device].total)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = round_up(size, SIM_PAGE);
    CUdeviceptr va = pages_alloc(bytes, device, pool);
    if (!va)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *b = sim_block_add(va, size, kind, device, ctx);
    b->pool = pool;
    b->storage = sim_alias(va, device);
    b->footprint = bytes;
    *out = b;
    return CUDA_SUCCESS;
}

void sim_device_free(struct sim_block *b)
{
    struct sim_chunk *c = b->chunk;
    int device = b->device;
    if (!c) {
        pages_free(b->va, b->footprint, device, b->pool);
        sim_block_remove(b);
        return;
    }
    unsigned units = (unsigned)(round_up(b->size, UNIT) / UNIT);
    memset(c->taken + (b->va - c->va) / UNIT, 0, units);
    c->used -= units;
    if (c->used == 0) {
        struct sim_chunk **p = &sim_devices[device].chunks;
        while (*p != c)
            p = &(*p)->next;
        *p = c->next;
        chunk_free(c, device, b->pool);
    }
    sim_block_remove(b);
}

SIM_API(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t size), (dptr, size))
{
    struct sim_context *ctx;
    struct sim_block *b;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!dptr || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_device_alloc(size, SIM_DEVICE, ctx, ctx->device, NULL, &b);
    if (r == CUDA_SUCCESS)
        *dptr = b->va;
    return r;
}

SIM_API(cuMemAllocPitch_v2,
        (CUdeviceptr * dptr, size_t *pitch, size_t width, size_t height, unsigned int element),
        (dptr, pitch, width, height, element))
{
    struct sim_context *ctx;
    struct sim_block *b;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    bool element_valid = element == 4 || element == 8 || element == 16;
    if (!dptr || !pitch || width == 0 || height == 0 || !element_valid)
        return CUDA_ERROR_INVALID_VALUE;
    if (width > (size_t)1 << 40 || height > ((size_t)1 << 46) / round_up(width, UNIT))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t row = round_up(width, UNIT);
    r = sim_device_alloc(row * height, SIM_DEVICE, ctx, ctx->device, NULL, &b);
    if (r != CUDA_SUCCESS)
        return r;
    *dptr = b->va;
    *pitch = row;
    return CUDA_SUCCESS;
}

/* The context that a free works in.  Without a current one it is the block's (measured on an H200);
 * a pool's block, and what is no block's first byte, has none. */
static CUresult freeing_context(struct sim_context **ctx, const struct sim_block *b)
{
    CUresult r = sim_current_unsafe(ctx);
    if (r != CUDA_ERROR_INVALID_CONTEXT)
        return r;
    *ctx = b ? b->ctx : NULL;
    r = sim_capture_unsafe_call();
    return r == CUDA_SUCCESS && *ctx ? sim_context_error(*ctx) : r;
}

static struct sim_block *device_block_at(CUdeviceptr dptr)
{
    struct sim_block *b = sim_block_find(dptr);
    bool device = b && (b->kind == SIM_DEVICE || b->kind == SIM_POOLED || b->kind == SIM_MANAGED);
    return device && b->va == dptr && !b->freeing && !b->dormant ? b : NULL;
}

/* cuMemFree of a stream-ordered block is allowed, but unlike any other free it waits for nothing:
 * the driver takes all use of the block to be over (CUDA Programming Guide, "Stream Ordered Memory
 * Allocator"). */
SIM_API(cuMemFree_v2, (CUdeviceptr dptr), (dptr))
{
    struct sim_context *ctx;
    struct sim_block *b = device_block_at(dptr);
    CUresult r = freeing_context(&ctx, b);
    if (r != CUDA_SUCCESS || dptr == 0)
        return r;
    if (!b)
        return CUDA_ERROR_INVALID_VALUE;
    /* Other contexts of the device hold it up by nothing (measured on an H200). */
    if (!b->pool && b->ctx)
        sim_context_wait(b->ctx);
    else if (!b->pool)
        sim_device_wait(b->device);
    b = device_block_at(dptr); /* another thread may have freed it during the wait */
    if (!b)
        return CUDA_ERROR_INVALID_VALUE;
    sim_block_free(b);
    return ctx ? sim_context_error(ctx) : CUDA_SUCCESS;
}

SIM_API(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), (free_bytes, total))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_device *d = &sim_devices[ctx->device];
    size_t used = __atomic_load_n(d->used, __ATOMIC_RELAXED);
    if (free_bytes)
        *free_bytes = used < d->total ? d->total - used : 0;
    if (total)
        *total = d->total;
    return CUDA_SUCCESS;
}

SIM_API(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *size, CUdeviceptr dptr),
        (base, size, dptr))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_block *b = sim_block_find(dptr);
    if (!b || (b->kind == SIM_VMM && !b->access[ctx->device]))
        return CUDA_ERROR_NOT_FOUND;
    if (base) /* of a mapping of host memory a driver gives 0 (measured) */
        *base = b->kind == SIM_VMM && b->device < 0 ? 0 : b->va;
    if (size)
        *size = b->size;
    return CUDA_SUCCESS;
}
