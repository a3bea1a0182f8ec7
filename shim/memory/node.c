/* Which NUMA node a device is next to. */
#include "memory/node.h"

#include "driver/real.h"

int zc_node_of_device(int device)
{
    int node = ZC_NODE_ANY;
#if CUDA_VERSION >= 12020
    if (zc_real.cuDeviceGetAttribute &&
        zc_real.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) !=
            CUDA_SUCCESS)
        return ZC_NODE_ANY;
#else
    (void)device;
#endif
    return node;
}

int zc_node_wanted(const struct zc_rule *rule, int device)
{
    if (!(rule->given & ZC_KEY_BIT(ZC_KEY_NUMA)))
        return ZC_NODE_ANY;
    return rule->numa.local ? zc_node_of_device(device) : (int)rule->numa.node;
}
