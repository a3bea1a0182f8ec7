/* SPDX-License-Identifier: MIT */
/* Graphs in graphs, at any depth, in conditional nodes, recaptured, and nodes of several copies.
 * Each writes a device block that a host block was copied into after the graph was made; with
 * SAME_ADDRESS in the environment one that came to the address of another since. */
#include "driver/newer.h"
#include "sim/batch_node.h"
#include "shared_scene.h"

CUresult CUDAAPI cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *behind,
                                   const CUgraphEdgeData *edges, size_t count,
                                   CUgraphNodeParams *params);
CUresult CUDAAPI cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params);
CUresult CUDAAPI cuStreamBeginRecaptureToGraph(CUstream s, CUstreamCaptureMode mode, CUgraph graph,
                                               CUgraphRecaptureCallback callback, void *data);
CUresult CUDAAPI cuGraphConditionalHandleCreate(cuuint64_t *handle, CUgraph graph,
                                                CUcontext context, unsigned initial,
                                                unsigned flags);

#define PART (64u << 10) /* Bytes that a graph copies. */

static unsigned char plain[SIZE]; /* Memory that no rule can place. */
static CUstream stream;
static CUcontext context;
static CUdeviceptr source; /* PART bytes of 9. */

static CUgraph new_graph(void)
{
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    return graph;
}

static CUDA_MEMCPY3D line(CUdeviceptr dst, CUdeviceptr src)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src,
                           .dstDevice = dst,
                           .WidthInBytes = PART,
                           .Height = 1,
                           .Depth = 1};
}

static CUgraphNode add_copy(CUgraph graph, CUdeviceptr dst)
{
    CUgraphNode node;
    const CUDA_MEMCPY3D copy = line(dst, source);
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    return node;
}

/* A graph with a child, given away. */
static CUgraph around(CUgraph child, CUgraphNode *node)
{
    CUgraph graph = new_graph();
    CHECK(cuGraphAddChildGraphNode(node, graph, NULL, 0, child));
    CHECK(cuGraphDestroy(child));
    return graph;
}

static CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec)
{
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
}

/* Becomes one with a host block, and stays so while a part of the host block is written. */
static unsigned char *pair_with(CUdeviceptr d)
{
    unsigned char *h = host_block(SIZE);
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    memset(h + UNIT, 2, PART);
    return h;
}

/* A new block at the address of one that was freed.  libzc may have given the address to memory
 * that it prepares; then later blocks get it. */
static void again_at(CUdeviceptr d)
{
    CUdeviceptr others[64], found = 0;
    unsigned n = 0;
    while (n < 64 && (found = device_block(SIZE)) != d)
        others[n++] = found;
    EXPECT(found == d);
    while (n)
        CHECK(cuMemFree(others[--n]));
}

/* The launch writes the first `n` bytes of a block alone. */
static void writes(CUgraphExec exec, CUdeviceptr d, size_t n)
{
    if (getenv("SAME_ADDRESS")) {
        CHECK(cuMemFree(d));
        again_at(d);
    }
    unsigned char *h = pair_with(d);
    launch(exec);
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, n ? 9 : 1, PART) && all_are(plain + PART, 1, SIZE - PART));
    EXPECT(all_are(h, 1, UNIT) && all_are(h + UNIT, 2, PART));
    free(h);
}

static void end(CUgraphExec exec, CUgraph graph)
{
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static void deep(void)
{
    for (int depth = 1; depth <= 100; depth = depth < 10 ? depth + 4 : depth * 11) {
        CUdeviceptr d = device_block(SIZE);
        CUgraphNode node;
        CUgraph graph = new_graph();
        add_copy(graph, d);
        for (int i = 0; i < depth; i++)
            graph = around(graph, &node);
        CUgraphExec exec = instantiated(graph);
        writes(exec, d, PART);
        end(exec, graph);
        CHECK(cuMemFree(d));
    }
}

/* Another child of the same shape, and then another copy of its node. */
static void other_child(void)
{
    CUdeviceptr d = device_block(SIZE), e = device_block(SIZE), f = device_block(SIZE);
    CUgraph graph = new_graph(), other = new_graph();
    CUgraphNode node, outer, inner;
    size_t count = 1;
    add_copy(graph, d);
    graph = around(around(graph, &node), &outer);
    add_copy(other, e);
    other = around(other, &node);
    CUgraphExec exec = instantiated(graph);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, outer, other));
    writes(exec, e, PART);
    writes(exec, d, 0);
    CUgraph child;
    CHECK(cuGraphChildGraphNodeGetGraph(outer, &child));
    CHECK(cuGraphGetNodes(child, &inner, &count));
    CHECK(cuGraphChildGraphNodeGetGraph(inner, &child));
    CHECK(cuGraphGetNodes(child, &inner, &count));
    const CUDA_MEMCPY3D copy = line(f, source);
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, inner, &copy, context));
    writes(exec, f, PART);
    writes(exec, e, 0);
    end(exec, graph);
    CHECK(cuGraphDestroy(other));
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    CHECK(cuMemFree(f));
}

