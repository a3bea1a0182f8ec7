/* SPDX-License-Identifier: MIT */
/* Memory shared between processes, or with graphics APIs. */
#include "base/life.h"
#include "hook/diagnose.h"
#include "hook/request.h"

/* Only memory of cuMemAlloc itself can be exported this way.  A converted block is refused with the
 * driver's code for memory that can't be exported, and a message names the rule. */
ZC_BODY(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr ptr))
{
    if (zc_life_on() && zc_converted_at(ptr))
        return zc_diagnose(entry->fn, ptr, CUDA_ERROR_INVALID_VALUE);
    return real(handle, ptr);
}

ZC_BODY(cuIpcOpenMemHandle, (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned int flags))
{
    CUresult result = real(ptr, handle, flags);
    if (result == CUDA_SUCCESS)
        zc_track_foreign(entry, ZC_API_cuMemAlloc, *ptr, 0, ZC_KIND_DEVICE);
    return result;
}

ZC_BODY(cuIpcOpenMemHandle_v2, (CUdeviceptr * ptr, CUipcMemHandle handle, unsigned int flags))
{
    return zc_do_cuIpcOpenMemHandle(real, entry, ptr, handle, flags);
}

ZC_BODY(cuIpcCloseMemHandle, (CUdeviceptr ptr))
{
    (void)entry;
    zc_untrack_foreign(ptr);
    return real(ptr);
}

ZC_BODY(cuExternalMemoryGetMappedBuffer,
        (CUdeviceptr * ptr, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc))
{
    CUresult result = real(ptr, memory, desc);
    if (result == CUDA_SUCCESS)
        zc_track_foreign(entry, ZC_API_cuMemAlloc, *ptr, desc->size, ZC_KIND_DEVICE);
    return result;
}

ZC_BODY(cuGraphicsResourceGetMappedPointer_v2,
        (CUdeviceptr * ptr, size_t *bytes, CUgraphicsResource resource))
{
    CUresult result = real(ptr, bytes, resource);
    if (result == CUDA_SUCCESS && ptr && bytes)
        zc_track_foreign(entry, ZC_API_cuMemAlloc, *ptr, *bytes, ZC_KIND_DEVICE);
    return result;
}
