/* SPDX-License-Identifier: MIT */
/* Kernels use blocks that move between the device and host memory; prints where these are. */
#include <pthread.h>

#include "moved_scene.h"

/* The program uses its first blocks, and then the others. */
static void phases(void)
{
    start_gpu(0);
    make(4);
    show("made");
    sweep(0, 2, 4, 5, 20000);
    show("first");
    sweep(2, 4, 4, 5, 20000);
    show("second");
    check_all();
    sweep(0, 2, 4, 5, 20000);
    show("first again");
    end();
}

/* Kernels that gain nothing, and such that would only push out what is used as often. */
static void light(void)
{
    start_gpu(0);
    make(3);
    sweep(0, 3, 10, 5, 600);
    show("swept");
    sweep(0, 3, 10, 8000, 8000);
    show("busy");
    end();
}

/* A block that is used more often than another one takes its place, though no launch pays alone. */
static void often(void)
{
    start_gpu(0);
    make(3);
    for (unsigned t = 0; t < 40; t++) {
        add(2, 5, 400, NULL);
        if (t % 10 == 0)
            sweep(0, 2, 1, 5, 400);
    }
    show("swept");
    end();
}

/* Each sweep needs one block more than there is room for. */
static void cycle(void)
{
    start_gpu(0);
    make(6);
    for (unsigned t = 0; t < 8; t++)
        for (unsigned i = 0; i < 6; i++)
            sweep(i, i + 1, 2, 5, 20000);
    CHECK(cuCtxSynchronize());
    end();
}

static void room_again(void)
{
    start_gpu(0);
    make(3);
    CHECK(cuMemFree(blocks[0]));
    blocks[0] = blocks[2];
    value[0] = value[2];
    count = 2;
    sweep(0, 2, 3, 5, 20000);
    show("after a free");
    end();
}

/* Host memory that a block has left counts there until another one needs the room. */
static void spare(void)
{
    start_gpu(0);
    make(5);
    CHECK(cuMemFree(blocks[0]));
    sweep(2, 3, 3, 5, 20000);
    CHECK(cuMemAlloc(&blocks[0], BLOCK));
    CHECK(cuMemsetD8(blocks[0], value[0], BLOCK));
    show("no room");
    sweep(1, 2, 1, 5, 20000);
    sweep(3, 4, 3, 5, 20000);
    show("swept");
    end();
}

/* A block finds room on the device in what is kept of another one, which does not move. */
static void kept_room(void)
{
    CUdeviceptr small, large;
    start_gpu(0);
    CHECK(cuMemAlloc(&small, 3 * MIB / 2));
    CHECK(cuMemAlloc(&large, 5 * BLOCK));
    make(3);
    show("made");
    CHECK(cuMemFree(small));
    sweep(2, 3, 4, 5, 20000);
    show("swept");
    CHECK(cuMemFree(large));
    end();
}

static size_t show_free(const char *when)
{
    size_t available, total;
    CHECK(cuMemGetInfo(&available, &total));
    printf("%s: %zu MiB free, %zu in use\n", when, available >> 20, (total - available) >> 20);
    return available;
}

/* Free memory does not change where blocks move, and can be had. */
static void told(void)
{
    CUdeviceptr all;
    start_gpu(0);
    make(4);
    show_free("made");
    sweep(0, 2, 4, 5, 20000);
    sweep(2, 4, 4, 5, 20000);
    CHECK(cuMemAlloc(&all, show_free("moved")));
    show_free("all taken");
    CHECK(cuMemFree(all));
    end();
}

