/* SPDX-License-Identifier: MIT */
/* The place `managed`: one address, whose pages the driver moves to where they are used. */
#include "driver/stream.h"
#include "managed/hint.h"
#include "managed/managed_pool.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/workers.h"

/* Pinned host memory is zero, but the driver's managed memory may have been used before (measured),
 * so it is cleared.  It stays on the host, and the device reads it over the link (CUDA Driver API,
 * cuMemAdvise). */
static CUresult make_for_host(CUdeviceptr base, size_t size, int device)
{
    CUresult result =
        zc_real.cuMemAdvise(base, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
    if (result == CUDA_SUCCESS)
        result = zc_real.cuMemAdvise(base, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
    if (result == CUDA_SUCCESS)
        zc_workers_zero((void *)base, size);
    return result;
}

/* The margins use no memory until they are touched. */
static CUresult make_alone(const struct zc_want *want, struct zc_backing *out)
{
    size_t margin = zc_want_host(want) ? 0 : zc_margin(want->size);
    bool entered = zc_place_enter(want, out);
    CUresult result =
        zc_real.cuMemAllocManaged(&out->base, want->size + 2 * margin, CU_MEM_ATTACH_GLOBAL);
    zc_stream_lent(entered);
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
    if (!zc_managed_pool_make(want, out))
        result = make_alone(want, out);
    if (result != CUDA_SUCCESS)
        return result;
    if (!zc_want_host(want)) {
        zc_hint_make(want, out);
        return CUDA_SUCCESS;
    }
    *why = "cuMemAdvise refuses";
    result = make_for_host(out->base, want->size, want->device);
    if (result != CUDA_SUCCESS) {
        zc_real.cuMemFree_v2(out->base);
        return result;
    }
    out->for_host = true;
    zc_limits_note_managed_host((int64_t)want->size);
    return CUDA_SUCCESS;
}

static CUresult managed_detach(struct zc_backing *backing)
{
    return zc_real.cuMemFree_v2(backing->base - zc_before(backing));
}

static CUresult managed_unmake(struct zc_backing *backing, bool gone)
{
    (void)gone;
    if (backing->for_host)
        zc_limits_note_managed_host(-(int64_t)backing->size);
    if (backing->pooled)
        zc_managed_pool_leave();
    return CUDA_SUCCESS;
}

const struct zc_place zc_place_managed = {.id = ZC_PLACE_MANAGED,
                                          .real = ZC_KIND_MANAGED,
                                          .waits = true,
                                          .make = managed_make,
                                          .detach = managed_detach,
                                          .unmake = managed_unmake};
