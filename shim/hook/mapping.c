/* SPDX-License-Identifier: MIT */
/* Programs that map memory themselves (cuMemCreate and related calls): counted by address range. */
#include "base/life.h"
#include "driver/copy.h"
#include "hook/handle.h"
#include "hook/request.h"

/* A handle has no address, so the mapping is counted as the block.  It belongs to no context. */
static bool track(const struct zc_entry *entry, CUdeviceptr ptr, size_t bytes, struct zc_handle *h)
{
    struct zc_ask ask = {.entry = entry,
                         .api = ZC_API_cuMemCreate,
                         .size = bytes,
                         .asked = ZC_KIND_DEVICE,
                         .flags = ZC_BLOCK_FOREIGN | ZC_BLOCK_MAPPING,
                         .home = h->backing ? ZC_PLACE_MAPPED : ZC_PLACE_DEVICE,
                         .handle = h};
    if (!zc_ask_begin(&ask))
        return false;
    ask.context = NULL;
    ask.device = h->asked.location.id;
    return zc_ask_track(&ask, ptr, NULL, h->rule, h->why);
}

ZC_BODY(cuMemMap, (CUdeviceptr ptr, size_t bytes, size_t offset,
                   CUmemGenericAllocationHandle handle, unsigned long long flags))
{
    if (zc_placed_near(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    struct zc_handle *h = zc_handle_map(handle);
    CUresult result = real(ptr, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS && !h) /* Handles may be host memory; the driver knows. */
        zc_track_foreign(entry, ZC_API_cuMemCreate, ptr, bytes,
                         zc_memory_type(ptr) == CU_MEMORYTYPE_HOST ? ZC_KIND_PINNED
                                                                   : ZC_KIND_DEVICE);
    else if (h && (result != CUDA_SUCCESS || !track(entry, ptr, bytes, h)))
        zc_handle_unmap(h);
    return result;
}

/* One call may unmap several consecutive mappings. */
ZC_BODY(cuMemUnmap, (CUdeviceptr ptr, size_t bytes))
{
    if (zc_placed_near(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = real(ptr, bytes);
    if (result != CUDA_SUCCESS || !zc_life_on())
        return result;
    for (CUdeviceptr at = ptr; at < ptr + bytes;) {
        const struct zc_block *block = zc_block_at(at);
        size_t step = block ? block->size : bytes;
        struct zc_handle *h = block && (block->flags & ZC_BLOCK_MAPPING) ? block->backing : NULL;
        zc_untrack_foreign(at);
        zc_handle_unmap(h);
        at += step;
    }
    return result;
}
