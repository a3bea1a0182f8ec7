/* SPDX-License-Identifier: MIT */
/* What a device can do: the properties that places depend on. */
#ifndef ZC_MEMORY_DEVICE_H
#define ZC_MEMORY_DEVICE_H

#include "driver/real.h"
#include "policy/policy.h"

/* True if the attribute of the device is not 0; false too where the driver does not know it. */
bool zc_device_has(int device, CUdevice_attribute attribute);

/* True if registered host memory has one address for the CPU and the device.  Elsewhere
 * cuMemHostGetDevicePointer gives a second one (CUDA Driver API, cuMemHostRegister). */
bool zc_device_one_address(int device);

/* True if CPU and device may use managed memory at the same time, and pages move one by one. */
bool zc_device_concurrent(int device);

/* Beside the kernel's numbers, which begin at 0. */
#define ZC_NODE_ANY (-1)   /* As the kernel likes. */
#define ZC_NODE_LOCAL (-2) /* Next to the device that uses it, which is not known yet. */

/* The node that a device is next to (CUDA Driver API, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, from CUDA
 * 12.2 on), or ZC_NODE_ANY where the driver knows none. */
int zc_node_of_device(int device);

/* The node that a rule names for a block of a device, or that the device is next to. */
int zc_node_wanted(const struct zc_rule *rule, int device);

#endif
