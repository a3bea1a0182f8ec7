/* SPDX-License-Identifier: MIT */
/* The place `managed`: one address, whose pages the driver moves to where they are used. */
#include "driver/stream.h"
#include "memory/device.h"
#include "memory/place.h"

/* Brings the pages to the device, where kernels and copies would else fetch them in many steps.  In
 * a stream of its own, which no other work waits for; whatever the driver refuses changes no
 * result. */
static void fetch(const struct zc_want *want, CUdeviceptr base)
{
    CUstream stream;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    location.id = want->device;
    if (want->rule->prefetch == ZC_PREFETCH_NONE ||
        zc_real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    if (zc_real.cuMemPrefetchAsync_v2(base, want->size, location, 0, stream) ==
        CUDA_ERROR_NOT_SUPPORTED)
        zc_real.cuMemPrefetchAsync(base, want->size, want->device, stream);
    zc_real.cuStreamDestroy_v2(stream);
}

/* The margins use no memory until they are touched. */
static CUresult allocate(const struct zc_want *want, struct zc_backing *out)
{
    size_t margin = zc_margin(want->size);
    bool entered = zc_place_enter(want, out);
    CUresult result =
        zc_real.cuMemAllocManaged(&out->base, want->size + 2 * margin, CU_MEM_ATTACH_GLOBAL);
    out->base += margin;
    if (result == CUDA_SUCCESS)
        fetch(want, out->base);
    zc_context_leave(entered);
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
    return allocate(want, out);
}

static CUresult managed_detach(struct zc_backing *backing)
{
    return zc_real.cuMemFree_v2(backing->base - zc_before(backing));
}

const struct zc_place zc_place_managed = {.id = ZC_PLACE_MANAGED,
                                          .real = ZC_KIND_MANAGED,
                                          .waits = true,
                                          .make = managed_make,
                                          .detach = managed_detach};
