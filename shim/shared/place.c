/* SPDX-License-Identifier: MIT */
/* The place `shared`: a device block that is the host block which is copied into it. */
#include "host/pinned.h"
#include "memory/device.h"
#include "memory/place.h"
#include "shared/access.h"
#include "shared/hostblock.h"
#include "shared/pair.h"
#include "shared/report.h"

/* If a device reaches pageable memory, a kernel given the host block's address would read the
 * host's view, which a pair does not keep for it. */
static bool reaches_pageable(void)
{
    int devices = 0;
    if (zc_real.cuDeviceGetCount)
        zc_real.cuDeviceGetCount(&devices);
    for (int i = 0; i < devices; i++)
        if (zc_device_has(i, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) ||
            zc_device_has(i, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
            return true;
    return false;
}

static bool possible(const struct zc_want *want, const char **why)
{
    *why = "stream-ordered requests can't be";
    if (want->api != ZC_API_cuMemAlloc && want->api != ZC_API_cuMemAllocPitch)
        return false;
    *why = "the device can't use host addresses";
    if (!zc_device_one_address(want->device))
        return false;
    *why = "a device reaches pageable memory (HMM, ATS)";
    if (reaches_pageable())
        return false;
    *why = "no rule gives host blocks 'shared' or 'pinned'";
    if (!want->host_heap)
        return false;
    *why = "it is not larger than 1 MiB";
    if (want->size <= ZC_HOST_UNIT / 2)
        return false;
    return zc_shared_access_open(why);
}

/* A registration made for a pinned block lets kernels write, and goes with its own context. */
static CUresult register_pages(const struct zc_shared *p, struct zc_extent *e, CUcontext home)
{
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    /* May wait for realloc(3), which is about to see that the block must stay. */
    enum zc_extent_pin pin = zc_pinned_hold(e, ZC_PIN_SHARED);
    bool known = pin == ZC_PIN_DONE;
    if (known && !p->read_only && e->context == home)
        return CUDA_SUCCESS;
    if (known && !zc_pinned_unregister(e))
        return CUDA_ERROR_UNKNOWN;
    if (p->read_only)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    return zc_pinned_register(e, flags);
}

static CUresult shared_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    if (!possible(want, why))
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct zc_shared_want wanted = {
        .size = want->size,
        .rule = want->rule,
        .read_only =
            want->rule->access == ZC_ACCESS_READ &&
            zc_device_has(want->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),
        .node = zc_node_wanted(want->rule, want->device)};
    struct zc_shared *p = zc_shared_make(&wanted, why);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct zc_extent *e = zc_hostheap_extent(p->pages.base);
    bool paired = p->pages.host;
    CUresult result = register_pages(p, e, want->context);
    if (result != CUDA_SUCCESS) {
        *why = "cuMemHostRegister refuses";
        zc_pinned_let_go(e, ZC_PIN_REFUSED);
        zc_shared_drop(p);
        if (paired)
            zc_hostheap_unclaim(e);
        return result;
    }
    zc_shared_publish(p);
    if (paired) {
        zc_hostblock_hide(p);
        zc_hostheap_unclaim(e);
    }
    zc_shared_access_watch(p);
    out->base = p->pages.base;
    out->room = zc_extent_span(e);
    out->shared = p;
    return CUDA_SUCCESS;
}

/* A registration may stay as that of a pinned block if it shows all pages as the CPU sees them.
 * Any other one must end while the pair is whole: a driver that kept it would go on copying d's old
 * content from h.  The caller has waited for the device. */
static CUresult shared_detach(struct zc_backing *backing)
{
    struct zc_shared *p = backing->shared;
    p->kept = zc_shared_leave(p, true);
    return p->kept || zc_pinned_unregister(p->extent) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* If no call can return the error, a pair that the driver holds on to stays a pair for good. */
static void stays(const struct zc_backing *backing)
{
    zc_shared_stays(backing->shared);
}

static CUresult shared_unmake(struct zc_backing *backing, bool gone)
{
    struct zc_shared *p = backing->shared;
    struct zc_extent *e = p->extent;
    bool keep = p->kept && !gone;
    if (!p->kept)
        zc_shared_leave(p, false);
    zc_pinned_let_go(e, keep ? ZC_PIN_DONE : ZC_PIN_NONE);
    zc_shared_report(p);
    zc_shared_access_unwatch(p);
    zc_hostheap_claim(e);
    zc_hostblock_unhide(p);
    zc_hostheap_unclaim(e);
    zc_shared_device_gone(p);
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_shared = {.id = ZC_PLACE_SHARED,
                                         .real = ZC_KIND_PINNED,
                                         .waits = true,
                                         .make = shared_make,
                                         .detach = shared_detach,
                                         .stays = stays,
                                         .unmake = shared_unmake};
