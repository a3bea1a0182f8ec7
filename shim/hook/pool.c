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

struct pool {
    struct pool *next;
    CUmemoryPool handle;
    enum zc_kind kind;  /* Kind of its memory. */
    int device;         /* Device of its memory; -1 if unknown. */
    const char *unfit;  /* Why its blocks can't be converted; NULL if they can. */
    bool converted;     /* Some of them were. */
    cuuint64_t used;    /* Bytes of converted blocks. */
    cuuint64_t most[2]; /* Peak of all blocks since USED_MEM_HIGH and RESERVED_MEM_HIGH were set. */
};

static ZC_LOCK(lock, ZC_RANK_POOL);
static ZC_OWN struct pool *pools;

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

/* A pool has its most in use right after a request. */
static void note_most(CUmemoryPool handle)
{
    cuuint64_t own = 0;
    struct pool *p = __atomic_load_n(&pools, __ATOMIC_RELAXED) ? open_pool(handle, false) : NULL;
    if (!p)
        return;
    bool converted = p->converted;
    close_pool();
    if (!converted || zc_capture_any() ||
        zc_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &own) !=
            CUDA_SUCCESS ||
        !(p = open_pool(handle, false)))
        return;
    p->most[0] = max(p->most[0], p->used + own);
    p->most[1] = max(p->most[1], p->used + own);
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
        p->converted = true;
        p->used += block->size;
        close_pool();
    }
    note_most(block->pool);
}

void zc_pool_note_free(const struct zc_block *block)
{
    struct pool *p = is_pools(block) && (block->flags & ZC_BLOCK_CONVERTED)
                         ? open_pool(block->pool, false)
                         : NULL;
    if (!p)
        return;
    p->used -= block->size;
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
    zc_block_each(part, pool);
    forget_destroyed(pool);
    return result;
}

/* A pool's figures as if its converted blocks were in it.  What the driver would have reserved
 * beyond them nobody knows. */
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
        *figure = max(*figure, known.most[0]);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *figure += known.used;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *figure = max(*figure + known.used, known.most[1]);
        break;
    default:
        break;
    }
    return result;
}

/* Setting a high-water mark, to 0 only, starts it anew. */
ZC_BODY(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))
{
    CUresult result = real(pool, attribute, value);
    bool used = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
    if (result != CUDA_SUCCESS || !zc_life_on() || !pools ||
        (!used && attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH))
        return result;
    struct pool *p = open_pool(pool, false);
    if (!p)
        return result;
    p->most[!used] = 0;
    close_pool();
    note_most(pool);
    return result;
}
