/* SPDX-License-Identifier: MIT */
/* The calls that make nodes and get or set their parameters. */
#include "event.h"
#include "graph_work.h"
#include "launch.h"

/* Adds a node with work that was built with result `r`. */
static CUresult add(CUresult r, struct sim_work *work, CUgraphNode *out, CUgraph graph,
                    const CUgraphNode *deps, size_t count)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (r != CUDA_SUCCESS)
        return r;
    if (!g || !out || (count && !deps)) {
        sim_work_free(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_node_add(g, (struct sim_node *const *)deps, count, work, (struct sim_node **)out);
}

/* Sets a node's work that was built with result `r`. */
static CUresult set(CUresult r, struct sim_work *work, CUgraphNode node)
{
    return r == CUDA_SUCCESS ? sim_node_set_work(sim_node_of(node), work) : r;
}

/* The node of a handle if it is of that kind, or NULL. */
static struct sim_node *node_of(CUgraphNode handle, enum sim_work_kind kind)
{
    struct sim_node *n = sim_node_of(handle);
    return n && n->work.kind == kind ? n : NULL;
}

SIM_API(cuGraphAddKernelNode_v2,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         const CUDA_KERNEL_NODE_PARAMS_v2 *p),
        (out, graph, deps, count, p))
{
    struct sim_work work;
    return add(sim_work_of_kernel(&work, p), &work, out, graph, deps, count);
}

SIM_API(cuGraphAddKernelNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         const CUDA_KERNEL_NODE_PARAMS_v1 *p),
        (out, graph, deps, count, p))
{
    CUDA_KERNEL_NODE_PARAMS_v2 params = {0};
    if (p)
        params = sim_kernel_params_v2(p);
    return body_cuGraphAddKernelNode_v2(out, graph, deps, count, p ? &params : NULL);
}

SIM_API(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *out),
        (node, out))
{
    struct sim_node *n = node_of(node, SIM_WORK_KERNEL);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_launch *s = &n->work.u.kernel.shape;
    *out = (CUDA_KERNEL_NODE_PARAMS_v2){.func = (CUfunction)n->work.u.kernel.function,
                                        .gridDimX = s->gridDim[0],
                                        .gridDimY = s->gridDim[1],
                                        .gridDimZ = s->gridDim[2],
                                        .blockDimX = s->blockDim[0],
                                        .blockDimY = s->blockDim[1],
                                        .blockDimZ = s->blockDim[2],
                                        .sharedMemBytes = s->sharedBytes,
                                        .kernelParams = n->work.u.kernel.args};
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out),
        (node, out))
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    CUresult r = out ? body_cuGraphKernelNodeGetParams_v2(node, &p) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    *out = (CUDA_KERNEL_NODE_PARAMS_v1){.func = p.func,
                                        .gridDimX = p.gridDimX,
                                        .gridDimY = p.gridDimY,
                                        .gridDimZ = p.gridDimZ,
                                        .blockDimX = p.blockDimX,
                                        .blockDimY = p.blockDimY,
                                        .blockDimZ = p.blockDimZ,
                                        .sharedMemBytes = p.sharedMemBytes,
                                        .kernelParams = p.kernelParams,
                                        .extra = p.extra};
    return CUDA_SUCCESS;
}

SIM_API(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p),
        (node, p))
{
    struct sim_work work;
    return set(sim_work_of_kernel(&work, p), &work, node);
}

SIM_API(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p),
        (node, p))
{
    struct sim_work work;
    CUDA_KERNEL_NODE_PARAMS_v2 params = {0};
    if (p)
        params = sim_kernel_params_v2(p);
    return set(sim_work_of_kernel(&work, p ? &params : NULL), &work, node);
}

SIM_API(cuGraphAddMemcpyNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         const CUDA_MEMCPY3D *shape, CUcontext ctx),
        (out, graph, deps, count, shape, ctx))
{
    struct sim_work work;
    return add(sim_work_of_copy(&work, shape, ctx), &work, out, graph, deps, count);
}

