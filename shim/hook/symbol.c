/* SPDX-License-Identifier: MIT */
/* Variables of modules: memory that copies name without any request for it. */
#include "hook/request.h"

/* A caller may ask for the size alone, or for the address alone. */
static CUresult found(const struct zc_entry *entry, CUresult result, const CUdeviceptr *ptr,
                      const size_t *bytes, enum zc_kind kind)
{
    enum zc_api api = kind == ZC_KIND_MANAGED ? ZC_API_cuMemAllocManaged : ZC_API_cuMemAlloc;
    if (result == CUDA_SUCCESS && ptr && *ptr)
        zc_track_foreign(entry, api, *ptr, bytes ? *bytes : 0, kind);
    return result;
}

ZC_BODY(cuModuleGetGlobal_v2, (CUdeviceptr * ptr, size_t *bytes, CUmodule module, const char *name))
{
    return found(entry, real(ptr, bytes, module, name), ptr, bytes, ZC_KIND_DEVICE);
}

ZC_BODY(cuLibraryGetGlobal, (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name))
{
    return found(entry, real(ptr, bytes, library, name), ptr, bytes, ZC_KIND_DEVICE);
}

ZC_BODY(cuLibraryGetManaged,
        (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name))
{
    return found(entry, real(ptr, bytes, library, name), ptr, bytes, ZC_KIND_MANAGED);
}
