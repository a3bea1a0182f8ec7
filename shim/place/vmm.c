/* The place `vmm`: reserved addresses with device memory of one handle mapped behind them. */
#include "place/ability.h"
#include "place/place.h"

#define DEVICES_MAX 64

/* Exportable and usable by other bus devices where the device can, so that a program which asks for
 * a file descriptor of its block is not refused for where it lies. */
static CUmemAllocationProp properties(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    prop.location.id = device;
    if (zc_device_has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (zc_device_has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        prop.allocFlags.gpuDirectRDMACapable = 1;
    return prop;
}

/* cuMemAlloc's memory is reachable from every device that can be a peer; so is this. */
static CUresult open_access(CUdeviceptr base, size_t span, int device)
{
    CUmemAccessDesc desc[DEVICES_MAX];
    int devices = 0;
    size_t count = 0;
    if (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS)
        devices = 0;
    for (int d = 0; d < devices && count < DEVICES_MAX; d++) {
        int can = d == device;
        if (!can && zc_real.cuDeviceCanAccessPeer(&can, d, device) != CUDA_SUCCESS)
            can = 0;
        if (!can)
            continue;
        desc[count] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        desc[count++].location.id = d;
    }
    return zc_real.cuMemSetAccess(base, span, desc, count);
}

static CUresult make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    size_t granularity = 0;
    CUmemAllocationProp prop = properties(want->device);
    if (!zc_device_has(want->device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        zc_real.cuMemGetAllocationGranularity(&granularity, &prop,
                                              CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
            CUDA_SUCCESS ||
        !granularity) {
        *why = "the device has no virtual memory management";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    size_t span = (want->size + granularity - 1) / granularity * granularity;
    *why = "cuMemAddressReserve refuses";
    CUresult result = zc_real.cuMemAddressReserve(&out->base, span, granularity, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "cuMemCreate refuses";
    result = zc_real.cuMemCreate(&out->handle, span, &prop, 0);
    if (result != CUDA_SUCCESS)
        goto out_free_address;
    *why = "cuMemMap refuses";
    result = zc_real.cuMemMap(out->base, span, 0, out->handle, 0);
    if (result != CUDA_SUCCESS)
        goto out_release_handle;
    *why = "cuMemSetAccess refuses";
    result = open_access(out->base, span, want->device);
    if (result != CUDA_SUCCESS)
        goto out_unmap;
    out->span = span;
    return CUDA_SUCCESS;

out_unmap:
    zc_real.cuMemUnmap(out->base, span);
out_release_handle:
    zc_real.cuMemRelease(out->handle);
out_free_address:
    zc_real.cuMemAddressFree(out->base, span);
    return result;
}

/* Handles and addresses belong to the process, not to a context, so they are given back also when
 * the context is gone. */
static CUresult unmake(struct zc_backing *backing, bool gone)
{
    (void)gone;
    CUresult unmapped = zc_real.cuMemUnmap(backing->base, backing->span);
    CUresult released = zc_real.cuMemRelease(backing->handle);
    CUresult freed = zc_real.cuMemAddressFree(backing->base, backing->span);
    return unmapped != CUDA_SUCCESS ? unmapped : released != CUDA_SUCCESS ? released : freed;
}

const struct zc_place zc_place_vmm = {
    .id = ZC_PLACE_VMM, .real = ZC_KIND_DEVICE, .make = make, .unmake = unmake};
