/* What a device can do: the properties that places depend on. */
#ifndef ZC_MEMORY_ABILITY_H
#define ZC_MEMORY_ABILITY_H

#include "driver/real.h"

/* True if the attribute of the device is not 0; false too where the driver does not know it. */
bool zc_device_has(int device, CUdevice_attribute attribute);

/* True if registered host memory has one address for the CPU and the device.  Elsewhere
 * cuMemHostGetDevicePointer gives a second one (CUDA Driver API, cuMemHostRegister). */
bool zc_device_one_address(int device);

/* True if CPU and device may use managed memory at the same time, and pages move one by one. */
bool zc_device_concurrent(int device);

#endif
