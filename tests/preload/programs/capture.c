/* SPDX-License-Identifier: MIT */
/* Captures streams into graphs, with memory made before, inside and beside the capture. */
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "program.h"

#define SIZE ((size_t)2 << 20) /* Of every block: `shared` has none of 1 MiB or less. */

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static CUcontext context;
static CUstream stream;
static CUdeviceptr a, b; /* Made before any capture. */
static char *in, *out;   /* Pinned. */

static void make_blocks(void)
{
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&a, SIZE));
    CHECK(cuMemAlloc(&b, SIZE));
    CHECK(cuMemAllocHost((void **)&in, SIZE));
    CHECK(cuMemAllocHost((void **)&out, SIZE));
    memset(in, 1, SIZE);
    fill(a, 0, SIZE, stream); /* Loads the kernel, which a capture could not. */
    CHECK(cuStreamSynchronize(stream));
}

/* in -> a, the second half of a set to 2, a -> b -> out. */
static void steps(void)
{
    CHECK(cuMemcpyHtoDAsync(a, in, SIZE, stream));
    CHECK(cuMemsetD8Async(a + SIZE / 2, 2, SIZE / 2, stream));
    CHECK(cuMemcpyDtoDAsync(b, a, SIZE, stream));
    fill(b, 3, 16, stream);
    CHECK(cuMemcpyDtoHAsync(out, b, SIZE, stream));
}

static void expect_steps(int value)
{
    EXPECT(all_are(out, 3, 16) && all_are(out + 16, value, SIZE / 2 - 16));
    EXPECT(all_are(out + SIZE / 2, 2, SIZE / 2));
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec, int times)
{
    for (int i = 0; i < times; i++) {
        memset(in, 10 + i, SIZE);
        memset(out, 0, SIZE);
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        expect_steps(10 + i);
    }
}

static CUgraph captured(CUstreamCaptureMode mode)
{
    CUgraph graph;
    memset(out, 0, SIZE);
    CHECK(cuStreamBeginCapture(stream, mode));
    steps();
    CHECK(cuStreamEndCapture(stream, &graph));
    EXPECT(all_are(out, 0, SIZE));
    return graph;
}

/* Requests while a capture is under way must not be converted: they stay device memory. */
static void *request_beside(void *unused)
{
    size_t before = sim_leaks(SIM_LEAK_DEVICE), pooled = sim_leaks(SIM_LEAK_POOLED);
    CUdeviceptr p, q;
    CUstream other;
    (void)unused;
    CHECK(cuCtxSetCurrent(context));
    SHOW(cuMemAlloc(&p, SIZE));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemAllocAsync(&q, SIZE, other));
    EXPECT(sim_leaks(SIM_LEAK_DEVICE) == before + 1);
    EXPECT(sim_leaks(SIM_LEAK_POOLED) == pooled + 1);
    SHOW(cuMemFreeAsync(q, other));
    return NULL;
}

static void beside(CUstreamCaptureMode mode, bool own_thread)
{
    CUgraph graph;
    pthread_t thread;
    CHECK(cuStreamBeginCapture(stream, mode));
    steps();
    if (own_thread) {
        request_beside(NULL);
    } else {
        CHECK(pthread_create(&thread, NULL, request_beside, NULL));
        CHECK(pthread_join(thread, NULL));
    }
    SHOW(cuStreamEndCapture(stream, &graph));
    launch(instantiate(graph), 2);
    CHECK(cuCtxSynchronize()); /* The request beside it was freed in a stream of its own. */
}

static void thread_local_mode(void)
{
    make_blocks();
    beside(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false);
}

static void relaxed_mode(void)
{
    make_blocks();
    beside(CU_STREAM_CAPTURE_MODE_RELAXED, true);
    beside(CU_STREAM_CAPTURE_MODE_RELAXED, false);
}

/* A call beside a capture that is not this thread's; what the thread itself may do stays as it was.
 */
#define KEEPS_MODE(call)                                                                           \
    do {                                                                                           \
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;                                  \
        CHECK(call);                                                                               \
        CHECK(cuThreadExchangeStreamCaptureMode(&mode));                                           \
        EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);                                             \
    } while (0)

static CUdeviceptr twins, fresh; /* `fresh` has not been used. */

