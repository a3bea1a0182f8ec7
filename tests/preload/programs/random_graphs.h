/* SPDX-License-Identifier: MIT */
/* Captures and graphs of the random program. */
#ifndef RANDOM_GRAPHS_H
#define RANDOM_GRAPHS_H

#include "random_host.h"

#define PARTS 5

/* The blocks of a graph, settled and held while it lives. */
struct parts {
    struct block *block[PARTS];
    int count;
};

static inline bool hold(struct parts *parts, bool (*fits)(const struct block *))
{
    struct block *b = pick(fits);
    if (!b || parts->count == PARTS)
        return false;
    settle(b);
    b->held++;
    parts->block[parts->count++] = b;
    return true;
}

static inline void release(struct parts *parts)
{
    for (int i = 0; i < parts->count; i++) {
        show_content("graph:", parts->block[i]);
        parts->block[i]->held--;
    }
}

static inline bool for_graph(const struct block *b)
{
    return !b->held && kernel_reaches(b);
}

/* Of another device, which copies alone reach. */
static inline bool far_for_graph(const struct block *b)
{
    return !b->held && on_device(b) && b->device != current && b->kind < ASYNC &&
           b->kind != MANAGED;
}

static inline bool is_far(const struct block *b)
{
    return on_device(b) && b->device != current;
}

static inline bool host_for_graph(const struct block *b)
{
    return !b->held && pinned(b);
}

static inline struct block *part(const struct parts *parts)
{
    return parts->block[below((size_t)parts->count)];
}

static inline size_t smaller(const struct block *a, const struct block *b)
{
    return a->bytes < b->bytes ? a->bytes : b->bytes;
}

/* The effect of a launch of the graph in a stream: a copy, a set or a kernel. */
static inline CUresult captured_step(const struct parts *parts, CUstream s)
{
    struct block *a = part(parts), *b = part(parts);
    CUdeviceptr to = address(a, 0), from = address(b, 0), p = 0;
    size_t n = 1 + below(smaller(a, b));
    int k = (int)below(256);
    void *args[] = {&to, &from, &n, &k};
    switch (below(5)) {
    case 0:
        return a == b ? CUDA_SUCCESS : cuMemcpyAsync(to, from, n, s);
    case 1:
        return on_device(a) && !is_far(a) ? cuMemsetD8Async(to, (unsigned char)k, n, s)
                                          : CUDA_SUCCESS;
    case 2:
        if (!kernels || a == b || !kernel_writes(a) || is_far(a) || is_far(b))
            return CUDA_SUCCESS;
        return cuLaunchKernel(mix_kernel[current], 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
    case 3:
        if (cuMemAllocAsync(&p, n, s) || cuMemcpyAsync(p, from, n, s) || cuMemcpyAsync(to, p, n, s))
            return CUDA_ERROR_UNKNOWN;
        return cuMemFreeAsync(p, s);
    default:
        return on_device(a) && on_device(b) && a != b ? cuMemcpyDtoDAsync(to, from, n, s)
                                                      : CUDA_SUCCESS;
    }
}

/* A stream of the same device that can be captured too. */
static inline struct stream *other_than(const struct stream *s)
{
    return legacy(s->device) + (s == legacy(s->device) + 2 ? 3 : 2);
}

/* The same in another stream, which joins the capture and leaves it. */
static inline CUresult step_aside(const struct parts *parts, CUstream s, CUstream aside)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, s));
    CHECK(cuStreamWaitEvent(aside, event, 0));
    CUresult code = captured_step(parts, aside);
    CHECK(cuEventRecord(event, aside));
    CHECK(cuStreamWaitEvent(s, event, 0));
    CHECK(cuEventDestroy(event));
    return code;
}

static inline CUgraph capture(const struct parts *parts, struct stream *s)
{
    CUgraph graph = NULL;
    CUresult code;
    bool relaxed = threads > 1 || one_in(2);
    pthread_mutex_lock(&capturing);
    CHECK(cuStreamBeginCapture(s->handle, relaxed ? CU_STREAM_CAPTURE_MODE_RELAXED
                                                  : CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 1 + below(5); i > 0; i--)
        say("captured: %d",
            (int)(threads == 1 && one_in(3) ? step_aside(parts, s->handle, other_than(s)->handle)
                                            : captured_step(parts, s->handle)));
    if (relaxed && one_in(3)) {
        CUdeviceptr p = 0;
        code = cuMemAlloc(&p, 70000);
        say("request beside: %d", (int)code);
        if (code == CUDA_SUCCESS)
            say("freed: %d", (int)cuMemFree(p));
    } else if (!relaxed && one_in(8)) {
        say("forbidden: %d", (int)cuMemFree(address(parts->block[0], 1)));
    }
    code = cuStreamEndCapture(s->handle, &graph);
    pthread_mutex_unlock(&capturing);
    say("captured graph: %d", (int)code);
    return code == CUDA_SUCCESS ? graph : NULL;
}

static inline CUDA_MEMCPY3D copy_node(const struct block *a, const struct block *b, size_t n)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = address(b, 0),
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = address(a, 0),
                           .WidthInBytes = n,
                           .Height = 1,
                           .Depth = 1};
}

