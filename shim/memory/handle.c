/* SPDX-License-Identifier: MIT */
/* Host memory for programs that map memory themselves: the place `mapped` of cuMemCreate. */
#include "memory/handle.h"

#include "memory/device.h"

#if CUDA_VERSION >= 12020
/* Memory of a node can be exported by file descriptor, that of CU_MEM_LOCATION_TYPE_HOST can't
 * (measured).  Compression and reach for other bus devices are the device's alone, and a driver
 * refuses handles of host memory that ask for the latter (measured). */
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
#else
CUresult zc_handle_make(const struct zc_want *want, struct zc_backing *out, const char **why)
{
    (void)want, (void)out;
    *why = "the driver's interface before CUDA 12.2 has no handles of host memory";
    return CUDA_ERROR_NOT_SUPPORTED;
}
#endif