/* The program has streams that the legacy one does not cover. */
static void many_streams(void)
{
    static CUstream streams[600];
    start_gpu(0);
    make(4);
    for (unsigned i = 0; i < 600; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    sweep(0, 4, 3, 5, 20000);
    for (unsigned i = 0; i < 600; i++)
        CHECK(cuStreamDestroy(streams[i]));
    show("swept");
    end();
}

/* Copies and sets of all kinds find the bytes, wherever they are. */
static void copies(void)
{
    CUstream s;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    make(4);
    for (unsigned t = 0; t < 12; t++) {
        unsigned i = t % 4, j = (t * 3 + 1) % 4;
        add(i, 5, 20000, s);
        CHECK(cuMemcpyDtoDAsync(blocks[j], blocks[i], BLOCK, s));
        value[j] = value[i];
        CHECK(cuMemsetD8Async(blocks[i], ++value[i], BLOCK, s));
        add(j, 5, 20000, s);
        CHECK(cuMemcpyDtoHAsync(out, blocks[j], BLOCK, s));
        CHECK(cuStreamSynchronize(s));
        EXPECT(all_are(out, value[j], BLOCK));
    }
    check_all();
    CHECK(cuStreamDestroy(s));
    end();
}

/* Each of some driver calls fails in turn while blocks move. */
static void fail(const char *const *name)
{
    start_gpu(0);
    for (; *name; name++) {
        unsigned nth = 0;
        do {
            make(4); /* Others than those that have failed to move. */
            sweep(0, 2, 1, 5, 20000);
            sim_reset_counts();
            sim_fail(*name, CUDA_ERROR_UNKNOWN, ++nth);
            sweep(2, 4, 2, 5, 20000);
            sim_fail(NULL, 0, 0);
            CHECK(cuCtxSynchronize());
            check_all();
            for (; count; count--)
                CHECK(cuMemFree(blocks[count - 1]));
        } while (sim_calls(*name) > nth && nth < 40);
    }
    end();
}

static void fails(void)
{
    fail((const char *const[]){"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
                               "cuStreamCreate", "cuMemcpyDtoDAsync_v2", "cuStreamWaitEvent",
                               "cuEventCreate", "cuEventRecord", "cuEventQuery",
                               "cuStreamSynchronize", "cuMemGetInfo_v2", "cuCtxGetCurrent",
                               "cuCtxGetDevice", "cuEventElapsedTime_v2", NULL});
}

/* Calls that give something back, which stays where they fail. */
static void kept(void)
{
    fail((const char *const[]){"cuMemUnmap", "cuMemRelease", "cuMemAddressFree",
                               "cuEventDestroy_v2", "cuStreamDestroy_v2", NULL});
}

/* The same with blocks that can't change places: one leaves, and then the other one comes. */
static void fails_alone(void)
{
    more = 64 << 10;
    fails();
}

static void kept_alone(void)
{
    more = 64 << 10;
    kept();
}

/* The driver refuses for a while to map anything: neither where blocks go, nor where they were. */
static void unmapped(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    for (unsigned nth = 5; nth < 10; nth++) /* The first four map memory at other addresses. */
        sim_fail("cuMemMap", CUDA_ERROR_UNKNOWN, nth);
    struct work w = {blocks[2], BLOCK, 5, 20000};
    void *args[] = {&w};
    SHOW(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    SHOW(cuMemsetD8(blocks[0], value[0], BLOCK));
    sim_fail(NULL, 0, 0);
    add(0, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    end();
}

static atomic_int over_the_link; /* Runs of slow_grid() with their block in host memory. */

/* As add(), but the GPU needs the time that it is said to take. */
static int slow_grid(void *const *args, const struct sim_launch *launch)
{
    const struct work *w = args[0];
    bool far = hosted(w->at);
    over_the_link += far;
    usleep(far ? w->far : w->near);
    return add_grid(args, launch);
}

static void be_slow(void)
{
    kernel = load_kernel("slow", slow_grid, 1, (const size_t[]){sizeof(struct work)});
}

static void end_slow(void)
{
    CHECK(cuCtxSynchronize());
    printf("over the link: %d\n", over_the_link);
    end();
}

/* A kernel's time on the device is known when it comes to blocks in host memory. */
static void known(void)
{
    start_gpu(0);
    make(6);
    be_slow();
    sweep(0, 6, 3, 10000, 1000000);
    end_slow();
}

/* A kernel first runs with its block in host memory, for long, and is launched again meanwhile. */
static void unknown(void)
{
    start_gpu(0);
    make(3);
    sweep(0, 2, 2, 5, 20000);
    be_slow();
    sweep(2, 3, 4, 1000, 3000000);
    end_slow();
}

static CUcontext shared_context;

static void *launch_twice(void *arg)
{
    (void)arg;
    CHECK(cuCtxSetCurrent(shared_context));
    sweep(2, 3, 2, 1000, 1000000);
    return NULL;
}

/* A capture begins while a launch waits for a kernel's time, which no call asks for meanwhile. */
static void captured_late(void)
{
    pthread_t thread;
    CUstream s;
    CUgraph graph;
    int asks = 5;
    shared_context = start_gpu(0);
    make(3);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    sweep(0, 2, 2, 5, 20000);
    be_slow();
    EXPECT(!pthread_create(&thread, NULL, launch_twice, NULL));
    usleep(200000);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    do { /* A question may have been on its way. */
        EXPECT(asks-- > 0);
        sim_reset_counts();
        usleep(100000);
    } while (sim_calls("cuEventElapsedTime") + sim_calls("cuEventElapsedTime_v2") > 0);
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphDestroy(graph));
    EXPECT(!pthread_join(thread, NULL));
    CHECK(cuStreamDestroy(s));
    end_slow();
}

/* Kernels of many seconds are queued when one comes that needs a block in host memory. */
static void queue(void)
{
    start_gpu(0);
    make(3);
    be_slow();
    sweep(0, 2, 60, 50000, 1000000);
    sweep(2, 3, 3, 50000, 1000000);
    end_slow();
}

/* A kernel gains too little by moves, which is not known at first. */
static void learned(void)
{
    start_gpu(0);
    make(3);
    sweep(0, 3, 40, 100, 600);
    end();
}

static void slow_piece(void)
{
    usleep(5000);
    sim_before("cuMemcpyDtoDAsync_v2", slow_piece);
}

/* The same where a move takes longer than any forecast. */
static void learned_slowly(void)
{
    sim_before("cuMemcpyDtoDAsync_v2", slow_piece);
    learned();
}

static void slower_piece(void)
{
    usleep(20000);
    sim_before("cuMemcpyDtoDAsync_v2", slower_piece);
}

/* Each copy to the device is slow, of blocks that are large enough to tell the link by. */
static void slow_link(void)
{
    more = 28 * MIB;
    start_gpu(0);
    make(6);
    sim_before("cuMemcpyDtoDAsync_v2", slower_piece);
    sweep(2, 4, 4, 5, 20000);
    show("first");
    sweep(4, 6, 4, 5, 20000);
    show("second");
    end();
}

static atomic_int stop;

static void *copier(void *arg)
{
    static unsigned char mine[BLOCK_MOST];
    CUstream s;
    CHECK(cuCtxSetCurrent(shared_context));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    (void)arg;
    while (!atomic_load(&stop)) {
        for (unsigned i = 4; i < 6; i++) {
            CHECK(cuMemsetD8Async(blocks[i], ++value[i], BLOCK, s));
            CHECK(cuMemcpyDtoHAsync(mine, blocks[i], BLOCK, s));
            CHECK(cuStreamSynchronize(s));
            EXPECT(all_are(mine, value[i], BLOCK));
            add(i, 10, 3000, s);
            CHECK(cuStreamSynchronize(s));
        }
    }
    CHECK(cuStreamDestroy(s));
    return NULL;
}

/* Another thread copies and launches while blocks move. */
static void threads(void)
{
    pthread_t thread;
    shared_context = start_gpu(0);
    make(6);
    add(0, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(!pthread_create(&thread, NULL, copier, NULL));
    for (unsigned t = 0; t < 15; t++) {
        sweep(0, 2, 2, 5, 4000);
        CHECK(cuCtxSynchronize());
        sweep(2, 4, 2, 5, 4000);
        CHECK(cuCtxSynchronize());
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    end();
}

/* Nothing moves during a capture; the graph finds its blocks wherever they go later. */
static void graphs(void)
{
    CUstream s;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    make(4);
    sweep(0, 2, 2, 5, 20000);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 0; i < 4; i++)
        add(i, 5, 20000, s);
    CHECK(cuStreamEndCapture(s, &graph));
    show("captured");
    for (unsigned i = 0; i < 4; i++)
        value[i]--;
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (unsigned t = 0; t < 3; t++) {
        CHECK(cuGraphLaunch(exec, s));
        for (unsigned i = 0; i < 4; i++)
            value[i]++;
        CHECK(cuStreamSynchronize(s));
        sweep(2, 4, 2, 5, 20000);
        CHECK(cuCtxSynchronize());
        check_all();
    }
    show("launched");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    end();
}

/* The program launches kernels as a graph, into which they were captured with another graph as a
 * part of it. */
static CUgraphExec make_graph(unsigned from, unsigned to, unsigned near, CUstream s)
{
    CUgraph parts[2];
    CUgraphNode node;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = from; i < to; i++)
        add(i, near, 20000, s);
    CHECK(cuStreamEndCapture(s, &parts[0]));
    for (unsigned i = from; i < to; i++)
        value[i]--;
    CHECK(cuGraphCreate(&parts[1], 0));
    CHECK(cuGraphAddChildGraphNode(&node, parts[1], NULL, 0, parts[0]));
    CHECK(cuGraphInstantiate(&exec, parts[1], 0));
    CHECK(cuGraphDestroy(parts[1]));
    CHECK(cuGraphDestroy(parts[0]));
    return exec;
}

static void launch(CUgraphExec exec, unsigned from, unsigned to, CUstream s)
{
    CHECK(cuGraphLaunch(exec, s));
    for (unsigned i = from; i < to; i++)
        value[i]++;
    CHECK(cuStreamSynchronize(s));
}

/* Three blocks, the first two of which kernels have used so many times; and a stream. */
static CUstream begin_with_two(unsigned times)
{
    CUstream s;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    make(3);
    sweep(0, 2, times, 5, 20000);
    CHECK(cuCtxSynchronize());
    return s;
}

static void end_launched(CUgraphExec exec, CUstream s)
{
    show("launched");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuStreamDestroy(s));
    end();
}

/* A graph's kernels use a block in host memory. */
static void graph_uses(void)
{
    CUstream s = begin_with_two(2);
    CUgraphExec exec = make_graph(1, 3, 5, s);
    for (unsigned t = 0; t < 4; t++)
        launch(exec, 1, 3, s);
    check_all();
    end_launched(exec, s);
}

/* Blocks that a graph uses at each step do not leave for other kernels, though the launches that
 * named them are the oldest. */
static void graph_keeps(void)
{
    CUstream s = begin_with_two(1);
    CUgraphExec exec = make_graph(0, 1, 5, s);
    for (unsigned t = 0; t < 4; t++) {
        launch(exec, 0, 1, s);
        add(2, 5, 20000, s);
        CHECK(cuStreamSynchronize(s));
    }
    end_launched(exec, s);
}

/* Two of many kernels use a block by turns; at least two of 65 have the same remainder. */
static void many_kernels(void)
{
    static char names[65][8];
    static const size_t sizes[] = {sizeof(struct work)};
    CUfunction kernels[65], first = NULL, second = NULL;
    start_gpu(0);
    make(3);
    sweep(0, 2, 1, 5, 20000);
    for (unsigned i = 0; i < 65; i++) {
        snprintf(names[i], sizeof(names[i]), "add%u", i);
        kernels[i] = load_kernel(names[i], add_grid, 1, sizes);
        for (unsigned j = 0; j < i; j++)
            if (((uintptr_t)kernels[i] - (uintptr_t)kernels[j]) >> 4 << 58 == 0) {
                first = kernels[i];
                second = kernels[j];
            }
    }
    for (unsigned t = 0; t < 8; t++) {
        kernel = t % 2 ? first : second;
        add(2, 5, 20000, NULL);
        CHECK(cuCtxSynchronize());
    }
    show("used");
    end();
}

/* A graph of other kernels gets the handle of one that took longer, as far as malloc allows. */
static void graph_again(void)
{
    CUstream s = begin_with_two(2);
    CUfunction add_kernel = kernel;
    kernel = load_kernel("more", add_grid, 1, (const size_t[]){sizeof(struct work)});
    CUgraphExec exec = make_graph(0, 2, 20000, s), before = exec;
    for (unsigned t = 0; t < 2; t++)
        launch(exec, 0, 2, s);
    CHECK(cuGraphExecDestroy(exec));
    kernel = add_kernel;
    exec = make_graph(1, 3, 5, s);
    for (unsigned t = 0; exec != before && t < 8; t++) {
        CHECK(cuGraphExecDestroy(exec));
        exec = make_graph(1, 3, 5, s);
    }
    for (unsigned t = 0; t < 4; t++)
        launch(exec, 1, 3, s);
    end_launched(exec, s);
}

/* A block that a graph copies stays, and its copies are right. */
static void graph_copies(void)
{
    CUstream s;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    make(4);
    sweep(0, 2, 2, 5, 20000);
    sweep(2, 4, 2, 5, 20000);
    CHECK(cuCtxSynchronize());
    show("before");
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyDtoHAsync(out, blocks[0], BLOCK, s));
    CHECK(cuMemcpyDtoDAsync(blocks[3], blocks[2], BLOCK, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    sweep(0, 2, 3, 5, 20000);
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
    value[3] = value[2];
    EXPECT(all_are(out, value[0], BLOCK));
    show("after");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    end();
}

/* A kernel waits for the program, which launches others meanwhile. */
static void for_ever(void)
{
    struct gate gate;
    CUstream s, other;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    make(4);
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, s);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, other);
    add(2, 5, 20000, s);
    add(3, 5, 20000, s);
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    show("waited");
    CHECK(cuStreamDestroy(other));
    CHECK(cuStreamDestroy(s));
    end();
}

