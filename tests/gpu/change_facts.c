/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver which copies and sets in an executable graph it changes to which others: by
 * cuGraphExecMemcpyNodeSetParams or cuGraphExecMemsetNodeSetParams ("set"), by
 * cuGraphExecNodeSetParams ("set by its type"), and by cuGraphExecUpdate from a graph that has the
 * other one ("updated").  Prints one line a question, so that the simulated GPU can be compared
 * with a real one.
 *
 *   change_facts     ends with status 77 where no GPU answers
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
#define WIDTH 512
#define PITCH 1024
#define ROWS 4
#define LOST 78 /* an exit status: the context is of no more use */

/* Of a part, shared by the processes that ask it one after the other: the questions answered. */
static int *answered;
static int asked;

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static CUcontext context;
static CUstream stream;
static CUarray arrays[2];

/* Two blocks of each kind of memory, and as what a copy names them. */
static struct memory {
    const char *name;
    CUmemorytype type;
    CUdeviceptr at[2];
} memories[] = {{"device memory", CU_MEMORYTYPE_DEVICE, {0}},
                {"a pool's block", CU_MEMORYTYPE_DEVICE, {0}},
                {"managed memory", CU_MEMORYTYPE_DEVICE, {0}},
                {"a mapping", CU_MEMORYTYPE_DEVICE, {0}},
                {"pinned memory as the device's", CU_MEMORYTYPE_DEVICE, {0}},
                {"pinned memory", CU_MEMORYTYPE_HOST, {0}},
                {"registered memory", CU_MEMORYTYPE_HOST, {0}},
                {"pageable memory", CU_MEMORYTYPE_HOST, {0}}};
enum { ALLOC, POOLED, MANAGED, MAPPING, PINNED_AS_DEVICE, PINNED, REGISTERED, PAGEABLE, KINDS };

static CUdeviceptr map_memory(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;

    CHECK(cuMemAddressReserve(&at, SIZE, 0, 0, 0));
    CHECK(cuMemCreate(&handle, SIZE, &prop, 0));
    CHECK(cuMemMap(at, SIZE, 0, handle, 0));
    CHECK(cuMemSetAccess(at, SIZE, &access, 1));
    return at;
}

static CUdeviceptr pages(void)
{
    void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    return (CUdeviceptr)memset(p, 1, SIZE);
}

static void start(void)
{
    const CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = PITCH, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    void *p;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        exit(77);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) {
        CHECK(cuArrayCreate(&arrays[i], &desc));
        CHECK(cuMemAlloc(&memories[ALLOC].at[i], SIZE));
        CHECK(cuMemAllocAsync(&memories[POOLED].at[i], SIZE, stream));
        CHECK(cuMemAllocManaged(&memories[MANAGED].at[i], SIZE, CU_MEM_ATTACH_GLOBAL));
        memories[MAPPING].at[i] = map_memory();
        CHECK(cuMemHostAlloc(&p, SIZE, 0));
        memories[PINNED].at[i] = memories[PINNED_AS_DEVICE].at[i] = (CUdeviceptr)p;
        memories[REGISTERED].at[i] = pages();
        CHECK(cuMemHostRegister((void *)memories[REGISTERED].at[i], SIZE, 0));
        memories[PAGEABLE].at[i] = pages();
    }
    CHECK(cuStreamSynchronize(stream));
}

/* A node's parameters. */
struct node {
    CUDA_MEMCPY3D copy; /* of a copy */
    CUDA_MEMSET_NODE_PARAMS set;
    int is_set;
};

static CUresult make_graph(CUgraph *graph, const struct node *n, CUgraphNode *node)
{
    CHECK(cuGraphCreate(graph, 0));
    return n->is_set ? cuGraphAddMemsetNode(node, *graph, NULL, 0, &n->set, context)
                     : cuGraphAddMemcpyNode(node, *graph, NULL, 0, &n->copy, context);
}

static CUresult set_by_type(CUgraphExec exec, CUgraphNode node, const struct node *to)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

    if (to->is_set) {
        params.type = CU_GRAPH_NODE_TYPE_MEMSET;
        params.memset.dst = to->set.dst;
        params.memset.pitch = to->set.pitch;
        params.memset.value = to->set.value;
        params.memset.elementSize = to->set.elementSize;
        params.memset.width = to->set.width;
        params.memset.height = to->set.height;
        params.memset.ctx = context;
    } else {
        params.memcpy.copyParams = to->copy;
        params.memcpy.copyCtx = context;
    }
    return cuGraphExecNodeSetParams(exec, node, &params);
}

