/* SPDX-License-Identifier: MIT */
/* The place `managed`: one address, whose pages the driver moves to where they are used. */
#include "driver/stream.h"
#include "managed/hint.h"
#include "memory/device.h"

/* The margins use no memory until they are touched. */
static CUresult allocate(const struct zc_want *want, struct zc_backing *out)
{
    size_t margin = zc_margin(want->size);
    CUresult result =
        zc_real.cuMemAllocManaged(&out->base, want->size + 2 * margin, CU_MEM_ATTACH_GLOBAL);
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
    if (!zc_device_has(want->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) ||
        !zc_device_has(want->device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)) {
        *why = "the device has no concurrent managed access";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *why = "cuMemAllocManaged refuses";
    CUresult result = allocate(want, out);
    if (result == CUDA_SUCCESS)
        zc_hint_make(want, out);
    return result;
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
