/* Variables of modules: memory that copies name although no request made it. */
#include "catch/life.h"
#include "catch/request.h"

ZC_BODY(cuModuleGetGlobal_v2,
        (CUdeviceptr * ptr, size_t *bytes, CUmodule module, const char *name))
{
    CUresult result = real(ptr, bytes, module, name);
    if (result == CUDA_SUCCESS && ptr && *ptr)
        zc_track_foreign(entry, ZC_API_cuMemAlloc, *ptr, bytes ? *bytes : 0, ZC_KIND_DEVICE);
    return result;
}

ZC_BODY(cuLibraryGetGlobal,
        (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name))
{
    CUresult result = real(ptr, bytes, library, name);
    if (result == CUDA_SUCCESS && ptr && *ptr)
        zc_track_foreign(entry, ZC_API_cuMemAlloc, *ptr, bytes ? *bytes : 0, ZC_KIND_DEVICE);
    return result;
}

ZC_BODY(cuLibraryGetManaged,
        (CUdeviceptr * ptr, size_t *bytes, CUlibrary library, const char *name))
{
    CUresult result = real(ptr, bytes, library, name);
    if (result == CUDA_SUCCESS && ptr && *ptr)
        zc_track_foreign(entry, ZC_API_cuMemAllocManaged, *ptr, bytes ? *bytes : 0,
                         ZC_KIND_MANAGED);
    return result;
}