static inline CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind,
                                const struct parts *parts)
{
    struct block *a = part(parts), *b = part(parts);
    size_t n = 1 + below(smaller(a, b)), behinds = *behind != NULL;
    CUdeviceptr to = address(a, 0), from = address(b, 0);
    int k = (int)below(256);
    void *args[] = {&to, &from, &n, &k};
    CUDA_MEMCPY3D copy = copy_node(a, b, n);
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = to, .value = (unsigned)k, .elementSize = 1, .width = n, .height = 1};
    CUDA_KERNEL_NODE_PARAMS kernel = {.func = mix_kernel[current],
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 1,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    if (a == b || (one_in(3) && on_device(a) && !is_far(a)))
        return on_device(a) && !is_far(a)
                   ? cuGraphAddMemsetNode(node, graph, behind, behinds, &set, contexts[current])
                   : cuGraphAddEmptyNode(node, graph, behind, behinds);
    if (kernels && kernel_writes(a) && !is_far(a) && !is_far(b) && one_in(2))
        return cuGraphAddKernelNode(node, graph, behind, behinds, &kernel);
    return cuGraphAddMemcpyNode(node, graph, behind, behinds, &copy, contexts[current]);
}

static inline CUgraph built(const struct parts *parts)
{
    CUgraph graph, clone;
    CUgraphNode behind = NULL, node = NULL;
    CHECK(cuGraphCreate(&graph, 0));
    for (unsigned i = 1 + below(5); i > 0; i--) {
        CUresult code = add_node(&node, graph, &behind, parts);
        say("node: %d", (int)code);
        if (code == CUDA_SUCCESS)
            behind = node;
    }
    if (one_in(3)) {
        say("clone: %d", (int)cuGraphClone(&clone, graph));
        CHECK(cuGraphDestroy(graph));
        return clone;
    }
    return graph;
}

/* Other bytes for a copy or a set that the graph has. */
static inline void update(CUgraphExec exec, CUgraph graph)
{
    CUgraphNode nodes[64];
    size_t count = 64;
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CHECK(cuGraphNodeGetType(nodes[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
            CUDA_MEMSET_NODE_PARAMS p;
            CHECK(cuGraphMemsetNodeGetParams(nodes[i], &p));
            p.value = below(256);
            say("new set: %d",
                (int)cuGraphExecMemsetNodeSetParams(exec, nodes[i], &p, contexts[current]));
        } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY && one_in(2)) {
            CUDA_MEMCPY3D p;
            CHECK(cuGraphMemcpyNodeGetParams(nodes[i], &p));
            p.WidthInBytes = 1 + below(p.WidthInBytes);
            say("new copy: %d",
                (int)cuGraphExecMemcpyNodeSetParams(exec, nodes[i], &p, contexts[current]));
        }
    }
}

static inline void launch_graph(CUgraphExec exec, const struct parts *parts)
{
    struct stream *s = any_stream();
    struct block *b = part(parts);
    if (!on_device(b))
        scribble(b->at, b->bytes);
    say("launch: %d", (int)cuGraphLaunch(exec, s->handle));
    CHECK(cuStreamSynchronize(s->handle));
    show_content("launched:", b);
}

static inline void graph(void)
{
    struct parts parts = {.count = 0};
    /* A capture of a blocking stream forbids the legacy one, which other threads use. */
    int which = 1 + (int)below(3);
    struct stream *s = legacy(current) + (threads > 1 ? 3 : which);
    CUgraphExec exec = NULL;
    CUgraph made;
    hold(&parts, for_graph);
    hold(&parts, for_graph);
    hold(&parts, host_for_graph);
    if (parts.count && one_in(4))
        hold(&parts, far_for_graph);
    if (parts.count == 0)
        return;
    made = one_in(2) ? built(&parts) : capture(&parts, s);
    CUresult code = made ? cuGraphInstantiate(&exec, made, 0) : CUDA_ERROR_UNKNOWN;
    say("instantiated: %d", (int)code);
    for (unsigned i = below(4); code == CUDA_SUCCESS && i > 0; i--) {
        launch_graph(exec, &parts);
        if (one_in(3))
            update(exec, made);
    }
    if (exec)
        say("exec destroyed: %d", (int)cuGraphExecDestroy(exec));
    if (made)
        say("graph destroyed: %d", (int)cuGraphDestroy(made));
    release(&parts);
}

#endif
