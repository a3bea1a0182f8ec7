/* SPDX-License-Identifier: MIT */
/* What places share: the context that they make memory in, and handles of host memory. */
#include "memory/place.h"

#include "driver/stream.h"
#include "memory/device.h"

CUcontext zc_place_home(const struct zc_want *want, enum zc_place_id place)
{
    bool goes = want->stream_ordered && (place == ZC_PLACE_MAPPED || place == ZC_PLACE_MANAGED);
    CUcontext primary = goes ? zc_context_primary(want->device) : NULL;
    return primary ? primary : want->context;
}

bool zc_place_enter(const struct zc_want *want, struct zc_backing *out)
{
    if (out->context == want->context)
        return false;
    if (zc_real.cuCtxPushCurrent_v2(out->context) == CUDA_SUCCESS)
        return true;
    out->context = want->context; /* The other context has been destroyed in the meantime. */
    return false;
}

/* The memory is bound to a node because such memory can be exported by file descriptor, and memory
 * of CU_MEM_LOCATION_TYPE_HOST can't (measured).  Only device memory can be compressed, or reached
 * by other bus devices: a driver refuses host memory that asks for the latter (measured). */
CUresult zc_handle_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    CUmemAllocationProp prop = *want->prop;
    int node = zc_node_wanted(want->rule, want->device);
    if (want->rule->write_combined) {
        *why = "handles are never write-combined";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (node < 0)
        node = zc_node_of_device(want->device);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    prop.location.id = node < 0 ? 0 : node;
    prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
    prop.allocFlags.gpuDirectRDMACapable = 0;
    *why = "cuMemCreate refuses";
    return zc_real.cuMemCreate(&out->handle, want->size, &prop, 0);
}