SIM_API(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D *out), (node, out))
{
    struct sim_node *n = node_of(node, SIM_WORK_COPY);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n->work.u.copy.shape;
    out->reserved0 = out->reserved1 = NULL; /* a captured peer copy keeps its contexts there */
    return CUDA_SUCCESS;
}

/* The context of the node stays. */
SIM_API(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D *shape), (node, shape))
{
    struct sim_work work;
    struct sim_node *n = node_of(node, SIM_WORK_COPY);
    CUresult r = n ? sim_work_of_copy(&work, shape, NULL) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        work.u.copy.device = work.u.copy.link = n->work.u.copy.device;
    return set(r, &work, node);
}

SIM_API(cuGraphAddMemsetNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         const CUDA_MEMSET_NODE_PARAMS *shape, CUcontext ctx),
        (out, graph, deps, count, shape, ctx))
{
    struct sim_work work;
    return add(sim_work_of_set(&work, shape, ctx), &work, out, graph, deps, count);
}

SIM_API(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out), (node, out))
{
    struct sim_node *n = node_of(node, SIM_WORK_SET);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n->work.u.set.shape;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *shape),
        (node, shape))
{
    struct sim_work work;
    struct sim_node *n = node_of(node, SIM_WORK_SET);
    CUresult r = n ? sim_work_of_set(&work, shape, NULL) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        work.u.set.device = n->work.u.set.device;
    return set(r, &work, node);
}

SIM_API(cuGraphAddHostNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         const CUDA_HOST_NODE_PARAMS *p),
        (out, graph, deps, count, p))
{
    struct sim_work work;
    CUresult r = p ? sim_work_of_host(&work, p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE;
    return add(r, &work, out, graph, deps, count);
}

SIM_API(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS *out), (node, out))
{
    struct sim_node *n = node_of(node, SIM_WORK_HOST);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUDA_HOST_NODE_PARAMS){.fn = n->work.u.host.fn, .userData = n->work.u.host.data};
    return CUDA_SUCCESS;
}

SIM_API(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p), (node, p))
{
    struct sim_work work;
    return set(p ? sim_work_of_host(&work, p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE, &work,
               node);
}

SIM_API(cuGraphAddChildGraphNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraph child),
        (out, graph, deps, count, child))
{
    struct sim_work work;
    return add(sim_work_of_child(&work, child), &work, out, graph, deps, count);
}

SIM_API(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph *out), (node, out))
{
    struct sim_node *n = node_of(node, SIM_WORK_CHILD);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)n->work.u.child;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphAddEmptyNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count),
        (out, graph, deps, count))
{
    struct sim_work work = {.kind = SIM_WORK_EMPTY};
    return add(CUDA_SUCCESS, &work, out, graph, deps, count);
}

SIM_API(cuGraphAddEventRecordNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent event),
        (out, graph, deps, count, event))
{
    struct sim_work work;
    return add(sim_work_of_event(&work, event, SIM_WORK_EVENT_RECORD), &work, out, graph, deps,
               count);
}

SIM_API(cuGraphAddEventWaitNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent event),
        (out, graph, deps, count, event))
{
    struct sim_work work;
    return add(sim_work_of_event(&work, event, SIM_WORK_EVENT_WAIT), &work, out, graph, deps,
               count);
}

static CUresult get_event(CUgraphNode node, enum sim_work_kind kind, CUevent *out)
{
    struct sim_node *n = node_of(node, kind);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUevent)n->work.u.event;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent *out), (node, out))
{
    return get_event(node, SIM_WORK_EVENT_RECORD, out);
}

SIM_API(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent *out), (node, out))
{
    return get_event(node, SIM_WORK_EVENT_WAIT, out);
}

SIM_API(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event), (node, event))
{
    struct sim_work work;
    return set(sim_work_of_event(&work, event, SIM_WORK_EVENT_RECORD), &work, node);
}

SIM_API(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event), (node, event))
{
    struct sim_work work;
    return set(sim_work_of_event(&work, event, SIM_WORK_EVENT_WAIT), &work, node);
}
