/* SPDX-License-Identifier: MIT */
/* The place `shared`: a device block that may be one with the host block that is copied into it. */
#include "driver/lock.h"
#include "memory/place.h"
#include "shared/backing.h"
#include "shared/early.h"
#include "shared/heat.h"
#include "shared/reach.h"
#include "shared/report.h"
#include "vmm/lazy.h"
#include "vmm/vmm.h"

/* True if it has addresses that are its own. */
static bool reserve_apart(struct zc_want *want)
{
    if (!(zc_reach() & ZC_REACH_ATS))
        return false;
    want->at_bytes = zc_va_round_up(want->size, ZC_REACH_GRANULE);
    CUresult result =
        zc_real.cuMemAddressReserve(&want->at, want->at_bytes, ZC_REACH_GRANULE, 0, 0);
    if (result != CUDA_SUCCESS)
        want->at = want->at_bytes = 0;
    return result == CUDA_SUCCESS;
}

static CUresult shared_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    struct zc_want lazy = *want;
    if (!zc_shared_possible(want, why))
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "libzc has no memory for its record";
    struct zc_shared *p = zc_shared_new(want->rule);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct zc_early *early = zc_early_take(want, &lazy.at, &lazy.at_bytes);
    lazy.lazy = true;
    bool apart = !early && reserve_apart(&lazy);
    CUresult result = zc_place_vmm.make(&lazy, out, why);
    if (early && (result != CUDA_SUCCESS || out->vmm->va.base != lazy.at)) {
        zc_early_spurn(early);
        early = NULL;
    }
    if (result != CUDA_SUCCESS) {
        if (apart)
            zc_real.cuMemAddressFree(lazy.at, lazy.at_bytes);
        zc_shared_end(p);
        return result;
    }
    if (apart) { /* Else memory would be attached there only once it is decided. */
        ZC_DRIVER_HELD mine = zc_driver_lock();
        zc_lazy_update(out->vmm);
    }
    p->vmm = out->vmm;
    __atomic_fetch_add(&zc_log_pairs.pairs, 1, __ATOMIC_RELAXED);
    out->vmm->pair = p;
    if (zc_shared_begin(p, early))
        zc_heat_watch();
    return CUDA_SUCCESS;
}

/* The caller has waited for the device.  The lock is for another thread that makes all blocks
 * OWN. */
static CUresult shared_detach(struct zc_backing *backing)
{
    struct zc_shared *p = backing->vmm->pair;
    ZC_DRIVER_HELD mine = zc_driver_lock();
    bool one = zc_shared_is_one(p);
    if (mine)
        zc_shared_drop(p);
    CUresult result = one ? zc_shared_unregister(p) : zc_place_vmm.detach(backing);
    p->freed = result == CUDA_SUCCESS;
    return result;
}

static CUresult shared_unmake(struct zc_backing *backing, bool gone)
{
    struct zc_shared *p = backing->vmm->pair;
    zc_shared_report(p);
    bool mine = zc_driver_lock();
    if (mine)
        zc_shared_drop(p);
    if (zc_shared_is_one(p))
        zc_shared_detach(p);
    zc_shared_end(p);
    if (mine)
        zc_driver_unlock();
    return zc_place_vmm.unmake(backing, gone);
}

/* The driver keeps what kind of memory it found in the source of a copy in a graph. */
static CUresult shared_retreat(const struct zc_block *block, enum zc_fn fn, bool keeps,
                               const char *why)
{
    return zc_shared_to_own(zc_shared_of(block), fn, why)
               ?: zc_place_vmm.retreat(block, fn, keeps, why);
}

const struct zc_place zc_place_shared = {.id = ZC_PLACE_SHARED,
                                         .real = ZC_KIND_DEVICE,
                                         .waits = true,
                                         .make = shared_make,
                                         .detach = shared_detach,
                                         .unmake = shared_unmake,
                                         .entered = zc_heat_new,
                                         .retreat = shared_retreat,
                                         .drain = zc_shared_drain,
                                         .diagnose = zc_shared_diagnose};
