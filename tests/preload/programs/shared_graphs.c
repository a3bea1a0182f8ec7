/* SPDX-License-Identifier: MIT */
/* Graphs that copy, set and read blocks of pairs: captured, built from nodes and changed. */
#include "shared_scene.h"

static unsigned char plain[SIZE]; /* Memory that no rule can place. */
static CUstream s;

static void begin(void)
{
    for (enum kernel k = PAINT; k < KERNELS; k++)
        kernel_of(k);
    if (!s)
        CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraphExec finish(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return exec;
}

static void launch(CUgraphExec exec)
{
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
}

static void end(CUgraphExec exec)
{
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuStreamDestroy(s));
}

/* A graph of copies between both sides and of a kernel that reads, made when both are one. */
static void captured(void)
{
    struct pair p = filled_pair(SIZE, 1);
    int result = -1;
    begin();
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    CHECK(try_kernel(SHOWS, p.d, 0, SIZE, 2, &result, s));
    CHECK(cuMemcpyDtoHAsync(plain, p.d, SIZE, s));
    CUgraphExec exec = finish();
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    for (unsigned seed = 2; seed < 4; seed++) {
        paint(p.h, SIZE, seed);
        launch(exec);
        EXPECT(result == (seed == 2) && shows(plain, SIZE, seed));
        EXPECT(shows(p.h, SIZE, seed) && sees(p.d, 0, SIZE, seed));
    }
    end(exec);
    give_back(p);
}

/* A graph that copies d to h, and kernels between its launches that see d. */
static void captured_back(void)
{
    struct pair p = filled_pair(SIZE, 1);
    begin();
    CHECK(cuMemcpyDtoHAsync(p.h + UNIT, p.d + UNIT, UNIT, s));
    CUgraphExec exec = finish();
    for (unsigned round = 0; round < 2; round++) {
        paint(p.h, SIZE, 2);
        launch(exec);
        EXPECT(shows(p.h, UNIT, 2) && shows_part(p.h, UNIT, UNIT, 1));
        EXPECT(shows_part(p.h, 2 * UNIT, SIZE - 2 * UNIT, 2) && sees(p.d, 0, SIZE, 1));
    }
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, UNIT, 2) && sees(p.d, UNIT, UNIT, 1));
    end(exec);
    give_back(p);
}

/* A graph that reads d is older than the host block, and lives on when d is set. */
static void older_graph(void)
{
    CUdeviceptr d = device_block(SIZE), other;
    int result = -1;
    CHECK(cuMemAlloc(&other, UNIT / 4));
    begin();
    CHECK(cuMemcpyDtoDAsync(other, d, UNIT / 4, s));
    CHECK(try_kernel(SHOWS, d, 0, SIZE, 1, &result, s));
    CUgraphExec exec = finish();
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    paint(h, SIZE, 2);
    launch(exec);
    EXPECT(result == 1 && copy_sees(other, 0, UNIT / 4, 1) && shows(h, SIZE, 2));
    CHECK(cuMemsetD8(d, 5, SIZE));
    CHECK(cuCtxSynchronize());
    launch(exec);
    CHECK(cuMemcpyDtoH(plain, other, UNIT / 4));
    EXPECT(result == 0 && all_are(plain, 5, UNIT / 4) && shows(h, SIZE, 2));
    end(exec);
    CHECK(cuMemFree(other));
    CHECK(cuMemFree(d));
    free(h);
}

/* A graph sets d; its host block comes between two launches. */
static void sets(void)
{
    CUdeviceptr d = device_block(SIZE);
    begin();
    CHECK(cuMemsetD8Async(d, 6, SIZE, s));
    CUgraphExec exec = finish();
    launch(exec);
    unsigned char *h = host_block(SIZE);
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    EXPECT(sees(d, 0, SIZE, 1));
    launch(exec);
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 6, SIZE) && shows(h, SIZE, 1));
    end(exec);
    CHECK(cuMemFree(d));
    free(h);
}

