/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver what becomes of a line between host memory and device or managed memory in an
 * executable graph that is changed several times, in several ways, each in a process of its own: p
 * is pinned memory, g pageable.  Prints one line a question, so that the simulated GPU can be
 * compared with a real one.
 *
 *   chain_facts     ends with status 77 where no GPU answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)4 << 20)
#define BLOCKS 3

static CUcontext context;
static CUstream stream;
static CUdeviceptr device[BLOCKS], managed[BLOCKS], pinned[BLOCKS], pageable[BLOCKS];

/* Of the question. */
static CUdeviceptr *near;
static int to_host, open_sides;
static size_t width = 512;

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static void start(void)
{
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        exit(77);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < BLOCKS; i++) {
        void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
            exit(1);
        pageable[i] = (CUdeviceptr)memset(p, 2, SIZE);
        CHECK(cuMemAlloc(&device[i], SIZE));
        CHECK(cuMemAllocManaged(&managed[i], SIZE, CU_MEM_ATTACH_GLOBAL));
        CHECK(cuMemHostAlloc(&p, SIZE, 0));
        pinned[i] = (CUdeviceptr)memset(p, 3, SIZE);
    }
}

/* A line from or to the block `i` of a kind of host memory. */
static CUDA_MEMCPY3D line(char kind, int i)
{
    CUdeviceptr far = kind == 'p' ? pinned[i] : pageable[i];
    CUdeviceptr dst = to_host ? far : near[i], src = to_host ? near[i] : far;
    CUmemorytype of_host = open_sides ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_HOST;
    CUmemorytype of_near = open_sides ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;

    return (CUDA_MEMCPY3D){.dstMemoryType = to_host ? of_host : of_near,
                           .dstHost = (void *)dst,
                           .dstDevice = dst,
                           .srcMemoryType = to_host ? of_near : of_host,
                           .srcHost = (void *)src,
                           .srcDevice = src,
                           .WidthInBytes = width,
                           .Height = 1,
                           .Depth = 1};
}

static CUgraph graph_of(char kind, int i, CUgraphNode *node)
{
    CUDA_MEMCPY3D copy = line(kind, i);
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    printf("%d ", (int)cuGraphAddMemcpyNode(node, graph, NULL, 0, &copy, context));
    return graph;
}

static CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec exec;

    printf("%d ", (int)cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static int set(CUgraphExec exec, CUgraphNode node, char kind, int i)
{
    CUDA_MEMCPY3D copy = line(kind, i);

    return (int)cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context);
}

static int update(CUgraphExec exec, CUgraph graph)
{
    CUgraphExecUpdateResultInfo info;

    return (int)cuGraphExecUpdate(exec, graph, &info);
}

static void run(CUgraphExec exec, char behind)
{
    printf("launch %d", (int)cuGraphLaunch(exec, stream));
    printf(" ran %d%c", (int)cuStreamSynchronize(stream), behind);
}

/* Host memory of one kind after the other; `by_update`, and launched with each. */
static void chain(const char *kinds, int by_update, int launched)
{
    CUgraphNode node, other;
    CUgraphExec exec = instantiated(graph_of(kinds[0], 0, &node));

    if (launched)
        run(exec, ' ');
    for (int i = 1; kinds[i]; i++) {
        int result =
            by_update ? update(exec, graph_of(kinds[i], i, &other)) : set(exec, node, kinds[i], i);

        printf("%c%d ", kinds[i], result);
        if (launched)
            run(exec, ' ');
    }
    run(exec, '\n');
}

enum way { MADE, SET, UPDATED };

/* A graph of that and a set behind it. */
static void beside_set(enum way way)
{
    const CUDA_MEMSET_NODE_PARAMS params = {
        .dst = device[2], .elementSize = 1, .width = 512, .height = 1};
    CUgraphNode node, other, behind;
    CUgraph before = way == MADE ? NULL : graph_of('p', 0, &node);
    CUgraph after = graph_of('g', 1, &other);
    CUgraphExec exec;

    if (before)
        CHECK(cuGraphAddMemsetNode(&behind, before, &node, 1, &params, context));
    CHECK(cuGraphAddMemsetNode(&behind, after, &other, 1, &params, context));
    exec = instantiated(before ? before : after);
    if (before)
        printf("g%d ", way == UPDATED ? update(exec, after) : set(exec, node, 'g', 1));
    run(exec, '\n');
}

static CUgraph around(CUgraph child, CUgraphNode *node)
{
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddChildGraphNode(node, graph, NULL, 0, child));
    return graph;
}

static void in_child(enum way way)
{
    CUgraphNode node, other;
    CUgraph before = way == MADE ? NULL : graph_of('p', 0, &node);
    CUgraph after = graph_of('g', 1, &other);
    CUgraphExec exec = instantiated(around(before ? before : after, &node));

    if (way == SET)
        printf("g%d ", (int)cuGraphExecChildGraphNodeSetParams(exec, node, after));
    if (way == UPDATED)
        printf("g%d ", update(exec, around(after, &other)));
    run(exec, '\n');
}