/* Another child, of as many copies. */
static void wide_child(void)
{
    CUdeviceptr d[4];
    CUgraphNode outer;
    CUgraph graph = new_graph(), other = new_graph();
    for (int i = 0; i < 4; i++) {
        d[i] = device_block(SIZE);
        add_copy(i < 2 ? graph : other, d[i]);
    }
    graph = around(graph, &outer);
    CUgraphExec exec = instantiated(graph);
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, outer, other));
    writes(exec, d[2], PART);
    end(exec, graph);
    CHECK(cuGraphDestroy(other));
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFree(d[i]));
}

static int set_grid(void *const *args, const struct sim_launch *how)
{
    (void)how;
    sim_condition_set(*(unsigned long long *)args[0], *(unsigned *)args[1]);
    return 0;
}

/* Adds a conditional node; `handle` has to be of this graph or one around it. */
static CUgraph *add_conditional(CUgraph graph, cuuint64_t handle, int type, unsigned count)
{
    CUgraphNode node;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    p.conditional.handle = handle;
    p.conditional.type = (CUgraphConditionalNodeType)type;
    p.conditional.size = count;
    p.conditional.ctx = context;
    CHECK(cuGraphAddNode_v3(&node, graph, NULL, NULL, 0, &p));
    return p.conditional.phGraph_out;
}

/* Bodies in a body, and a loop whose kernel ends it. */
static void conditional(void)
{
    static const size_t sizes[] = {sizeof(cuuint64_t), sizeof(unsigned)};
    CUdeviceptr d = device_block(SIZE), e = device_block(SIZE);
    CUgraph graph = new_graph();
    cuuint64_t yes, no, loop;
    unsigned zero = 0;
    CHECK(cuGraphConditionalHandleCreate(&yes, graph, context, 1, 1));
    CHECK(cuGraphConditionalHandleCreate(&no, graph, context, 0, 1));
    CHECK(cuGraphConditionalHandleCreate(&loop, graph, context, 1, 1));
    CUgraph *bodies = add_conditional(graph, yes, 0, 1);
    bodies = add_conditional(bodies[0], no, 0, 2);
    add_copy(bodies[0], e);
    bodies = add_conditional(bodies[1], loop, 1, 1);
    void *args[] = {&loop, &zero};
    CUgraphNode node;
    const CUDA_KERNEL_NODE_PARAMS ends = {.func = load_kernel("set_condition", set_grid, 2, sizes),
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 1,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = args};
    add_copy(bodies[0], d);
    CHECK(cuGraphAddKernelNode(&node, bodies[0], NULL, 0, &ends));
    CUgraphExec exec = instantiated(graph);
    writes(exec, d, PART);
    writes(exec, e, 0);
    writes(exec, d, PART);
    end(exec, graph);
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
}

/* Nodes of two copies: one captured, one changed in its graph, and one in the executable graph. */
static void batches(void)
{
    CUdeviceptr d = device_block(SIZE), e = device_block(SIZE), f = device_block(SIZE);
    CUdeviceptr dsts[2] = {d, d + PART / 2}, srcs[2] = {source, source};
    size_t sizes[2] = {PART / 2, PART / 2}, index = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUgraph graph;
    CUgraphNode node;
    size_t count = 1;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &how, &index, 1, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiated(graph);
    writes(exec, d, PART);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphGetNodes(graph, &node, &count));
    struct sim_batch_node p = {.type = SIM_BATCH_NODE,
                               .count = 2,
                               .dsts = dsts,
                               .srcs = srcs,
                               .sizes = sizes,
                               .attributes = &how,
                               .indices = &index,
                               .attribute_count = 1,
                               .context = context};
    dsts[0] = e;
    dsts[1] = e + PART / 2;
    CHECK(cuGraphNodeSetParams_v2(node, (CUgraphNodeParams *)&p));
    exec = instantiated(graph);
    writes(exec, e, PART);
    dsts[0] = f;
    dsts[1] = f + PART / 2;
    CHECK(cuGraphExecNodeSetParams(exec, node, (CUgraphNodeParams *)&p));
    writes(exec, f, PART);
    writes(exec, e, 0);
    end(exec, graph);
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    CHECK(cuMemFree(f));
}

static void recapture(void)
{
    CUdeviceptr d = device_block(SIZE), e = device_block(SIZE);
    CUgraph graph, again;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoDAsync(d, source, PART, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiated(graph);
    writes(exec, d, PART);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, graph, NULL, NULL));
    CHECK(cuMemcpyDtoDAsync(e, source, PART, stream));
    CHECK(cuStreamEndCapture(stream, &again));
    EXPECT(again == graph);
    exec = instantiated(graph);
    writes(exec, e, PART);
    writes(exec, d, 0);
    end(exec, graph);
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"deep", deep},       {"other_child", other_child}, {"wide_child", wide_child},
        {"batches", batches}, {"recapture", recapture},     {"conditional", conditional},
    };
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&source, PART));
    CHECK(cuMemsetD8(source, 9, PART));
    CHECK(cuCtxSynchronize());
    int status = RUN_SCENARIO(all, argc, argv);
    CHECK(cuMemFree(source));
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
    return status;
}
