/* SPDX-License-Identifier: MIT */
/* Graphs: building them node by node, instantiating, updating and destroying them. */
#include "runtime.h"

#include <string.h>

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
    return RT_CALL(cuGraphCreate, graph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return RT_CALL(cuGraphDestroy, graph);
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original)
{
    return RT_CALL(cuGraphClone, clone, original);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    return RT_CALL(cuGraphGetNodes, graph, nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    CUgraphNodeType answer;
    cudaError_t error = RT_CALL(cuGraphNodeGetType, node, &answer);

    if (error == cudaSuccess)
        *type = (enum cudaGraphNodeType)answer;
    return error;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error;

    if (p == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memset(&params, 0, sizeof(params));
    error = rt_enter_function(p->func, &params.func);
    if (error != cudaSuccess)
        return error;
    params.gridDimX = p->gridDim.x;
    params.gridDimY = p->gridDim.y;
    params.gridDimZ = p->gridDim.z;
    params.blockDimX = p->blockDim.x;
    params.blockDimY = p->blockDim.y;
    params.blockDimZ = p->blockDim.z;
    params.sharedMemBytes = p->sharedMemBytes;
    params.kernelParams = p->kernelParams;
    params.extra = p->extra;
    return rt_return(rt_driver.cuGraphAddKernelNode(node, graph, dependencies, count, &params));
}

/* The context that a copy or set node runs in is the one that is current when it is added. */
static cudaError_t enter_context(CUcontext *context_out)
{
    cudaError_t error = rt_enter();

    return error != cudaSuccess ? error : rt_return(rt_driver.cuCtxGetCurrent(context_out));
}

static cudaError_t enter_copy(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy,
                              CUcontext *context_out)
{
    cudaError_t error = enter_context(context_out);

    if (error != cudaSuccess)
        return error;
    error = rt_copy_of_parms(p, copy);
    return error == cudaSuccess ? cudaSuccess : rt_fail(error);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemcpy3DParms *p)
{
    CUcontext context;
    CUDA_MEMCPY3D copy;
    cudaError_t error = enter_copy(p, &copy, &context);

    return error != cudaSuccess ? error
                                : rt_return(rt_driver.cuGraphAddMemcpyNode(
                                      node, graph, dependencies, count, &copy, context));
}

/* One row of a linear copy, as a copy node describes it. */
static struct cudaMemcpy3DParms linear_parms(void *dst, const void *src, size_t bytes,
                                             enum cudaMemcpyKind kind)
{
    return (struct cudaMemcpy3DParms){
        .srcPtr = {.ptr = (void *)(uintptr_t)src, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .dstPtr = {.ptr = dst, .pitch = bytes, .xsize = bytes, .ysize = 1},
        .extent = {.width = bytes, .height = 1, .depth = 1},
        .kind = kind,
    };
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *dependencies, size_t count, void *dst,
                                     const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms p = linear_parms(dst, src, bytes, kind);

    return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &p);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               void *dst, const void *src, size_t bytes,
                                               enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms p = linear_parms(dst, src, bytes, kind);
    CUcontext context;
    CUDA_MEMCPY3D copy;
    cudaError_t error = enter_copy(&p, &copy, &context);

    return error != cudaSuccess
               ? error
               : rt_return(rt_driver.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemsetParams *p)
{
    CUcontext context;
    CUDA_MEMSET_NODE_PARAMS params;
    cudaError_t error;

    if (p == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = enter_context(&context);
    if (error != cudaSuccess)
        return error;
    params = (CUDA_MEMSET_NODE_PARAMS){.dst = rt_address(p->dst),
                                       .pitch = p->pitch,
                                       .value = p->value,
                                       .elementSize = p->elementSize,
                                       .width = p->width,
                                       .height = p->height};
    return rt_return(
        rt_driver.cuGraphAddMemsetNode(node, graph, dependencies, count, &params, context));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                 const cudaGraphNode_t *dependencies, size_t count,
                                 const struct cudaHostNodeParams *p)
{
    CUDA_HOST_NODE_PARAMS params;

    if (p == NULL)
        return rt_fail(cudaErrorInvalidValue);
    params = (CUDA_HOST_NODE_PARAMS){.fn = p->fn, .userData = p->userData};
    return RT_CALL(cuGraphAddHostNode, node, graph, dependencies, count, &params);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *dependencies, size_t count)
{
    return RT_CALL(cuGraphAddEmptyNode, node, graph, dependencies, count);
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *dependencies, size_t count,
                                       cudaGraph_t child)
{
    return RT_CALL(cuGraphAddChildGraphNode, node, graph, dependencies, count, child);
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *dependencies, size_t count,
                                     struct cudaMemAllocNodeParams *p)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    cudaError_t error;

    if (p == NULL)
        return rt_fail(cudaErrorInvalidValue);
    memset(&params, 0, sizeof(params));
    memcpy(&params.poolProps, &p->poolProps, sizeof(params.poolProps));
    params.accessDescs = (const CUmemAccessDesc *)p->accessDescs;
    params.accessDescCount = p->accessDescCount;
    params.bytesize = p->bytesize;
    error = RT_CALL(cuGraphAddMemAllocNode, node, graph, dependencies, count, &params);
    if (error == cudaSuccess)
        p->dptr = (void *)(uintptr_t)params.dptr;
    return error;
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *dependencies, size_t count, void *dptr)
{
    return RT_CALL(cuGraphAddMemFreeNode, node, graph, dependencies, count, rt_address(dptr));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return RT_CALL(cuGraphInstantiateWithFlags, exec, graph, flags);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *result)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    cudaError_t error = RT_CALL(cuGraphExecUpdate, exec, graph, &info);

    if (result != NULL) {
        result->result = (enum cudaGraphExecUpdateResult)info.result;
        result->errorNode = info.errorNode;
        result->errorFromNode = info.errorFromNode;
    }
    return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return RT_CALL(cuGraphExecDestroy, exec);
}