static CUgraph capture(char kind, int i)
{
    CUdeviceptr far = kind == 'p' ? pinned[i] : pageable[i];
    CUgraph graph;

    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("%d ", (int)(to_host ? cuMemcpyDtoHAsync((void *)far, near[i], width, stream)
                                : cuMemcpyHtoDAsync(near[i], (void *)far, width, stream)));
    printf("%d ", (int)cuStreamEndCapture(stream, &graph));
    return graph;
}

static void captured(enum way way)
{
    CUgraphExec exec = instantiated(capture(way == MADE ? 'g' : 'p', 0));

    if (way == UPDATED)
        printf("g%d ", update(exec, capture('g', 1)));
    run(exec, '\n');
}

static void set_to_open(void)
{
    CUgraphNode node;
    CUgraphExec exec = instantiated(graph_of('p', 0, &node));

    open_sides = 1;
    printf("g%d ", set(exec, node, 'g', 1));
    run(exec, '\n');
}

static void set_twice(void)
{
    CUgraphNode node;
    CUgraphExec exec = instantiated(graph_of('p', 0, &node));

    printf("g%d ", set(exec, node, 'g', 1));
    printf("g%d ", set(exec, node, 'g', 1));
    run(exec, '\n');
}

static void through_device(void)
{
    CUdeviceptr *first = near;
    CUgraphNode node;
    CUgraphExec exec = instantiated(graph_of('p', 0, &node));

    near = device;
    printf("g%d ", set(exec, node, 'g', 1));
    near = first;
    printf("g%d ", set(exec, node, 'g', 2));
    run(exec, '\n');
}

static void uploaded(void)
{
    CUgraphNode node;
    CUgraphExec exec = instantiated(graph_of('p', 0, &node));

    printf("g%d ", set(exec, node, 'g', 1));
    printf("uploaded %d ", (int)cuGraphUpload(exec, stream));
    run(exec, '\n');
}

static void on_the_host(void)
{
    for (int i = 0; i < BLOCKS; i++)
        memset((void *)managed[i], 5, SIZE);
    chain("pg", 0, 0);
}

static void on_the_device(void)
{
    const CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

    for (int i = 0; i < BLOCKS; i++) {
        printf("%d ", (int)cuMemPrefetchAsync_v2(managed[i], SIZE, there, 0, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    chain("pg", 0, 0);
}

static int worst;

/* Begins a question in a process of its own; 0 in the other one, behind its end. */
static int begin(int of_managed, const char *name)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        start();
        near = of_managed ? managed : device;
        printf("%s %s %s: ", of_managed ? "managed" : "device", to_host ? "to" : "from", name);
        return 1;
    }
    waitpid(child, &status, 0);
    if (status != 0)
        worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    return 0;
}
#define ASK(name, ...)                                                                             \
    do {                                                                                           \
        if (begin(of_managed, name)) {                                                             \
            __VA_ARGS__;                                                                           \
            exit(0);                                                                               \
        }                                                                                          \
    } while (0)

static void ask_chains(int of_managed)
{
    ASK("gpg set", chain("gpg", 0, 0));
    ASK("gpg updated", chain("gpg", 1, 0));
    ASK("gpg set, each launched", chain("gpg", 0, 1));
    ASK("gpg updated, each launched", chain("gpg", 1, 1));
    ASK("pgp set", chain("pgp", 0, 0));
    ASK("pgp updated", chain("pgp", 1, 0));
    ASK("ppg set", chain("ppg", 0, 0));
    ASK("pgg set", chain("pgg", 0, 0));
    ASK("pg set, each launched", chain("pg", 0, 1));
    ASK("ggg set", chain("ggg", 0, 1));
}

static void ask_graphs(int of_managed)
{
    ASK("a set beside it, made with g", beside_set(MADE));
    ASK("a set beside it, set", beside_set(SET));
    ASK("a set beside it, updated", beside_set(UPDATED));
    ASK("child, made with g", in_child(MADE));
    ASK("child set", in_child(SET));
    ASK("child updated", in_child(UPDATED));
    ASK("captured g", captured(MADE));
    ASK("captured, updated", captured(UPDATED));
    ASK("unified pg set", open_sides = 1; chain("pg", 0, 0));
    ASK("unified pg updated", open_sides = 1; chain("pg", 1, 0));
    ASK("set to unified", set_to_open());
    ASK("set twice", set_twice());
    ASK("through device memory", through_device());
    ASK("uploaded", uploaded());
    ASK("64 KiB pg set", width = 65536; chain("pg", 0, 0));
    ASK("64 KiB + 4 pg set", width = 65540; chain("pg", 0, 0));
    ASK("4 MiB pg set", width = SIZE; chain("pg", 0, 0));
    ASK("4 bytes pg set", width = 4; chain("pg", 0, 0));
    if (of_managed) {
        ASK("on the host, pg set", on_the_host());
        ASK("on the device, pg set", on_the_device());
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int of_managed = 0; of_managed < 2; of_managed++)
        for (to_host = 0; to_host < 2; to_host++) {
            ask_chains(of_managed);
            ask_graphs(of_managed);
        }
    return worst;
}
