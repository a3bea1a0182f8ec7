/* SPDX-License-Identifier: MIT */
/* Properties of devices. */
#include "memory/device.h"
#include "driver/real.h"
#include "memory/cgroup.h"

bool zc_device_has(int device, CUdevice_attribute attribute)
{
    int value = 0;
    return zc_real.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

bool zc_device_one_address(int device)
{
    return zc_device_has(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) &&
           zc_device_has(device, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
}

/* An integrated device has the host's memory, and its driver counts as taken what the kernel has
 * filled with files and gives back when that is needed. */
uint64_t zc_device_free(int device)
{
    size_t left = 0, total = 0;
    if (zc_real.cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS ||
        !zc_device_has(device, CU_DEVICE_ATTRIBUTE_INTEGRATED))
        return left;
    uint64_t host = zc_available() < total ? zc_available() : total;
    return host > left ? host : left;
}

/* Until CUDA 13.4 a location has a number alone, whose first byte is the device of a domain. */
int zc_location_device(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE                   ? location->id
           : location->type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN ? location->id & 0xff
                                                                           : -1;
}

int zc_node_of_device(int device)
{
    int node = -1;
    CUresult result = zc_real.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
    return result == CUDA_SUCCESS ? node : -1;
}
