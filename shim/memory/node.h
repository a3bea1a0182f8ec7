/* NUMA nodes of host memory: the key `numa`. */
#ifndef ZC_MEMORY_NODE_H
#define ZC_MEMORY_NODE_H

#include "policy/policy.h"

/* Beside the kernel's numbers, which begin at 0. */
#define ZC_NODE_ANY (-1)   /* As the kernel likes. */
#define ZC_NODE_LOCAL (-2) /* Next to the device that uses it, which is not known yet. */

/* The node that a device is next to (CUDA Driver API, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, from CUDA
 * 12.2 on), or ZC_NODE_ANY where the driver knows none. */
int zc_node_of_device(int device);

/* The node that a rule names for a block of a device, or that the device is next to. */
int zc_node_wanted(const struct zc_rule *rule, int device);

#endif
