/* SPDX-License-Identifier: MIT */
/* The place `pinned` for cuMemHostAlloc: blocks of the host heap, registered from the beginning. */
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/device.h"
#include "memory/place.h"

/* The driver's pinned memory is zero from 1 MiB on, even if the program just freed memory of that
 * size (measured).  So this memory is zero, too. */
static CUresult make_block(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    const struct zc_host_want block = {
        .size = want->size, .alignment = 4096, .zero = true, .owner = want->context};
    struct zc_slot *slot;
    *why = "the driver packs blocks below 64 KiB";
    if (want->size < ZC_HOST_MIN)
        return CUDA_ERROR_NOT_SUPPORTED;
    *why = "the device can't use host addresses";
    if (!zc_device_one_address(want->device))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!zc_hostheap_open(why))
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = zc_hostheap_get(&block, &slot, why);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = zc_pinned_now(zc_hostheap_extent((uintptr_t)p), why);
    if (result != CUDA_SUCCESS) { /* The driver brings in as much. */
        zc_hostheap_put(p);
        zc_hostheap_tidy(true);
        return result;
    }
    out->base = (CUdeviceptr)p;
    out->room = zc_hostheap_room(p);
    return CUDA_SUCCESS;
}

/* The memory goes to the pool, still registered and in its original state, for the next request of
 * its context.  Other blocks in a slab may still want the attribute. */
static CUresult unmake_block(struct zc_backing *backing, bool gone)
{
    if (backing->synced && !gone && zc_hostheap_extent(backing->base)->use == ZC_EXTENT_BLOCK)
        zc_pinned_sync(backing->base, false);
    zc_hostheap_put((void *)backing->base);
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_pinned = {.id = ZC_PLACE_PINNED,
                                         .real = ZC_KIND_PINNED,
                                         .waits = true,
                                         .counts = true,
                                         .make = make_block,
                                         .unmake = unmake_block};
