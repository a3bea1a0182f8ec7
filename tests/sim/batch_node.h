/* SPDX-License-Identifier: MIT */
/* Nodes of several copies, as CUDA 13.5 has them. */
#ifndef SIM_BATCH_NODE_H
#define SIM_BATCH_NODE_H

#include <cuda.h>
#include <stddef.h>

#define SIM_BATCH_NODE ((CUgraphNodeType)14)

/* One form of a CUgraphNodeParams. */
struct sim_batch_node {
    CUgraphNodeType type;
    int zero[3];
    size_t count;
    CUdeviceptr *dsts, *srcs;
    size_t *sizes;
    CUmemcpyAttributes *attributes;
    size_t *indices, attribute_count;
    CUcontext context;
    char zeros[176];
} __attribute__((may_alias));
_Static_assert(sizeof(struct sim_batch_node) == sizeof(CUgraphNodeParams), "one of its members");

#if CUDA_VERSION >= 13050
_Static_assert(SIM_BATCH_NODE == CU_GRAPH_NODE_TYPE_MEMCPY_BATCH &&
                   offsetof(struct sim_batch_node, sizes) ==
                       offsetof(CUgraphNodeParams, memcpyBatch.sizes) &&
                   offsetof(struct sim_batch_node, attribute_count) ==
                       offsetof(CUgraphNodeParams, memcpyBatch.numAttrs),
               "CUDA's own");
#endif

#endif
