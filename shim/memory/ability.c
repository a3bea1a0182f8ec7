/* What a device can do. */
#include "memory/ability.h"

bool zc_device_has(int device, CUdevice_attribute attribute)
{
    int value = 0;
    return zc_real.cuDeviceGetAttribute &&
           zc_real.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value;
}

bool zc_device_one_address(int device)
{
    return zc_device_has(device, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) &&
           zc_device_has(device, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
}

bool zc_device_concurrent(int device)
{
    return zc_device_has(device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) &&
           zc_device_has(device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
}