/* Another device reaches the blocks, and has work, which might use them, and then none. */
static void shared(void)
{
    struct gate gate;
    CUcontext home = start_gpu(0), other = start_gpu(1);
    CHECK(cuCtxEnablePeerAccess(home, 0));
    gate_close_by_kernel(&gate, NULL);
    CHECK(cuCtxSetCurrent(home));
    make(4);
    sweep(0, 4, 4, 5, 20000);
    show("busy");
    gate_open(&gate);
    CHECK((cuCtxSetCurrent(other), cuCtxSynchronize()));
    CHECK(cuCtxSetCurrent(home));
    sweep(2, 4, 4, 5, 20000);
    show("at rest");
    CHECK((cuCtxSynchronize(), cuCtxSetCurrent(other)));
    check_all();
    CHECK(cuCtxSetCurrent(home));
    end();
}

/* Blocks go with their context, wherever they are. */
static void gone(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 5, 20000);
    sweep(2, 4, 2, 5, 20000);
    check_all();
    kernel = NULL;
    end_gpu(0);
    start_gpu(0);
    make(4);
    sweep(0, 4, 2, 5, 20000);
    end();
}

/* The driver refuses what a move needs, each time. */
static void refused(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 5, 20000);
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    sweep(2, 4, 4, 5, 20000);
    sim_fail(NULL, 0, 0);
    show("refused");
    end();
}

