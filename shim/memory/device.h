/* SPDX-License-Identifier: MIT */
/* The properties of a device that places depend on. */
#pragma once

#include "driver/real.h"

/* True if the attribute of the device is not 0; false also if the driver does not know it. */
bool zc_device_has(int device, CUdevice_attribute attribute);

/* True if registered host memory has the same address for the CPU and the device.  Otherwise
 * cuMemHostGetDevicePointer gives a second one (CUDA Driver API, cuMemHostRegister). */
bool zc_device_one_address(int device);

/* Bytes that a device, that of the current context, has free; 0 if the driver does not say. */
uint64_t zc_device_free(int device);

/* The device that a location names, also by a part of it; -1 for other locations. */
int zc_location_device(const CUmemLocation *location);

/* The NUMA node next to a device (CUDA Driver API, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, from CUDA 12.2
 * on), or a negative number if the driver knows none. */
int zc_node_of_device(int device);