static CUDA_MEMCPY3D line(CUdeviceptr d, void *h, bool in, size_t n)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                          .srcHost = h,
                          .dstHost = h,
                          .srcDevice = d,
                          .dstDevice = d,
                          .WidthInBytes = n,
                          .Height = 1,
                          .Depth = 1};
    return copy;
}

/* Launches a graph of one node twice. */
static void launch_node(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        CHECK(cuGraphLaunch(exec, NULL));
        CHECK(cuCtxSynchronize());
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static CUgraph new_graph(void)
{
    CUgraph graph;
    CHECK(cuGraphCreate(&graph, 0));
    return graph;
}

/* Nodes that copy into h, in both forms. */
static void nodes_into_h(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUgraph graph = new_graph();
    CUgraphNode node;
    CUdeviceptr other;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemAlloc(&other, 8192));
    CHECK(cuMemsetD8(other, 7, 8192));
    CUDA_MEMCPY3D copy = line(other, p.h, false, 4096);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                             .memcpy.copyParams = line(other, p.h + UNIT, false, 8192),
                             .memcpy.copyCtx = context};
    CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    CHECK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &any));
    launch_node(graph);
    EXPECT(all_are(p.h, 7, 4096) && all_are(p.h + UNIT, 7, 8192) && sees(p.d, 0, SIZE, 1));
    EXPECT(shows_part(p.h, 4096, UNIT - 4096, 1) && shows_part(p.h, 2 * UNIT, UNIT, 1));
    CHECK(cuMemFree(other));
    give_back(p);
}

/* Nodes that write d: a copy of its host block, one of other memory, and a set. */
static void nodes_into_d(void)
{
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    for (int which = 0; which < 3; which++) {
        struct pair p = filled_pair(SIZE, 1);
        CUgraph graph = new_graph();
        CUgraphNode node;
        CUDA_MEMCPY3D copy = line(p.d, which ? plain : p.h, true, UNIT);
        CUDA_MEMSET_NODE_PARAMS set = {
            .dst = p.d, .elementSize = 1, .width = UNIT, .height = 1, .value = 9};
        paint(plain, UNIT, 2);
        if (which < 2)
            CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
        else
            CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
        paint(p.h, SIZE, 3);
        launch_node(graph);
        CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
        EXPECT(which == 2 ? all_are(plain, 9, UNIT) : shows(plain, UNIT, which ? 2 : 3));
        EXPECT(shows_part(plain, UNIT, SIZE - UNIT, 1) && shows(p.h, SIZE, 3));
        give_back(p);
    }
}

/* A node is made for other memory, and led to d and h in the executable graph. */
static void changed_nodes(void)
{
    struct pair p = filled_pair(SIZE, 1), q = filled_pair(SIZE, 2);
    CUgraph graph = new_graph();
    CUgraphExec exec;
    CUgraphNode in, out;
    CUdeviceptr other;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuMemAlloc(&other, UNIT));
    CUDA_MEMCPY3D copy = line(other, plain, true, UNIT);
    CHECK(cuGraphAddMemcpyNode(&in, graph, NULL, 0, &copy, context));
    copy = line(other, plain, false, UNIT);
    CHECK(cuGraphAddMemcpyNode(&out, graph, &in, 1, &copy, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    paint(plain, UNIT, 4);
    copy = line(p.d, plain, true, UNIT);
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, in, &copy, context));
    copy = line(p.d, q.h, false, UNIT);
    CHECK(cuGraphExecMemcpyNodeSetParams(exec, out, &copy, context));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, UNIT, 4) && sees(p.d, UNIT, SIZE - UNIT, 1));
    EXPECT(shows(q.h, UNIT, 4) && shows_part(q.h, UNIT, SIZE - UNIT, 2) && sees(q.d, 0, SIZE, 2));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(other));
    give_back(p);
    give_back(q);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"captured", captured},           {"captured_back", captured_back},
        {"older_graph", older_graph},     {"sets", sets},
        {"nodes_into_h", nodes_into_h},   {"nodes_into_d", nodes_into_d},
        {"changed_nodes", changed_nodes},
    };
    return RUN_SCENES(all, argc, argv);
}
