/* SPDX-License-Identifier: MIT */
/* The pool of managed memory for stream-ordered requests. */
#include "managed/managed_pool.h"

#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"

static ZC_OWN CUmemoryPool pool; /* NULL: there is none.  Atomic. */
static bool refused;             /* The driver has no such pools.  Atomic. */
static ZC_OWN uint64_t users;    /* Blocks, and calls that are about to make one.  Atomic. */

/* Near no device: pages are made where they are first touched, as those of cuMemAllocManaged
 * are. */
static CUmemoryPool open_pool(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_NONE}};
    CUmemoryPool made = NULL, none = NULL;
    CUmemoryPool open = __atomic_load_n(&pool, __ATOMIC_SEQ_CST);
    if (open || __atomic_load_n(&refused, __ATOMIC_RELAXED))
        return open;
    CUresult result = zc_real.cuMemPoolCreate(&made, &props);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    if (result != CUDA_SUCCESS)
        return NULL;
    if (__atomic_compare_exchange_n(&pool, &none, made, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return made;
    zc_real.cuMemPoolDestroy(made); /* Another thread made one first. */
    return none;
}

/* Pool memory takes no advice (measured). */
bool zc_managed_pool_make(const struct zc_want *want, struct zc_backing *out)
{
    if (!want->stream_ordered || (want->rule->given & ZC_KEY_BIT(ZC_KEY_ADVISE)))
        return false;
    __atomic_fetch_add(&users, 1, __ATOMIC_SEQ_CST); /* Before the pool is read: see trim. */
    CUmemoryPool from = open_pool();
    out->pooled = from && ZC_FLAVOURED(want->flavour, cuMemAllocFromPoolAsync)(
                              &out->base, want->size, from, want->stream) == CUDA_SUCCESS;
    if (out->pooled)
        out->room = want->size + 1; /* What follows is the pool's: nobody's to the program. */
    else
        zc_managed_pool_leave();
    return out->pooled;
}

void zc_managed_pool_leave(void)
{
    __atomic_fetch_sub(&users, 1, __ATOMIC_SEQ_CST);
}

/* The driver keeps the pages of freed blocks until the pool is destroyed (measured; cuMemPoolTrimTo
 * gives none back).  A thread that counted as a user before the exchange has the old pool, and is
 * seen here; one that comes later makes a new pool. */
bool zc_managed_pool_trim(void)
{
    CUmemoryPool none = NULL;
    if (!__atomic_load_n(&pool, __ATOMIC_RELAXED) || zc_capture_any() || zc_life_closing())
        return false;
    CUmemoryPool old = __atomic_exchange_n(&pool, NULL, __ATOMIC_SEQ_CST);
    if (!old)
        return false;
    if (!__atomic_load_n(&users, __ATOMIC_SEQ_CST))
        return zc_real.cuMemPoolDestroy(old) == CUDA_SUCCESS;
    /* If a newer pool exists, the driver drops the old one with its last block. */
    if (!__atomic_compare_exchange_n(&pool, &none, old, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        zc_real.cuMemPoolDestroy(old);
    return false;
}

static void context_gone(CUcontext context)
{
    (void)context;
    zc_managed_pool_trim();
}

static unsigned reclaim(int place)
{
    return (place == ZC_PLACE_COUNT || place == ZC_PLACE_MANAGED) && zc_managed_pool_trim();
}

const struct zc_module zc_module_managed_pool = {.context_gone = context_gone, .reclaim = reclaim};