static void *work_beside(void *blocks)
{
    char **block = blocks, *from = block[0], *to = block[1], *twin = block[2];
    CUstream other;
    CHECK(cuCtxSetCurrent(context));
    KEEPS_MODE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    KEEPS_MODE(cuMemsetD8Async(fresh, 1, SIZE, other));
    KEEPS_MODE(cuStreamSynchronize(other));
    KEEPS_MODE(cuMemFree(fresh));
    KEEPS_MODE(cuMemAlloc(&fresh, SIZE));
    for (int i = 0; i < 3; i++) {
        memset(from, i, SIZE);
        KEEPS_MODE(cuMemcpyHtoDAsync(a, from, SIZE, other));
        memset(from, 50 + i, SIZE); /* It was pageable memory, so it has been read. */
        KEEPS_MODE(cuMemcpyDtoHAsync(to, a, SIZE, other));
        EXPECT(all_are(to, i, SIZE));
        KEEPS_MODE(cuMemcpyDtoDAsync(b, a, SIZE, other));
        KEEPS_MODE(cuStreamSynchronize(other));
        KEEPS_MODE(cuMemcpyDtoH(to, b, SIZE));
        KEEPS_MODE(cuMemcpyHtoD(b, from, SIZE));
        KEEPS_MODE(cuMemcpyHtoDAsync(twins, twin, SIZE, other)); /* Its only source. */
        KEEPS_MODE(cuMemcpyDtoH(twin, twins, SIZE));
        KEEPS_MODE(cuMemsetD8Async(a, 60, SIZE, other));
        fill(b, 3, 16, other);
        KEEPS_MODE(cuStreamSynchronize(other));
        EXPECT(all_are(to, i, SIZE));
    }
    return NULL;
}

static void mode_beside(void)
{
    char *blocks[] = {malloc(SIZE), malloc(SIZE), malloc(SIZE)};
    CUgraph graph;
    pthread_t thread;
    make_blocks();
    CHECK(cuMemAlloc(&twins, SIZE));
    CHECK(cuMemAlloc(&fresh, SIZE));
    memset(blocks[2], 7, SIZE);
    work_beside(blocks); /* From the second copy on a block may be registered. */
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(pthread_create(&thread, NULL, work_beside, blocks));
    CHECK(pthread_join(thread, NULL));
    SHOW(cuStreamEndCapture(stream, &graph));
    CHECK(cuMemFree(a));
    CHECK(cuMemFree(b));
}

/* Requests inside the captured stream become nodes of the graph. */
static void inside(void)
{
    for (int mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        CUgraph graph;
        CUdeviceptr p;
        if (!mode)
            make_blocks();
        size_t nodes = 0;
        CHECK(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
        CHECK(cuMemAllocAsync(&p, SIZE, stream));
        CHECK(cuMemcpyHtoDAsync(p, in, SIZE, stream));
        CHECK(cuMemcpyDtoHAsync(out, p, SIZE, stream));
        CHECK(cuMemFreeAsync(p, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphGetNodes(graph, NULL, &nodes));
        printf("%zu nodes\n", nodes);
        CUgraphExec exec = instantiate(graph);
        memset(in, 40 + mode, SIZE);
        CHECK(cuGraphLaunch(exec, stream));
        CHECK(cuStreamSynchronize(stream));
        EXPECT(all_are(out, 40 + mode, SIZE));
    }
}

/* Calls that a capture in global mode forbids are refused with the driver's codes, and end it. */
static void forbidden(void)
{
    CUdeviceptr p = 0;
    CUgraph graph = NULL;
    make_blocks();
    for (int call = 0; call < 3; call++) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        steps();
        if (call == 0)
            SHOW(cuMemAlloc(&p, SIZE));
        else if (call == 1)
            SHOW(cuMemFree(a));
        else
            SHOW(cuMemAlloc(&p, 0));
        SHOW(cuStreamEndCapture(stream, &graph));
    }
    launch(instantiate(captured(CU_STREAM_CAPTURE_MODE_GLOBAL)), 1);
}

/* Calls that a capture in global mode allows do not end it, whatever libzc does for them. */
static void allowed(void)
{
    size_t bytes, total;
    unsigned type;
    CUdeviceptr base, p, q;
    CUstream other;
    CUgraph graph;
    make_blocks();
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&p, SIZE, other));
    CHECK(cuMemAllocAsync(&q, SIZE, other));
    CHECK(cuMemFreeAsync(q, other));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    steps();
    SHOW(cuMemGetInfo(&bytes, &total));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    SHOW(cuMemGetAddressRange(&base, &bytes, a));
    SHOW(cuMemcpyHtoDAsync(p, in, SIZE, other));
    SHOW(cuMemcpyDtoHAsync(out, p, 16, other));
    SHOW(cuMemsetD8Async(p, 1, SIZE, other));
    SHOW(cuMemFreeAsync(p, other));
    SHOW(cuStreamEndCapture(stream, &graph));
    CHECK(cuStreamSynchronize(other));
    launch(instantiate(graph), 2);
}