/* Asks about a block again and again. */
static void *asker(void *arg)
{
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                   CU_POINTER_ATTRIBUTE_CONTEXT};
    unsigned type = 0;
    unsigned long long first = 0, id = 0;
    CUcontext of = NULL;
    void *answers[] = {&type, &id, &of};
    CHECK(cuCtxSetCurrent(shared_context));
    CHECK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, blocks[0]));
    (void)arg;
    while (!atomic_load(&stop)) {
        CHECK(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, blocks[0]));
        EXPECT(id == first);
        CHECK(cuPointerGetAttributes(3, asked, answers, blocks[0]));
        EXPECT(type == CU_MEMORYTYPE_DEVICE && id == first && of == shared_context);
    }
    return NULL;
}

/* Another thread asks about a block while it moves. */
static void questions(void)
{
    pthread_t thread;
    shared_context = start_gpu(0);
    make(4);
    EXPECT(!pthread_create(&thread, NULL, asker, NULL));
    for (unsigned t = 0; t < 2; t++) {
        sweep(0, 2, 2, 5, 4000);
        sweep(2, 4, 2, 5, 4000);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    end();
}

/* Layers of a network: a kernel reads its weights and the block before, and writes the next one.
 * Only weights in host memory make it slow. */
#define LAYERS 10
static atomic_int weights_far; /* Launches with weights in host memory. */

struct layer {
    CUdeviceptr weights, in, out;
};

static int layer_grid(void *const *args, const struct sim_launch *launch)
{
    const struct layer *l = args[0];
    (void)launch;
    if (!sim_gpu_pointer_write(l->weights) || !sim_gpu_pointer_write(l->out))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    bool far = hosted(l->weights);
    weights_far += far;
    sim_kernel_takes(5 + 20000 * far + 300 * hosted(l->in) + 300 * hosted(l->out));
    return 0;
}

static void layers(void)
{
    CUdeviceptr weights[LAYERS], state[3];
    CUfunction layer;
    start_gpu(0);
    for (unsigned i = 0; i < LAYERS; i++)
        CHECK(cuMemAlloc(&weights[i], BLOCK));
    for (unsigned i = 0; i < 3; i++)
        CHECK(cuMemAlloc(&state[i], BLOCK / 2));
    layer = load_kernel("layer", layer_grid, 1, (const size_t[]){sizeof(struct layer)});
    for (unsigned step = 0; step < 8; step++) {
        for (unsigned i = 0; i < LAYERS; i++) {
            struct layer l = {weights[i], state[i ? 1 + i % 2 : 0], state[1 + (i + 1) % 2]};
            void *args[] = {&l};
            CHECK(cuLaunchKernel(layer, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        }
        CHECK(cuCtxSynchronize());
        printf("step %u: %d over the link\n", step, atomic_exchange(&weights_far, 0));
    }
    for (unsigned i = 0; i < LAYERS; i++)
        CHECK(cuMemFree(weights[i]));
    for (unsigned i = 0; i < 3; i++)
        CHECK(cuMemFree(state[i]));
    end();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"phases", phases},
                                          {"light", light},
                                          {"often", often},
                                          {"cycle", cycle},
                                          {"known", known},
                                          {"unknown", unknown},
                                          {"queue", queue},
                                          {"learned", learned},
                                          {"learned_slowly", learned_slowly},
                                          {"slow_link", slow_link},
                                          {"room", room_again},
                                          {"copies", copies},
                                          {"fails", fails},
                                          {"fails_alone", fails_alone},
                                          {"kept", kept},
                                          {"kept_alone", kept_alone},
                                          {"threads", threads},
                                          {"graphs", graphs},
                                          {"for_ever", for_ever},
                                          {"shared", shared},
                                          {"unmapped", unmapped},
                                          {"gone", gone},
                                          {"graph_copies", graph_copies},
                                          {"refused", refused},
                                          {"questions", questions},
                                          {"graph_uses", graph_uses},
                                          {"graph_again", graph_again},
                                          {"many_kernels", many_kernels},
                                          {"graph_keeps", graph_keeps},
                                          {"spare", spare},
                                          {"kept_room", kept_room},
                                          {"told", told},
                                          {"many_streams", many_streams},
                                          {"captured_late", captured_late},
                                          {"layers", layers}};
    return RUN_SCENARIO(all, argc, argv);
}
