/* SPDX-License-Identifier: MIT */
/* Memory pools: those whose blocks are never converted, and the bytes that converted blocks add to
 * the figures of the others. */
#include "hook/pool.h"

#include "base/arena.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "memory/device.h"
#include "place/freed.h"
#include "vmm/access.h"

/* The driver reserves pool memory in these steps (measured on driver 580). */
#define RESERVE_STEP ((cuuint64_t)32 << 20)

struct pool {
    struct pool *next;
    CUmemoryPool handle;
    enum zc_kind kind;     /* Kind of its memory. */
    int device;            /* Device of its memory; -1 if unknown. */
    const char *unfit;     /* Why its blocks can't be converted; NULL if they can. */
    cuuint64_t used;       /* Bytes of converted blocks. */
    cuuint64_t most;       /* Peak of all blocks since USED_MEM_HIGH was set. */
    cuuint64_t steps;      /* RESERVE_STEPs that the driver would have reserved. */
    cuuint64_t steps_high; /* Peak since RESERVED_MEM_HIGH was set. */
    bool over;             /* The next call that waits may release some of them. */
    bool due;              /* That call is in progress. */
};

static ZC_LOCK(lock, ZC_RANK_POOL);
static ZC_OWN struct pool *pools;
ZC_OWN bool zc_pool_over;

static cuuint64_t steps(cuuint64_t bytes)
{
    return bytes / RESERVE_STEP + (bytes % RESERVE_STEP != 0);
}

/* Takes the lock if the pool has a record, which `make` adds; else NULL, without the lock. */
static struct pool *open_pool(CUmemoryPool handle, bool make)
{
    struct pool *p;
    if (!zc_lock_take(&lock))
        return NULL;
    LL_SEARCH_SCALAR(pools, p, handle, handle);
    if (!p && make && (p = zc_arena_get(sizeof(*p))) != NULL) {
        p->handle = handle;
        p->kind = ZC_KIND_DEVICE;
        p->device = -1;
        LL_PREPEND(pools, p);
    }
    if (!p)
        zc_lock_drop(&lock);
    return p;
}

static void close_pool(void)
{
    zc_lock_drop(&lock);
}

bool zc_pool_current(CUstream stream, enum zc_flavour flavour, CUmemoryPool *pool)
{
    CUdevice device;
    *pool = NULL;
    if (!zc_rules()->rule_count)
        return true;
    if (zc_stream_device(stream, flavour, &device) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuDeviceGetMemPool(pool, device) != CUDA_SUCCESS)
        *pool = NULL;
    return true;
}

static void remember_device(CUmemoryPool handle, int device)
{
    struct pool *p = open_pool(handle, true);
    if (!p)
        return;
    p->device = device;
    close_pool();
}

