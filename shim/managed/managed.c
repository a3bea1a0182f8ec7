/* SPDX-License-Identifier: MIT */
/* The place `managed`: one address, whose pages the driver moves to where they are used. */
#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "managed/hint.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/workers.h"

/* The driver's pool of managed memory for stream-ordered requests, if it has such (CUDA 13). */
static ZC_OWN struct {
    CUmemoryPool handle; /* NULL: there is none.  Atomic. */
    bool refused;        /* The driver has no such pools.  Atomic. */
    uint64_t users;      /* Blocks, and calls that are about to make one.  Atomic. */
} pool;

/* Near no device: pages are made where they are first touched, as those of cuMemAllocManaged
 * are. */
static CUmemoryPool managed_pool_open(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_NONE}};
    CUmemoryPool made = NULL, none = NULL;
    CUmemoryPool open = __atomic_load_n(&pool.handle, __ATOMIC_SEQ_CST);
    if (open || __atomic_load_n(&pool.refused, __ATOMIC_RELAXED))
        return open;
    CUresult result = zc_real.cuMemPoolCreate(&made, &props);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
        __atomic_store_n(&pool.refused, true, __ATOMIC_RELAXED);
    if (result != CUDA_SUCCESS)
        return NULL;
    if (__atomic_compare_exchange_n(&pool.handle, &none, made, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        return made;
    zc_real.cuMemPoolDestroy(made); /* Another thread made one first. */
    return none;
}

static void managed_pool_leave(void)
{
    __atomic_fetch_sub(&pool.users, 1, __ATOMIC_SEQ_CST);
}

/* Pool memory takes no advice (measured). */
static bool managed_pool_make(const struct zc_want *want, struct zc_backing *out)
{
    if (!want->stream_ordered)
        return false;
    __atomic_fetch_add(&pool.users, 1, __ATOMIC_SEQ_CST); /* Before it is read: see trim. */
    CUmemoryPool from = managed_pool_open();
    out->pooled = from && ZC_FLAVOURED(want->flavour, cuMemAllocFromPoolAsync)(
                              &out->base, want->size, from, want->stream) == CUDA_SUCCESS;
    if (out->pooled)
        out->room = want->size + 1; /* The bytes behind it are the pool's. */
    else
        managed_pool_leave();
    return out->pooled;
}

/* True if the pool had no block and is gone.  The driver keeps the pages of freed blocks until the
 * pool is destroyed (measured; cuMemPoolTrimTo gives none back).  A thread that counted as a user
 * before the exchange has the old pool, and is seen here; one that comes later makes a new pool. */
static bool managed_pool_trim(void)
{
    CUmemoryPool none = NULL;
    if (!__atomic_load_n(&pool.handle, __ATOMIC_RELAXED) || zc_capture_any() || zc_life_closing())
        return false;
    CUmemoryPool old = __atomic_exchange_n(&pool.handle, NULL, __ATOMIC_SEQ_CST);
    if (!old)
        return false;
    if (!__atomic_load_n(&pool.users, __ATOMIC_SEQ_CST))
        return zc_real.cuMemPoolDestroy(old) == CUDA_SUCCESS;
    /* If a newer pool exists, the driver drops the old one with its last block. */
    if (!__atomic_compare_exchange_n(&pool.handle, &none, old, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        zc_real.cuMemPoolDestroy(old);
    return false;
}

/* The margins use no memory until they are touched. */
static CUresult managed_alone(const struct zc_want *want, struct zc_backing *out)
{
    size_t margin = zc_margin(want->size);
    bool entered = zc_place_enter(want, out);
    CUresult result =
        zc_real.cuMemAllocManaged(&out->base, want->size + 2 * margin, CU_MEM_ATTACH_GLOBAL);
    zc_context_leave(entered);
    out->base += margin;
    out->before = (uint16_t)(margin / ZC_BLOCK_PAGE);
    out->room = want->size + margin;
    return result;
}

/* Without concurrent access the CPU must not touch the memory while kernels run, and every launch
 * moves whole blocks.  That does not suit a block that the program takes for another kind of
 * memory. */
static CUresult managed_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    if (!zc_device_concurrent(want->device)) {
        *why = "the device has no concurrent managed access";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *why = "cuMemAllocManaged refuses";
    CUresult result = CUDA_SUCCESS;
    if (!managed_pool_make(want, out))
        result = managed_alone(want, out);
    if (result == CUDA_SUCCESS)
        zc_hint_make(want, out);
    return result;
}

static CUresult managed_detach(struct zc_backing *backing)
{
    return zc_real.cuMemFree_v2(backing->base - zc_before(backing));
}

static CUresult managed_unmake(struct zc_backing *backing, bool gone)
{
    (void)gone;
    if (backing->pooled)
        managed_pool_leave();
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_managed = {.id = ZC_PLACE_MANAGED,
                                          .real = ZC_KIND_MANAGED,
                                          .waits = true,
                                          .make = managed_make,
                                          .detach = managed_detach,
                                          .unmake = managed_unmake};

static void managed_context_gone(CUcontext context)
{
    (void)context;
    managed_pool_trim();
}

static unsigned managed_reclaim(int place)
{
    return (place == ZC_PLACE_COUNT || place == ZC_PLACE_MANAGED) && managed_pool_trim();
}

const struct zc_module zc_module_managed = {.context_gone = managed_context_gone,
                                            .reclaim = managed_reclaim};
