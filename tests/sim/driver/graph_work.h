/* SPDX-License-Identifier: MIT */
/* From the parameters of a node to its work and back. */
#ifndef SIM_GRAPH_WORK_H
#define SIM_GRAPH_WORK_H

#include "graph.h"

/* Each builds the work of a node, or returns CUDA_ERROR_INVALID_VALUE and the like; `out` is set on
 * success alone. */
CUresult sim_work_of_kernel(struct sim_work *out, const CUDA_KERNEL_NODE_PARAMS_v2 *params);
CUresult sim_work_of_copy(struct sim_work *out, const CUDA_MEMCPY3D *shape, CUcontext ctx);
CUresult sim_work_of_set(struct sim_work *out, const CUDA_MEMSET_NODE_PARAMS *shape, CUcontext ctx);
CUresult sim_work_of_host(struct sim_work *out, CUhostFn fn, void *data);
CUresult sim_work_of_child(struct sim_work *out, CUgraph graph);
CUresult sim_work_of_event(struct sim_work *out, CUevent event, enum sim_work_kind kind);

/* Takes the value from p->conditional and stores its bodies there. */
CUresult sim_work_of_bodies(struct sim_work *out, CUgraphNodeParams *p);
CUresult sim_work_of_batch(struct sim_work *out, const struct sim_batch_node *p, int device);

/* And back; the arrays stay the batch's. */
void sim_batch_params(const struct sim_batch *batch, struct sim_batch_node *p);

/* The old parameters in the form of the new. */
CUDA_KERNEL_NODE_PARAMS_v2 sim_kernel_params_v2(const CUDA_KERNEL_NODE_PARAMS_v1 *old);

/* Replaces the work of a node by one of the same kind; frees `work` and fails where the kinds
 * differ. */
CUresult sim_node_set_work(struct sim_node *node, struct sim_work *work);

#endif