/* Calls that only a thread in relaxed mode may make, while other streams are at work: what they
 * have to wait for is no reason to end the capture. */
static void relaxed_calls(void)
{
    CUdeviceptr p;
    CUgraph graph;
    CUstream blocking;
    make_blocks();
    CHECK(cuMemAlloc(&p, SIZE));
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    fill(p, 4, SIZE, blocking);
    CHECK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoDAsync(b, p, SIZE, blocking)); /* The first to want p from the host's view. */
    CHECK(cuMemcpyDtoHAsync(out, b, SIZE, blocking));
    SHOW(cuMemFree(a));
    CHECK(cuMemAlloc(&a, SIZE));
    SHOW(cuMemFree(a));
    SHOW(cuMemFreeHost(in));
    SHOW(cuStreamEndCapture(blocking, &graph));
    CHECK(cuGraphLaunch(instantiate(graph), blocking));
    CHECK(cuStreamSynchronize(blocking));
    EXPECT(all_are(out, 4, SIZE));
}

/* Only launches move anything: one graph never launched, one launched five times. */
static void launches(void)
{
    make_blocks();
    instantiate(captured(CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(instantiate(captured(CU_STREAM_CAPTURE_MODE_RELAXED)), 5);
}

/* Changes an executable graph: one node's parameters, then all from another graph. */
static void updates(void)
{
    CUgraphNode nodes[8];
    CUgraphExecUpdateResultInfo info;
    size_t count = 8;
    make_blocks();
    CUgraph graph = captured(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUgraphExec exec = instantiate(graph);
    launch(exec, 1);
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CHECK(cuGraphNodeGetType(nodes[i], &type));
        if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
            CHECK(cuGraphMemsetNodeGetParams(nodes[i], &set));
            set.width /= 2;
            CHECK(cuGraphExecMemsetNodeSetParams(exec, nodes[i], &set, context));
        } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            CHECK(cuGraphMemcpyNodeGetParams(nodes[i], &copy));
            copy.WidthInBytes /= 4;
            CHECK(cuGraphExecMemcpyNodeSetParams(exec, nodes[i], &copy, context));
        }
    }
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecUpdate(exec, captured(CU_STREAM_CAPTURE_MODE_GLOBAL), &info));
    launch(exec, 2);
}

/* The same by the call that takes nodes of any type. */
static void generic_updates(void)
{
    CUgraphNode nodes[8];
    size_t count = 8;
    make_blocks();
    CUgraph graph = captured(CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUgraphExec exec = instantiate(graph);
    CHECK(cuGraphGetNodes(graph, nodes, &count));
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeParams params = {0};
        CHECK(cuGraphNodeGetType(nodes[i], &params.type));
        if (params.type == CU_GRAPH_NODE_TYPE_MEMSET) {
            CUDA_MEMSET_NODE_PARAMS set;
            CHECK(cuGraphMemsetNodeGetParams(nodes[i], &set));
            params.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = set.dst,
                                                         .pitch = set.pitch,
                                                         .value = set.value,
                                                         .width = set.width / 2,
                                                         .height = set.height,
                                                         .elementSize = set.elementSize,
                                                         .ctx = context};
        } else if (params.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
            params.memcpy.copyCtx = context;
            CHECK(cuGraphMemcpyNodeGetParams(nodes[i], &params.memcpy.copyParams));
            params.memcpy.copyParams.WidthInBytes /= 4;
        } else {
            continue;
        }
        CHECK(cuGraphExecNodeSetParams(exec, nodes[i], &params));
    }
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
}

/* The location of device requests by now. */
static void show_place(void)
{
    size_t before = sim_leaks(SIM_LEAK_DEVICE);
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, SIZE));
    puts(sim_leaks(SIM_LEAK_DEVICE) == before ? "placed" : "not placed");
    CHECK(cuMemFree(p));
}

/* Destroys a stream that takes part in the capture of `stream`; with `own`, had one itself before.
 */
