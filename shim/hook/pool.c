/* SPDX-License-Identifier: MIT */
/* Memory pools: those whose memory is not a device's. */
#include "hook/pool.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "memory/device.h"

struct pool {
    struct pool *next;
    CUmemoryPool handle;
    enum zc_kind kind; /* Kind of its memory. */
};

static ZC_LOCK(lock, ZC_RANK_POOL);
static ZC_OWN struct pool *pools; /* Atomic. */

enum zc_kind zc_pool_kind(CUmemoryPool handle)
{
    const struct pool *p = NULL;
    enum zc_kind kind = ZC_KIND_DEVICE;
    if (!__atomic_load_n(&pools, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return kind;
    LL_SEARCH_SCALAR(pools, p, handle, handle);
    kind = p ? p->kind : kind;
    zc_lock_drop(&lock);
    return kind;
}

void zc_pool_forget(CUmemoryPool handle)
{
    struct pool *p = NULL;
    if (!__atomic_load_n(&pools, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return;
    LL_SEARCH_SCALAR(pools, p, handle, handle);
    if (p)
        LL_DELETE(pools, p);
    zc_lock_drop(&lock);
    zc_arena_put(p, sizeof(*p));
}

/* The CPU can access memory that is not on a device, and the program relies on it. */
void zc_pool_note(CUmemoryPool handle, const CUmemLocation *location, CUmemAllocationType type)
{
    if (type == CU_MEM_ALLOCATION_TYPE_PINNED && zc_location_device(location) >= 0)
        return;
    zc_pool_forget(handle);
    struct pool *p = zc_arena_get(sizeof(*p));
    if (!p || !zc_lock_take(&lock)) {
        zc_arena_put(p, sizeof(*p));
        return;
    }
    p->handle = handle;
    p->kind = type == CU_MEM_ALLOCATION_TYPE_PINNED ? ZC_KIND_PINNED : ZC_KIND_MANAGED;
    LL_PREPEND(pools, p);
    zc_lock_drop(&lock);
}
