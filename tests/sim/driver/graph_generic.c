/* SPDX-License-Identifier: MIT */
/* Nodes of any type through one structure: cuGraphAddNode and cuGraphNodeSetParams (CUDA 12.2 and
 * later). */
#include "event.h"
#include "graph_work.h"
#include "pool.h"
#include <string.h>

static CUresult kernel_work(struct sim_work *out, const CUDA_KERNEL_NODE_PARAMS_v3 *p)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = p->func,
                                         .gridDimX = p->gridDimX,
                                         .gridDimY = p->gridDimY,
                                         .gridDimZ = p->gridDimZ,
                                         .blockDimX = p->blockDimX,
                                         .blockDimY = p->blockDimY,
                                         .blockDimZ = p->blockDimZ,
                                         .sharedMemBytes = p->sharedMemBytes,
                                         .kernelParams = p->kernelParams,
                                         .extra = p->extra,
                                         .kern = p->kern,
                                         .ctx = p->ctx};
    return sim_work_of_kernel(out, &params);
}

static CUresult set_work(struct sim_work *out, const CUDA_MEMSET_NODE_PARAMS_v2 *p)
{
    CUDA_MEMSET_NODE_PARAMS shape = {.dst = p->dst,
                                     .pitch = p->pitch,
                                     .value = p->value,
                                     .elementSize = p->elementSize,
                                     .width = p->width,
                                     .height = p->height};
    return sim_work_of_set(out, &shape, p->ctx);
}

static CUresult alloc_work(struct sim_work *out, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p)
{
    if (p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(p->poolProps.location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r =
        sim_graph_alloc_work(out, sim_devices[p->poolProps.location.id].default_pool, p->bytesize);
    if (r == CUDA_SUCCESS)
        p->dptr = out->u.alloc.params.dptr;
    return r;
}

static CUresult free_work(struct sim_work *out, CUdeviceptr dptr)
{
    const struct sim_block *b = sim_block_find(dptr);
    if (!b || b->va != dptr || !b->graph_refs)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_work){.kind = SIM_WORK_FREE, .u.free = dptr};
    return CUDA_SUCCESS;
}

static CUresult work_of(struct sim_work *out, CUgraphNodeParams *p)
{
    struct sim_batch_node *batch = (struct sim_batch_node *)p;
    struct sim_context *ctx;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)p->type) {
    case SIM_FUTURE_NODE:
        if (sim_driver_version() < SIM_FUTURE)
            return CUDA_ERROR_NOT_SUPPORTED;
        return sim_work_of_copy(out, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case SIM_WORK_CONDITIONAL:
        return sim_work_of_bodies(out, p);
    case SIM_WORK_BATCH:
        if (sim_driver_version() < 13050)
            return CUDA_ERROR_NOT_SUPPORTED;
        ctx = sim_context_of(batch->context);
        return ctx ? sim_work_of_batch(out, batch, ctx->device) : CUDA_ERROR_INVALID_CONTEXT;
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(out, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return sim_work_of_copy(out, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return set_work(out, &p->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return sim_work_of_host(out, p->host.fn, p->host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return sim_work_of_child(out, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *out = (struct sim_work){.kind = SIM_WORK_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return sim_work_of_event(out, p->eventWait.event, SIM_WORK_EVENT_WAIT);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return sim_work_of_event(out, p->eventRecord.event, SIM_WORK_EVENT_RECORD);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return alloc_work(out, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return free_work(out, p->free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count,
                    CUgraphNodeParams *p)
{
    struct sim_graph *g = sim_graph_of(graph);
    struct sim_work work;
    if (!out || !g || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = work_of(&work, p);
    if (r == CUDA_SUCCESS)
        r = sim_node_add(g, (struct sim_node *const *)deps, count, &work, (struct sim_node **)out);
    if (r == CUDA_SUCCESS)
        ((struct sim_node *)*out)->future = (int)p->type == SIM_FUTURE_NODE;
    return r;
}

SIM_API(cuGraphAddNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         CUgraphNodeParams *p),
        (out, graph, deps, count, p))
{
    return add(out, graph, deps, count, p);
}

SIM_API(cuGraphAddNode_v2,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
         size_t count, CUgraphNodeParams *p),
        (out, graph, deps, edges, count, p))
{
    (void)edges;
    return add(out, graph, deps, count, p);
}
SIM_ALIAS(cuGraphAddNode_v3, body_cuGraphAddNode_v2,
          (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
           size_t count, CUgraphNodeParams *p),
          (out, graph, deps, edges, count, p))

SIM_API(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *p), (node, p))
{
    struct sim_work work;
    struct sim_node *n = sim_node_of(node);
    if (!n || !p || (int)n->work.kind != (int)p->type || p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = work_of(&work, p);
    return r == CUDA_SUCCESS ? sim_node_set_work(n, &work) : r;
}

SIM_ALIAS(cuGraphNodeSetParams_v2, body_cuGraphNodeSetParams,
          (CUgraphNode node, CUgraphNodeParams *p), (node, p))

/* Of the nodes that are read in no other way. */
SIM_API(cuGraphNodeGetParams, (CUgraphNode node, CUgraphNodeParams *p), (node, p))
{
    struct sim_node *n = sim_node_of(node);
    if (!n || !p)
        return CUDA_ERROR_INVALID_VALUE;
    memset(p, 0, sizeof *p);
    p->type = (CUgraphNodeType)n->work.kind;
    if (n->work.kind == SIM_WORK_BATCH) {
        sim_batch_params(n->work.u.batch, (struct sim_batch_node *)p);
    } else if (n->work.kind == SIM_WORK_CONDITIONAL) {
        p->conditional.handle = n->work.u.bodies->handle;
        p->conditional.type = (CUgraphConditionalNodeType)n->work.u.bodies->type;
        p->conditional.size = n->work.u.bodies->count;
        p->conditional.phGraph_out = (CUgraph *)n->work.u.bodies->graph;
    } else {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

SIM_API(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p),
        (exec, node, p))
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_node *n = e ? sim_node_clone_in(e->graph, (struct sim_node *)node) : NULL;
    struct sim_work work;
    if (!n || !p || (int)n->work.kind != (int)p->type || p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return sim_exec_set_child(exec, node, p->graph.graph);
    CUresult r = work_of(&work, p);
    return r == CUDA_SUCCESS ? sim_exec_set(exec, node, &work) : r;
}