/* The device whose default pool this is. */
static int device_of_default(CUmemoryPool handle)
{
    int count = 0;
    CUmemoryPool pool;
    if (zc_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return -1;
    for (int d = 0; d < count; d++)
        if (zc_real.cuDeviceGetDefaultMemPool(&pool, d) == CUDA_SUCCESS && pool == handle) {
            remember_device(handle, d);
            return d;
        }
    return -1;
}

/* The driver refuses requests from a destroyed pool.  If there are rules, all pools of the program
 * are recorded, and removed when they are destroyed. */
static const char *elsewhere(CUmemoryPool handle, int device)
{
    CUdevice current;
    if (!zc_rules()->rule_count || zc_real.cuCtxGetDevice(&current) != CUDA_SUCCESS)
        return NULL;
    if (device < 0)
        device = device_of_default(handle);
    return device < 0          ? "its pool was destroyed"
           : device != current ? "its pool is another device's"
                               : NULL;
}

const char *zc_pool_unfit(CUmemoryPool handle, enum zc_kind *kind_out)
{
    struct pool known = {.kind = ZC_KIND_DEVICE, .device = -1};
    const struct pool *p = handle && zc_life_on() ? open_pool(handle, false) : NULL;
    if (p) {
        known = *p;
        close_pool();
    }
    *kind_out = known.kind;
    if (!handle || known.unfit || !zc_life_on())
        return known.unfit;
    return elsewhere(handle, known.device);
}

static cuuint64_t max(cuuint64_t a, cuuint64_t b)
{
    return a > b ? a : b;
}

/* Under the lock. */
static void set_over(struct pool *p)
{
    p->over = true;
    __atomic_store_n(&zc_pool_over, true, __ATOMIC_RELAXED);
}

/* 0 for a pool without converted blocks and without anything left of them. */
static cuuint64_t steps_of(CUmemoryPool handle)
{
    const struct pool *p =
        __atomic_load_n(&pools, __ATOMIC_RELAXED) ? open_pool(handle, false) : NULL;
    if (!p)
        return 0;
    cuuint64_t count = p->steps;
    close_pool();
    return count;
}

static cuuint64_t figure_of(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    return zc_real.cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

/* Under the lock. */
static void pool_reserve(struct pool *p, cuuint64_t bytes)
{
    p->steps = max(p->steps, steps(bytes));
    p->steps_high = max(p->steps_high, p->steps);
}

/* A pool has its most in use right after a request. */
static void note_most(CUmemoryPool handle)
{
    if (!steps_of(handle) || zc_capture_any())
        return;
    cuuint64_t own = figure_of(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    struct pool *p = open_pool(handle, false);
    if (!p)
        return;
    p->most = max(p->most, p->used + own);
    pool_reserve(p, p->used + own);
    close_pool();
}

/* True for a block that counts for its pool. */
static bool is_pools(const struct zc_block *block)
{
    return block->pool && !(block->flags & ZC_BLOCK_POOL_GONE);
}

void zc_pool_note_alloc(const struct zc_block *block)
{
    if (!is_pools(block))
        return;
    struct pool *p = block->flags & ZC_BLOCK_CONVERTED ? open_pool(block->pool, true) : NULL;
    if (p) {
        pool_reserve(p, p->used += block->size);
        close_pool();
    }
    note_most(block->pool);
}

void zc_pool_note_free(const struct zc_block *block)
{
    struct pool *p =
        is_pools(block) && steps_of(block->pool) ? open_pool(block->pool, false) : NULL;
    if (!p)
        return;
    p->used -= block->flags & ZC_BLOCK_CONVERTED ? block->size : 0;
    set_over(p);
    close_pool();
}

#define EXPORTABLE "the memory must stay exportable"

static void remember_pool(CUmemoryPool handle, enum zc_kind kind, const char *unfit)
{
    struct pool *p = unfit ? open_pool(handle, true) : NULL;
    if (!p)
        return;
    p->kind = p->unfit ? p->kind : kind;
    p->unfit = p->unfit ? p->unfit : unfit;
    close_pool();
}

/* The CPU can access memory that is not on a device, and the program relies on it. */
static enum zc_kind kind_of(const CUmemLocation *location, CUmemAllocationType type)
{
    return type != CU_MEM_ALLOCATION_TYPE_PINNED ? ZC_KIND_MANAGED
           : zc_location_device(location) < 0    ? ZC_KIND_PINNED
                                                 : ZC_KIND_DEVICE;
}

static const char *unfit_of(enum zc_kind kind, const CUmemLocation *location)
{
    return kind != ZC_KIND_DEVICE                          ? "its pool is not of a device's memory"
           : location->type != CU_MEM_LOCATION_TYPE_DEVICE ? "its pool is of a part of a device"
                                                           : NULL;
}

static bool limited(const CUmemPoolProps *props)
{
    return ((const struct zc_pool_props *)props)->max_size;
}

static void forget_destroyed(CUmemoryPool handle)
{
    struct pool *p = open_pool(handle, false);
    if (!p)
        return;
    LL_DELETE(pools, p);
    zc_arena_put(p, sizeof(*p));
    close_pool();
}

ZC_BODY(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *props))
{
    CUresult result = real(pool, props);
    if (result != CUDA_SUCCESS || !zc_life_on())
        return result;
    enum zc_kind kind = kind_of(&props->location, props->allocType);
    remember_pool(*pool, kind,
                  props->handleTypes != CU_MEM_HANDLE_TYPE_NONE ? EXPORTABLE
                  : limited(props)                              ? "its pool has a largest size"
                                                                : unfit_of(kind, &props->location));
    if (kind == ZC_KIND_DEVICE && zc_rules()->rule_count)
        remember_device(*pool, zc_location_device(&props->location));
    return result;
}

void zc_pool_note_handed_out(CUmemoryPool pool, const CUmemLocation *location,
                             CUmemAllocationType type)
{
    enum zc_kind kind = kind_of(location, type);
    remember_pool(pool, kind, unfit_of(kind, location));
}

void zc_pool_note_imported(CUmemoryPool pool)
{
    remember_pool(pool, ZC_KIND_DEVICE, EXPORTABLE);
}

/* Blocks outlive their pool until they are freed. */
static bool part(struct zc_block *block, void *pool)
{
    if ((block->flags & ZC_BLOCK_STREAM) && block->pool == pool)
        __atomic_fetch_or(&block->flags, ZC_BLOCK_POOL_GONE, __ATOMIC_RELEASE);
    return true;
}

ZC_BODY(cuMemPoolDestroy, (CUmemoryPool pool))
{
    CUresult result = real(pool);
    if (result != CUDA_SUCCESS || !zc_life_on())
        return result;
    zc_access_forget_pool(pool);
    zc_block_each(part, pool);
    forget_destroyed(pool);
    return result;
}

/* If the rights of a block can't be changed, the program gets that code, and the pool's rights are
 * unchanged. */
ZC_BODY(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count))
{
    return zc_life_on() && !zc_life_closing() ? zc_access_grant(pool, map, count, real)
                                              : real(pool, map, count);
}

/* A pool's figures as if its converted blocks were in it. */
ZC_BODY(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))
{
    CUresult result = real(pool, attribute, value);
    const struct pool *p =
        result == CUDA_SUCCESS && zc_life_on() && pools ? open_pool(pool, false) : NULL;
    if (!p)
        return result;
    const struct pool known = *p;
    close_pool();
    cuuint64_t *figure = value;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *figure += known.used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *figure = max(*figure, known.most);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *figure = max(*figure, known.steps * RESERVE_STEP);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *figure = max(*figure, known.steps_high * RESERVE_STEP);
        break;
    default:
        break;
    }
    return result;
}

