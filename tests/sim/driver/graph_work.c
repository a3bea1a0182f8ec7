/* SPDX-License-Identifier: MIT */
/* From the parameters of a node to its work and back: what is checked when a node is made or
 * changed. */
#include "graph_work.h"
#include "copy.h"
#include "event.h"
#include "launch.h"
#include <string.h>

CUDA_KERNEL_NODE_PARAMS_v2 sim_kernel_params_v2(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p = {.func = old->func};
    p.gridDimX = old->gridDimX;
    p.gridDimY = old->gridDimY;
    p.gridDimZ = old->gridDimZ;
    p.blockDimX = old->blockDimX;
    p.blockDimY = old->blockDimY;
    p.blockDimZ = old->blockDimZ;
    p.sharedMemBytes = old->sharedMemBytes;
    p.kernelParams = old->kernelParams;
    p.extra = old->extra;
    return p;
}

CUresult sim_work_of_kernel(struct sim_work *out, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    return sim_kernel_work(out, f, (unsigned[]){p->gridDimX, p->gridDimY, p->gridDimZ},
                           (unsigned[]){p->blockDimX, p->blockDimY, p->blockDimZ},
                           p->sharedMemBytes, p->kernelParams, p->extra);
}

static CUresult device_of(CUcontext handle, int *device)
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx || !ctx->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->device;
    return CUDA_SUCCESS;
}

static bool is_dormant(CUdeviceptr va)
{
    const struct sim_block *b = sim_block_find(va);
    return b && b->dormant;
}

CUresult sim_work_of_copy(struct sim_work *out, const CUDA_MEMCPY3D *shape, CUcontext ctx)
{
    int device;
    CUresult r = shape ? device_of(ctx, &device) : CUDA_ERROR_INVALID_VALUE;
    /* As an H200 answers: tests/gpu/graph_facts.h200.txt. */
    if (r == CUDA_SUCCESS && (!shape->WidthInBytes || shape->reserved0 || shape->reserved1))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !is_dormant(shape->srcDevice) && !is_dormant(shape->dstDevice))
        r = sim_copy_check(shape, device);
    if (r != CUDA_SUCCESS)
        return r;
    memset(out, 0, sizeof *out);
    out->kind = SIM_WORK_COPY;
    out->u.copy.shape = *shape;
    out->u.copy.device = out->u.copy.link = device;
    return CUDA_SUCCESS;
}

CUresult sim_work_of_set(struct sim_work *out, const CUDA_MEMSET_NODE_PARAMS *shape, CUcontext ctx)
{
    int device;
    CUresult r = shape ? device_of(ctx, &device) : CUDA_ERROR_INVALID_VALUE;
    /* Another device's own memory that device sets (measured on two H200s). */
    const struct sim_block *b = r == CUDA_SUCCESS ? sim_block_find(shape->dst) : NULL;
    if (b && !sim_reaches(b, device))
        device = b->device;
    if (r == CUDA_SUCCESS && !is_dormant(shape->dst))
        r = sim_set_check(shape, device);
    if (r != CUDA_SUCCESS)
        return r;
    memset(out, 0, sizeof *out);
    out->kind = SIM_WORK_SET;
    out->u.set.shape = *shape;
    out->u.set.device = device;
    return CUDA_SUCCESS;
}

CUresult sim_work_of_host(struct sim_work *out, CUhostFn fn, void *data)
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_work){.kind = SIM_WORK_HOST, .u.host = {fn, data}};
    return CUDA_SUCCESS;
}

CUresult sim_work_of_child(struct sim_work *out, CUgraph graph)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct sim_work){.kind = SIM_WORK_CHILD, .u.child = sim_graph_clone(g)};
    return CUDA_SUCCESS;
}

CUresult sim_work_of_event(struct sim_work *out, CUevent event, enum sim_work_kind kind)
{
    struct sim_event *e = sim_event_of(event);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_event_ref(e);
    *out = (struct sim_work){.kind = kind, .u.event = e};
    return CUDA_SUCCESS;
}

CUresult sim_node_set_work(struct sim_node *node, struct sim_work *work)
{
    if (!node || node->work.kind != work->kind) {
        sim_work_free(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_work_free(&node->work);
    node->work = *work;
    sim_node_remember(&node->work);
    return CUDA_SUCCESS;
}