static CUresult update(CUgraphExec exec, const struct node *to)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUgraphNode node;
    CUgraph other;
    CUresult made = make_graph(&other, to, &node);
    CUresult result = made == CUDA_SUCCESS ? cuGraphExecUpdate(exec, other, &info) : made;

    CHECK(cuGraphDestroy(other));
    if (made != CUDA_SUCCESS)
        printf("not made: ");
    else if (result != CUDA_SUCCESS)
        printf("reason %d, ", (int)info.result);
    return result;
}

static CUresult change(int way, CUgraphExec exec, CUgraphNode node, const struct node *to)
{
    if (way == 2)
        return update(exec, to);
    if (way == 1)
        return set_by_type(exec, node, to);
    return to->is_set ? cuGraphExecMemsetNodeSetParams(exec, node, &to->set, context)
                      : cuGraphExecMemcpyNodeSetParams(exec, node, &to->copy, context);
}

static void ask_one(int way, const struct node *from, const struct node *to)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph;
    CUresult result = make_graph(&graph, from, &node);

    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiate(&exec, graph, 0);
    if (result != CUDA_SUCCESS) {
        printf("not instantiated: %d\n", (int)result);
        return;
    }
    printf("%d, ", (int)change(way, exec, node, to));
    printf("launched %d, ", (int)cuGraphLaunch(exec, stream));
    result = cuStreamSynchronize(stream);
    printf("ran %d\n", (int)result);
    if (result != CUDA_SUCCESS)
        exit(LOST);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* Changes an executable graph in each way. */
static void ask(const char *from_name, const struct node *from, const char *to_name,
                const struct node *to)
{
    static const char *const ways[] = {"set", "set by its type", "updated"};

    for (int way = 0; way < 3; way++) {
        if (asked++ < *answered)
            continue;
        ++*answered;
        printf("%s, %s to %s: ", from_name, ways[way], to_name);
        ask_one(way, from, to);
    }
}

/* A line between blocks of two kinds of memory. */
static struct node line(const struct memory *to, const struct memory *from, int which)
{
    return (struct node){.copy = {.dstMemoryType = to->type,
                                  .dstHost = (void *)to->at[which],
                                  .dstDevice = to->at[which],
                                  .srcMemoryType = from->type,
                                  .srcHost = (void *)from->at[which],
                                  .srcDevice = from->at[which],
                                  .WidthInBytes = WIDTH,
                                  .Height = 1,
                                  .Depth = 1}};
}

/* The same of rows, side by side where the pitch is the width, and of slices. */
static struct node rows(struct node n, size_t pitch, size_t depth)
{
    n.copy.srcPitch = n.copy.dstPitch = pitch;
    n.copy.srcHeight = n.copy.dstHeight = n.copy.Height = ROWS;
    n.copy.Depth = depth;
    return n;
}

static struct node to_array(struct node n, int which)
{
    n.copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    n.copy.dstArray = arrays[which];
    n.copy.dstHost = NULL;
    n.copy.dstDevice = n.copy.dstPitch = n.copy.dstHeight = 0;
    return n;
}

static void ask_shapes(void)
{
    struct node a = line(&memories[ALLOC], &memories[PAGEABLE], 0);
    struct node b = line(&memories[ALLOC], &memories[PAGEABLE], 1);
    struct node longer = a, pitched = a;
    struct {
        const char *name;
        struct node node, other;
    } shapes[] = {
        {"a line", a, b},
        {"rows side by side", rows(a, WIDTH, 1), rows(b, WIDTH, 1)},
        {"rows", rows(a, PITCH, 1), rows(b, PITCH, 1)},
        {"slices", rows(a, PITCH, 2), rows(b, PITCH, 2)},
        {"a line to an array", to_array(a, 0), to_array(b, 1)},
        {"rows to an array", to_array(rows(a, WIDTH, 1), 0), to_array(rows(b, WIDTH, 1), 1)}};
    enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

    longer.copy.WidthInBytes = SIZE;
    pitched.copy.srcPitch = pitched.copy.dstPitch = PITCH;
    ask("a line", &a, "a longer one", &longer);
    ask("a line", &a, "one with a pitch", &pitched);
    for (int i = 0; i < SHAPES; i++) {
        ask(shapes[i].name, &shapes[i].node, "the same", &shapes[i].node);
        ask(shapes[i].name, &shapes[i].node, "other memory", &shapes[i].other);
        for (int k = 0; k < SHAPES; k++)
            if (i != k)
                ask(shapes[i].name, &shapes[i].node, shapes[k].name, &shapes[k].node);
    }
}

