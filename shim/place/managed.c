/* The place `managed`: one address whose pages the driver moves to where they are used. */
#include "place/hint.h"

/* Without concurrent access the driver wants the CPU to keep away while kernels run, and moves
 * whole blocks at each launch: no place for a block that the program believes to be on the device.
 */
static bool possible(int device)
{
    int managed = 0, concurrent = 0;
    return zc_real.cuDeviceGetAttribute &&
           zc_real.cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device) ==
               CUDA_SUCCESS &&
           zc_real.cuDeviceGetAttribute(&concurrent,
                                        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device) ==
               CUDA_SUCCESS &&
           managed && concurrent;
}

static CUresult make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    if (!possible(want->device)) {
        *why = "the device has no concurrent managed access";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUresult result = zc_real.cuMemAllocManaged(&out->base, want->size, CU_MEM_ATTACH_GLOBAL);
    if (result != CUDA_SUCCESS) {
        *why = "cuMemAllocManaged refuses";
        return result;
    }
    out->span = want->size;
    out->hinted = zc_hint_make(want, out->base);
    return CUDA_SUCCESS;
}

static CUresult unmake(struct zc_backing *backing, bool gone)
{
    zc_hint_unmake(backing->hinted);
    return gone ? CUDA_SUCCESS : zc_real.cuMemFree_v2(backing->base);
}

const struct zc_place zc_place_managed = {ZC_PLACE_MANAGED, ZC_KIND_MANAGED, true, make, unmake};
