/* SPDX-License-Identifier: MIT */
/* Allocation and free nodes, and the memory that graphs hold (CUDA Programming Guide, "Graph Memory
 * Nodes"). */
#include "graph.h"
#include "pool.h"
#include <string.h>

static uint64_t used_high[SIM_MAX_DEVICES];

static struct sim_block *graph_block(CUdeviceptr dptr)
{
    struct sim_block *b = sim_block_find(dptr);
    return b && b->va == dptr && b->kind == SIM_POOLED ? b : NULL;
}

CUresult sim_graph_alloc_work(struct sim_work *out, struct sim_pool *pool, size_t size)
{
    struct sim_block *b;
    CUresult r = size ? sim_pool_alloc(pool, size, pool->device, &b) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        return r;
    b->graph_refs = 1;
    b->dormant = true;
    memset(out, 0, sizeof *out);
    out->kind = SIM_WORK_ALLOC;
    out->u.alloc.params.poolProps = pool->props;
    out->u.alloc.params.bytesize = size;
    out->u.alloc.params.dptr = b->va;
    return CUDA_SUCCESS;
}

void sim_graph_alloc_ref(CUdeviceptr dptr)
{
    struct sim_block *b = graph_block(dptr);
    if (b)
        b->graph_refs++;
}

/* A block that outlives its graph belongs to the program, which frees it. */
void sim_graph_alloc_unref(CUdeviceptr dptr)
{
    struct sim_block *b = graph_block(dptr);
    if (!b || --b->graph_refs > 0 || !b->dormant)
        return;
    sim_pool_free(b);
}

static void usage(int device, uint64_t *used, uint64_t *reserved)
{
    struct sim_block *b;
    *used = *reserved = 0;
    for (size_t i = 0; (b = sim_block_at(i)) != NULL; i++) {
        if (b->device != device || !b->graph_refs)
            continue;
        *reserved += b->size;
        *used += b->dormant ? 0 : b->size;
    }
    if (*used > used_high[device])
        used_high[device] = *used;
}

CUresult sim_graph_alloc_run(struct sim_work *work)
{
    uint64_t used, reserved;
    sim_relock();
    struct sim_block *b = graph_block(work->u.alloc.params.dptr);
    if (b) {
        b->dormant = false;
        memset(b->storage, 0xA5, b->size);
        usage(b->device, &used, &reserved);
    }
    sim_unlock();
    return b ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

SIM_API(cuGraphAddMemAllocNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count,
         CUDA_MEM_ALLOC_NODE_PARAMS *params),
        (out, graph, deps, count, params))
{
    struct sim_graph *g = sim_graph_of(graph);
    struct sim_work work;
    if (!out || !g || !params || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(params->poolProps.location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = sim_graph_alloc_work(
        &work, sim_devices[params->poolProps.location.id].default_pool, params->bytesize);
    if (r != CUDA_SUCCESS)
        return r;
    params->dptr = work.u.alloc.params.dptr;
    return sim_node_add(g, (struct sim_node *const *)deps, count, &work, (struct sim_node **)out);
}

SIM_API(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out),
        (node, out))
{
    struct sim_node *n = sim_node_of(node);
    if (!n || !out || n->work.kind != SIM_WORK_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n->work.u.alloc.params;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphAddMemFreeNode,
        (CUgraphNode * out, CUgraph graph, const CUgraphNode *deps, size_t count, CUdeviceptr dptr),
        (out, graph, deps, count, dptr))
{
    struct sim_graph *g = sim_graph_of(graph);
    struct sim_work work = {.kind = SIM_WORK_FREE, .u.free = dptr};
    const struct sim_block *b = graph_block(dptr);
    if (!out || !g || !b || !b->graph_refs)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_node_add(g, (struct sim_node *const *)deps, count, &work, (struct sim_node **)out);
}

SIM_API(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr *out), (node, out))
{
    struct sim_node *n = sim_node_of(node);
    if (!n || !out || n->work.kind != SIM_WORK_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n->work.u.free;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceGraphMemTrim, (CUdevice dev), (dev))
{
    return sim_device_valid(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SIM_API(cuDeviceGetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *value),
        (dev, attribute, value))
{
    uint64_t used, reserved;
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    usage(dev, &used, &reserved);
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT)
        *(cuuint64_t *)value = used;
    else if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        *(cuuint64_t *)value = used_high[dev];
    else
        *(cuuint64_t *)value = reserved;
    return CUDA_SUCCESS;
}

SIM_API(cuDeviceSetGraphMemAttribute, (CUdevice dev, CUgraphMem_attribute attribute, void *value),
        (dev, attribute, value))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    if (!value || !high || *(cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    used_high[dev] = 0;
    return CUDA_SUCCESS;
}
