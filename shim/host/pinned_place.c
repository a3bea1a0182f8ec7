/* The place `pinned` for host memory that the program asks the driver for: blocks of the host heap,
 * registered before the program gets them. */
#include "memory/ability.h"
#include "host/hostheap.h"
#include "memory/node.h"
#include "host/pinned.h"
#include "memory/place.h"

/* Pinned memory that the driver gives is zero from 1 MiB on, also where the program freed as much
 * just before (measured), so this is zero too. */
static CUresult make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    const struct zc_host_want block = {.size = want->size,
                                       .alignment = 4096,
                                       .node = zc_node_wanted(want->rule, want->device),
                                       .zero = true,
                                       .owner = want->context};
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
    if (result != CUDA_SUCCESS) {
        zc_hostheap_put(p);
        return result;
    }
    out->base = (CUdeviceptr)p;
    out->room = zc_hostheap_room(p);
    return CUDA_SUCCESS;
}

/* The memory goes to the pool, registered, for the next request of its context. */
static CUresult unmake(struct zc_backing *backing, bool gone)
{
    (void)gone;
    zc_hostheap_put((void *)backing->base);
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_pinned = {.id = ZC_PLACE_PINNED,
                                         .real = ZC_KIND_PINNED,
                                         .waits = true,
                                         .counts = true,
                                         .make = make,
                                         .unmake = unmake};