/* Setting a high-water mark, to 0 only, starts it anew. */
static void note_set(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    struct pool *p = open_pool(pool, false);
    if (!p)
        return;
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        p->most = 0;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        p->steps_high = p->steps;
    else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        set_over(p);
    close_pool();
}

ZC_BODY(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))
{
    CUresult result = real(pool, attribute, value);
    if (result != CUDA_SUCCESS || !zc_life_on() || !pools)
        return result;
    note_set(pool, attribute);
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        note_most(pool);
    return result;
}

/* Releases what the driver would of all reserved memory, except `keep` bytes.  Blocks whose free
 * waits for a stream keep theirs; the next call that waits may then release more. */
static void release(CUmemoryPool handle, cuuint64_t keep)
{
    if (steps_of(handle) <= steps(keep))
        return;
    cuuint64_t own = figure_of(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    cuuint64_t waiting = zc_freed_waiting(handle);
    struct pool *p = open_pool(handle, false);
    if (!p)
        return;
    cuuint64_t kept = max(steps(p->used + own + waiting), steps(keep));
    p->steps = kept < p->steps ? kept : p->steps;
    if (waiting)
        set_over(p);
    close_pool();
}

/* The next pool that has to release memory.  `first` marks all of them. */
static CUmemoryPool next_due(bool first)
{
    CUmemoryPool found = NULL;
    if (!zc_lock_take(&lock))
        return NULL;
    if (first)
        __atomic_store_n(&zc_pool_over, false, __ATOMIC_RELAXED);
    for (struct pool *p = pools; p; p = p->next) {
        if (first && p->over) {
            p->over = false;
            p->due = true;
        }
        if (p->due && !found) {
            p->due = false;
            found = p->handle;
        }
    }
    zc_lock_drop(&lock);
    return found;
}

void zc_pool_quiesce(void)
{
    if (zc_capture_any() || zc_life_closing())
        return;
    for (CUmemoryPool p = next_due(true); p; p = next_due(false))
        release(p, figure_of(p, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
}

ZC_BODY(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep))
{
    CUresult result = real(pool, keep);
    if (result == CUDA_SUCCESS && zc_life_on() && !zc_capture_any())
        release(pool, keep);
    return result;
}