/* Lines from and to device memory whose other side changes its kind. */
static void ask_kinds(void)
{
    for (int i = 0; i < KINDS; i++)
        for (int k = 0; k < KINDS; k++)
            for (int to = 0; to < 2; to++) {
                const struct memory *device = &memories[ALLOC];
                struct node before =
                    line(to ? &memories[i] : device, to ? device : &memories[i], 0);
                struct node after = line(to ? &memories[k] : device, to ? device : &memories[k], 1);
                char name[100];

                snprintf(name, sizeof(name), "a line %s %s", to ? "to" : "from", memories[i].name);
                ask(name, &before, memories[k].name, &after);
            }
}

/* Lines between host memory that changes its kind and what may not be device memory. */
static void ask_hosts(void)
{
    static const int nears[][2] = {{POOLED, POOLED},   {MANAGED, MANAGED},
                                   {MAPPING, MAPPING}, {PINNED_AS_DEVICE, PINNED_AS_DEVICE},
                                   {ALLOC, MANAGED},   {MANAGED, ALLOC}};
    enum { NEARS = sizeof(nears) / sizeof(nears[0]), HOSTS = KINDS - PINNED };

    for (int n = 0; n < NEARS * 2; n++)
        for (int i = 0; i < HOSTS * HOSTS; i++) {
            const struct memory *near = &memories[nears[n / 2][0]],
                                *other = &memories[nears[n / 2][1]];
            const struct memory *host = &memories[PINNED + i / HOSTS];
            const struct memory *then = &memories[PINNED + i % HOSTS];
            struct node before = line(n % 2 ? near : host, n % 2 ? host : near, 0);
            struct node after = line(n % 2 ? other : then, n % 2 ? then : other, 1);
            char name[100], to[100];

            snprintf(name, sizeof(name), "%s %s %s", near->name, n % 2 ? "from" : "to", host->name);
            snprintf(to, sizeof(to), "%s and %s", other->name, then->name);
            ask(name, &before, near == other ? then->name : to, &after);
        }
}

static struct node set_of(CUdeviceptr dst, unsigned element, size_t width, size_t height)
{
    return (struct node){.set = {.dst = dst,
                                 .pitch = PITCH,
                                 .value = 7,
                                 .elementSize = element,
                                 .width = width,
                                 .height = height},
                         .is_set = 1};
}

static void ask_sets(void)
{
    CUdeviceptr a = memories[ALLOC].at[0], b = memories[ALLOC].at[1];
    struct {
        const char *name;
        struct node node;
    } sets[] = {{"a set line", set_of(a, 1, WIDTH, 1)},
                {"a set line elsewhere", set_of(b, 1, WIDTH, 1)},
                {"a longer set line", set_of(a, 1, SIZE, 1)},
                {"a set line of words", set_of(a, 4, WIDTH / 4, 1)},
                {"a longer set line of words", set_of(a, 4, WIDTH, 1)},
                {"set rows", set_of(a, 1, WIDTH, ROWS)},
                {"set rows elsewhere", set_of(b, 1, WIDTH, ROWS)},
                {"more set rows", set_of(a, 1, WIDTH, 2 * ROWS)},
                {"wider set rows", set_of(a, 1, 2 * WIDTH, ROWS)},
                {"set rows of words", set_of(a, 4, WIDTH / 4, ROWS)}};
    enum { SETS = sizeof(sets) / sizeof(sets[0]) };

    for (int i = 0; i < SETS; i++)
        for (int k = 0; k < SETS; k++)
            ask(sets[i].name, &sets[i].node, sets[k].name, &sets[k].node);
    for (int i = 0; i < PINNED; i++)
        for (int k = 0; k < PINNED; k++) {
            struct node before = set_of(memories[i].at[0], 1, WIDTH, 1);
            struct node after = set_of(memories[k].at[1], 1, WIDTH, 1);
            char name[100];

            snprintf(name, sizeof(name), "a set line of %s", memories[i].name);
            ask(name, &before, memories[k].name, &after);
        }
}

/* In a process of its own; its exit status. */
static int run(void (*part)(void))
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        start();
        part();
        exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    static void (*const parts[])(void) = {ask_shapes, ask_kinds, ask_sets, ask_hosts};
    enum { PARTS = sizeof(parts) / sizeof(parts[0]) };
    int worst = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    answered = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answered == MAP_FAILED)
        return 1;
    for (int i = 0; i < PARTS;) {
        int status = run(parts[i]);

        if (status == LOST)
            continue;
        if (status != 0)
            worst = status;
        *answered = 0;
        i++;
    }
    return worst;
}