static void lose_joined(bool own)
{
    CUgraph graph;
    CUstream joined;
    CUevent event;
    CHECK(cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (own)
        CHECK(cuStreamBeginCapture(joined, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (own)
        CHECK(cuStreamEndCapture(joined, &graph));
    steps();
    CHECK(cuEventRecord(event, stream));
    CHECK(cuStreamWaitEvent(joined, event, 0));
    CHECK(cuStreamDestroy(joined));
    show_place();
    SHOW(cuStreamEndCapture(stream, &graph));
    show_place();
}

/* A capture goes with the stream that it began in, but not with one that joined it; and with the
 * context. */
static void lost(void)
{
    make_blocks();
    show_place();
    lose_joined(false);
    lose_joined(true);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    steps();
    CHECK(cuStreamDestroy(stream));
    show_place();
    make_blocks();
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    end_gpu(0);
    start_gpu(0);
    show_place();
}

/* Waiting calls, calls for the legacy stream, and those after the capture is invalid. */
static void forbidden_copies(void)
{
    CUstream blocking;
    CUgraph graph = NULL;
    make_blocks();
    CHECK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    for (int call = 0; call < 4; call++) {
        CHECK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (call == 0)
            SHOW(cuMemcpyHtoD(a, in, SIZE));
        else if (call == 1)
            SHOW(cuMemsetD8(a, 1, SIZE));
        else if (call == 2)
            SHOW(cuMemcpyHtoDAsync(a, in, SIZE, NULL));
        else
            SHOW(cuMemFree(a));
        SHOW(cuMemcpyHtoDAsync(a, in, SIZE, blocking));
        SHOW(cuStreamEndCapture(blocking, &graph));
    }
}

/* Memory of malloc that was copied before is the source of a graph, and changes behind its
 * launch. */
static void refill(bool batch)
{
    enum { BYTES = 4 << 20 };
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr d;
    CUgraph graph;
    CUgraphExec exec;
    char *h = malloc(BYTES);
    memset(h, 1, BYTES);
    CHECK(cuMemAlloc(&d, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (batch)
        CHECK(cuMemcpyBatchAsync(&d, &(CUdeviceptr){(CUdeviceptr)h}, &(size_t){BYTES}, 1, &how,
                                 &(size_t){0}, 1, stream));
    else
        CHECK(cuMemcpyHtoDAsync(d, h, BYTES, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (char i = 2; i < 6; i++) {
        memset(h, i, BYTES);
        CHECK(cuGraphLaunch(exec, stream));
        memset(h, 0, BYTES);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(h, d, BYTES));
        printf("holds %d: %d\n", i, all_are(h, i, BYTES));
    }
}

static void refilled(void)
{
    refill(false);
}

static void refilled_batch(void)
{
    refill(true);
}

/* During a capture the program forks, or changes the pages of a block that was copied before; then
 * it copies the block. */
static void changed(void)
{
    enum { BYTES = 4 << 20 };
    CUdeviceptr d;
    CUgraph graph = NULL;
    char *h = malloc(BYTES);
    memset(h, 1, BYTES);
    CHECK(cuMemAlloc(&d, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int forks = 0; forks < 2; forks++) {
        CHECK(cuMemcpyHtoD(d, h, BYTES));
        CHECK(cuMemcpyHtoD(d, h, BYTES));
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (!forks) {
            EXPECT(mprotect(h + PAGE - (uintptr_t)h % PAGE, PAGE, PROT_READ) == 0);
            EXPECT(mprotect(h + PAGE - (uintptr_t)h % PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
        } else if (fork() == 0) {
            _exit(0);
        }
        wait(NULL);
        SHOW(cuMemcpyHtoDAsync(d, h, BYTES, stream));
        SHOW(cuMemcpyDtoHAsync(h, d, BYTES, stream));
        SHOW(cuStreamEndCapture(stream, &graph));
        free(h);
        h = malloc(BYTES);
        memset(h, 2, BYTES);
    }
}

/* Beside a capture copies are put into a stream that waits for what the program does next. */
static void ordered(void)
{
    static struct gate gate;
    CUstream captured;
    CUgraph graph;
    make_blocks();
    CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    gate_close(&gate, stream);
    CHECK(cuMemcpyHtoDAsync(a, in, SIZE, stream));
    CHECK(cuMemcpyDtoDAsync(b, a, SIZE, stream));
    CHECK(cuMemcpyDtoHAsync(out, b, SIZE, stream));
    memset(in, 7, SIZE);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    printf("as it was when the stream went on: %d\n", all_are(out, 7, SIZE));
    SHOW(cuStreamEndCapture(captured, &graph));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"thread_local", thread_local_mode},
                                          {"relaxed", relaxed_mode},
                                          {"relaxed_calls", relaxed_calls},
                                          {"mode_beside", mode_beside},
                                          {"inside", inside},
                                          {"forbidden", forbidden},
                                          {"forbidden_copies", forbidden_copies},
                                          {"allowed", allowed},
                                          {"launches", launches},
                                          {"lost", lost},
                                          {"ordered", ordered},
                                          {"refilled", refilled},
                                          {"refilled_batch", refilled_batch},
                                          {"changed", changed},
                                          {"updates", updates},
                                          {"generic_updates", generic_updates}};
    context = start_gpu(0);
    return RUN_SCENARIO(all, argc, argv);
}
