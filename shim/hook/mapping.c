/* SPDX-License-Identifier: MIT */
/* Programs that map memory themselves (cuMemCreate and related calls): counted by address range. */
#include "base/life.h"
#include "driver/copy.h"
#include "hook/request.h"
#include "memory/device.h"
#include "memory/reclaim.h"
#include "place/room.h"

/* If memory is short, what libzc keeps for later is given back first.  What is promised, or in
 * managed memory, is not available. */
ZC_BODY(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t bytes,
                      const CUmemAllocationProp *prop, unsigned long long flags))
{
    int device = zc_life_on() && prop ? zc_location_device(&prop->location) : -1;
    if (device >= 0 && !zc_room_for_bare(device, bytes, false))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return ZC_RECLAIMING(real(handle, bytes, prop, flags));
}

/* A handle has no address, so the mapping is counted as the block.  The driver knows which handles
 * are host memory. */
ZC_BODY(cuMemMap, (CUdeviceptr ptr, size_t bytes, size_t offset,
                   CUmemGenericAllocationHandle handle, unsigned long long flags))
{
    if (zc_placed_near(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = real(ptr, bytes, offset, handle, flags);
    if (result == CUDA_SUCCESS)
        zc_track_foreign(entry, ZC_API_cuMemCreate, ptr, bytes,
                         zc_memory_type(ptr) == CU_MEMORYTYPE_HOST ? ZC_KIND_PINNED
                                                                   : ZC_KIND_DEVICE);
    return result;
}

/* One call may unmap several consecutive mappings. */
ZC_BODY(cuMemUnmap, (CUdeviceptr ptr, size_t bytes))
{
    if (zc_placed_near(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = real(ptr, bytes);
    for (CUdeviceptr at = ptr; result == CUDA_SUCCESS && zc_life_on() && at < ptr + bytes;) {
        const struct zc_block *block = zc_block_at(at);
        size_t step = block ? block->size : bytes;
        zc_untrack_foreign(at);
        at += step;
    }
    return result;
}
