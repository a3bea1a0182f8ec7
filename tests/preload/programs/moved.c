/* SPDX-License-Identifier: MIT */
/* Kernels use blocks that move between the device and host memory; prints where these are. */
#include <pthread.h>
#include <sys/mman.h>

#include "include/zc.h"
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (4 * MIB)
#define MOST 6

static CUdeviceptr blocks[MOST];
static unsigned char value[MOST]; /* What each byte of a block is. */
static unsigned count;
static unsigned char out[BLOCK];
static CUfunction kernel;

/* On the GPU's side: whether the block at an address is in host memory. */
static bool hosted(CUdeviceptr p)
{
    struct zc_memory m = {.device_bytes = -1};
    return zc_query((const void *)p, &m) && m.device_bytes == 0;
}

/* A kernel add(struct {pointer, bytes, microseconds on the device and in host memory}): adds 1 to
 * each byte and takes as long as a GPU would. */
struct work {
    CUdeviceptr at;
    size_t bytes;
    unsigned near, far;
};

static int add_grid(void *const *args, const struct sim_launch *launch)
{
    const struct work *w = args[0];
    unsigned char *p = sim_gpu_pointer_write(w->at);
    (void)launch;
    if (!p || !sim_gpu_pointer_write(w->at + w->bytes - 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < w->bytes; i++)
        p[i]++;
    sim_kernel_takes(hosted(w->at) ? w->far : w->near);
    return 0;
}

static void add(unsigned i, unsigned near, unsigned far, CUstream stream)
{
    static const size_t sizes[] = {sizeof(struct work)};
    if (!kernel)
        kernel = load_kernel("add", add_grid, 1, sizes);
    struct work w = {blocks[i], BLOCK, near, far};
    void *args[] = {&w};
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    value[i]++;
}

static void make(unsigned n)
{
    count = n;
    for (unsigned i = 0; i < n; i++) {
        CHECK(cuMemAlloc(&blocks[i], BLOCK));
        CHECK(cuMemsetD8(blocks[i], value[i] = (unsigned char)(40 * i), BLOCK));
    }
}

/* "DH": the first block is on the device, the second one in host memory. */
static void show(const char *when)
{
    printf("%s: ", when);
    for (unsigned i = 0; i < count; i++)
        putchar(hosted(blocks[i]) ? 'H' : 'D');
    putchar('\n');
}

static void check_all(void)
{
    for (unsigned i = 0; i < count; i++) {
        memset(out, 255, BLOCK);
        CHECK(cuMemcpyDtoH(out, blocks[i], BLOCK));
        EXPECT(all_are(out, value[i], BLOCK));
    }
}

static void end(void)
{
    check_all();
    for (unsigned i = 0; i < count; i++)
        CHECK(cuMemFree(blocks[i]));
    kernel = NULL;
    end_gpu(0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

static void sweep(unsigned from, unsigned to, unsigned times, unsigned near, unsigned far)
{
    for (unsigned t = 0; t < times; t++)
        for (unsigned i = from; i < to; i++)
            add(i, near, far, NULL);
}

/* The program uses its first blocks, and then the others. */
static void phases(void)
{
    start_gpu(0);
    make(4);
    show("made");
    sweep(0, 2, 4, 100, 20000);
    show("first");
    sweep(2, 4, 4, 100, 20000);
    show("second");
    check_all();
    sweep(0, 2, 4, 100, 20000);
    show("first again");
    end();
}

/* Kernels that gain nothing, and such that would only push out what is used as often. */
static void light(void)
{
    start_gpu(0);
    make(3);
    sweep(0, 3, 10, 300, 900);
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
        add(2, 100, 1400, NULL);
        if (t % 10 == 0)
            sweep(0, 2, 1, 100, 1400);
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
            sweep(i, i + 1, 2, 100, 20000);
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
    sweep(0, 2, 3, 100, 20000);
    show("after a free");
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
        add(i, 100, 20000, s);
        CHECK(cuMemcpyDtoDAsync(blocks[j], blocks[i], BLOCK, s));
        value[j] = value[i];
        CHECK(cuMemsetD8Async(blocks[i], ++value[i], BLOCK, s));
        add(j, 100, 20000, s);
        CHECK(cuMemcpyDtoHAsync(out, blocks[j], BLOCK, s));
        CHECK(cuStreamSynchronize(s));
        EXPECT(all_are(out, value[j], BLOCK));
    }
    check_all();
    CHECK(cuStreamDestroy(s));
    end();
}

/* Each driver call of a move fails in turn. */
static void fails(void)
{
    static const char *const names[] = {
        "cuMemCreate",          "cuMemAddressReserve",  "cuMemMap",        "cuMemSetAccess",
        "cuStreamCreate",       "cuMemcpyDtoHAsync_v2", "cuMemUnmap",      "cuMemcpyHtoDAsync_v2",
        "cuMemRelease",         "cuMemAddressFree",     "cuEventCreate",   "cuEventRecord",
        "cuEventQuery",         "cuStreamSynchronize",  "cuMemGetInfo_v2", "cuCtxGetCurrent",
        "cuEventElapsedTime_v2"};
    start_gpu(0);
    make(4);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsigned nth = 0;
        do {
            unsigned first = nth % 2 * 2;
            sim_reset_counts();
            sim_fail(names[i], CUDA_ERROR_UNKNOWN, ++nth);
            sweep(first, first + 2, 2, 100, 20000);
            sim_fail(NULL, 0, 0);
            CHECK(cuCtxSynchronize());
            check_all();
        } while (sim_calls(names[i]) > nth && nth < 40);
    }
    end();
}

/* The driver refuses for a while to map anything: neither where a block goes, nor where it was. */
static void unmapped(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 100, 20000);
    add(2, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    sim_fail("cuMemMap", CUDA_ERROR_UNKNOWN, 2);
    sim_fail("cuMemMap", CUDA_ERROR_UNKNOWN, 3);
    sim_fail("cuMemMap", CUDA_ERROR_UNKNOWN, 4);
    sim_fail("cuMemMap", CUDA_ERROR_UNKNOWN, 5);
    struct work w = {blocks[2], BLOCK, 100, 20000};
    void *args[] = {&w};
    SHOW(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    SHOW(cuMemsetD8(blocks[0], value[0], BLOCK));
    sim_fail(NULL, 0, 0);
    add(0, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    end();
}

static CUcontext shared_context;
static atomic_int stop;

static void *copier(void *arg)
{
    static unsigned char mine[BLOCK];
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
    add(0, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(!pthread_create(&thread, NULL, copier, NULL));
    for (unsigned t = 0; t < 15; t++) {
        sweep(0, 2, 2, 100, 4000);
        CHECK(cuCtxSynchronize());
        sweep(2, 4, 2, 100, 4000);
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
    sweep(0, 2, 2, 100, 20000);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 0; i < 4; i++)
        add(i, 100, 20000, s);
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
        sweep(2, 4, 2, 100, 20000);
        CHECK(cuCtxSynchronize());
        check_all();
    }
    show("launched");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    end();
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
    sweep(0, 2, 2, 100, 20000);
    sweep(2, 4, 2, 100, 20000);
    CHECK(cuCtxSynchronize());
    show("before");
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyDtoHAsync(out, blocks[0], BLOCK, s));
    CHECK(cuMemcpyDtoDAsync(blocks[3], blocks[2], BLOCK, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    sweep(0, 2, 3, 100, 20000);
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
    sweep(0, 2, 2, 100, 20000);
    add(2, 100, 20000, s);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, other);
    add(2, 100, 20000, s);
    add(3, 100, 20000, s);
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    show("waited");
    CHECK(cuStreamDestroy(other));
    CHECK(cuStreamDestroy(s));
    end();
}

/* Another device reaches the blocks. */
static void shared(void)
{
    CUcontext home = start_gpu(0), other = start_gpu(1);
    CHECK(cuCtxEnablePeerAccess(home, 0));
    CHECK(cuCtxSetCurrent(home));
    make(4);
    sweep(0, 4, 4, 100, 20000);
    show("swept");
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(other));
    check_all();
    CHECK(cuCtxSetCurrent(home));
    end();
}

/* Blocks go with their context, wherever they are. */
static void gone(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 100, 20000);
    sweep(2, 4, 2, 100, 20000);
    check_all();
    kernel = NULL;
    end_gpu(0);
    start_gpu(0);
    make(4);
    sweep(0, 4, 2, 100, 20000);
    end();
}

static void paused(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 3, 100, 20000);
    CHECK(cuCtxSynchronize());
    printf("paused %zu\n", zc_pause(NULL, ZC_KEEP) / MIB);
    sweep(2, 4, 3, 100, 20000);
    CHECK(cuCtxSynchronize());
    show("without the first");
    for (; count > 2; count--)
        CHECK(cuMemFree(blocks[count - 1]));
    EXPECT(zc_resume(NULL) == 0);
    end();
}

/* The driver refuses what a move needs, each time. */
static void refused(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 100, 20000);
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    sweep(2, 4, 4, 100, 20000);
    sim_fail(NULL, 0, 0);
    show("refused");
    end();
}

static void in_a_thread(void *(*run)(void *))
{
    pthread_t thread;
    EXPECT(!pthread_create(&thread, NULL, run, NULL));
    EXPECT(!pthread_detach(thread));
}

static void *use_others(void *arg)
{
    (void)arg;
    CHECK(cuCtxSetCurrent(shared_context));
    sweep(2, 4, 4, 100, 20000);
    atomic_store(&stop, 1);
    return NULL;
}

/* Launches that would take the place of the first blocks, within a call of another thread. */
static void meanwhile(void)
{
    in_a_thread(use_others);
    for (int i = 0; i < 50 && !hosted(blocks[0]); i++)
        usleep(10000);
}

/* The memory of a block is exported while launches would move it. */
static void exported(void)
{
    int fd = -1;
    shared_context = start_gpu(0);
    make(4);
    sweep(0, 2, 2, 100, 20000);
    CHECK(cuCtxSynchronize());
    sim_before("cuMemGetHandleForAddressRange", meanwhile);
    CHECK(cuMemGetHandleForAddressRange(&fd, blocks[0], 2 * MIB,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    while (!atomic_load(&stop))
        usleep(1000);
    CHECK(cuCtxSynchronize());
    show("exported");
    add(0, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    const unsigned char *there = mmap(NULL, 2 * MIB, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT(there != MAP_FAILED && all_are(there, value[0], 2 * MIB));
    EXPECT(!munmap((void *)there, 2 * MIB) && !close(fd));
    end();
}

static void batch_there(CUstream stream)
{
#if CUDA_VERSION >= 13000
    CUdeviceptr to = (CUdeviceptr)out;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = BLOCK, first = 0;
    CHECK(cuMemcpyBatchAsync(&to, &blocks[0], &bytes, 1, &how, &first, 1, stream));
#else
    CHECK(cuMemcpyDtoHAsync(out, blocks[0], BLOCK, stream));
#endif
}

/* Another context uses a block, by a batch or while the first context captures. */
static void beside(bool captures)
{
    struct gate gate;
    CUstream there, here;
    CUgraph graph;
    CUcontext home = start_gpu(0), other;
    make(4);
    sweep(0, 2, 2, 100, 20000);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&here, CU_STREAM_NON_BLOCKING));
    if (captures)
        CHECK(cuStreamBeginCapture(here, CU_STREAM_CAPTURE_MODE_RELAXED));
    other = another_context();
    CHECK(cuStreamCreate(&there, CU_STREAM_DEFAULT));
    if (captures)
        gate_close_by_kernel(&gate, there);
    else
        batch_there(there);
    CHECK(cuCtxSetCurrent(home));
    if (captures) {
        CHECK(cuStreamEndCapture(here, &graph));
        CHECK(cuGraphDestroy(graph));
    }
    sweep(2, 4, 4, 100, 20000);
    show("used beside");
    if (captures)
        gate_open(&gate);
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamSynchronize(there));
    CHECK(cuStreamDestroy(there));
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamDestroy(here));
    end();
}

/* Another context begins to use a block when it has been decided that one moves. */
static CUcontext other_context;
static CUstream other_stream;
static struct gate late_gate;

static void *launch_beside(void *arg)
{
    (void)arg;
    CHECK(cuCtxSetCurrent(other_context));
    gate_close_by_kernel(&late_gate, other_stream);
    return NULL;
}

static void launch_now(void)
{
    pthread_t thread;
    EXPECT(!pthread_create(&thread, NULL, launch_beside, NULL));
    EXPECT(!pthread_join(thread, NULL));
}

static void beside_late(void)
{
    CUcontext home = start_gpu(0);
    make(4);
    sweep(0, 2, 2, 100, 20000);
    CHECK(cuCtxSynchronize());
    other_context = another_context();
    CHECK(cuStreamCreate(&other_stream, CU_STREAM_DEFAULT));
    CHECK(cuCtxSetCurrent(home));
    add(2, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    sim_before("cuMemGetInfo_v2", launch_now);
    sweep(2, 4, 4, 100, 20000);
    show("used beside");
    gate_open(&late_gate);
    CHECK(cuCtxSetCurrent(other_context));
    CHECK(cuStreamSynchronize(other_stream));
    CHECK(cuStreamDestroy(other_stream));
    CHECK(cuCtxDestroy(other_context));
    CHECK(cuCtxSetCurrent(home));
    end();
}

/* The first context goes while a second one uses the blocks of a third one, which is the first
 * afterwards. */
static void beside_ended(void)
{
    struct gate gate;
    CUdeviceptr p;
    CUcontext primary = start_gpu(0), third = another_context();
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuMemAlloc(&p, MIB));
    CHECK(cuMemFree(p));
    CHECK(cuCtxSetCurrent(third));
    make(4);
    other_context = another_context();
    CHECK(cuStreamCreate(&other_stream, CU_STREAM_DEFAULT));
    gate_close_by_kernel(&gate, other_stream);
    CHECK(cuDevicePrimaryCtxReset(0));
    CHECK(cuCtxSetCurrent(third));
    CHECK(cuMemAlloc(&p, MIB));
    sweep(0, 4, 4, 100, 20000);
    show("used beside");
    gate_open(&gate);
    CHECK(cuCtxDestroy(other_context));
    CHECK(cuCtxSynchronize());
    check_all();
    CHECK(cuCtxDestroy(third));
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

/* A launch in a stream of another context than the current one, while that stream's context is
 * busy. */
static void from_beside(void)
{
    struct gate gate;
    CUstream busy, s;
    CUcontext home = start_gpu(0), other;
    make(4);
    CHECK(cuStreamCreate(&busy, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    sweep(0, 2, 2, 100, 20000);
    add(2, 100, 20000, s);
    CHECK(cuCtxSynchronize());
    other = another_context();
    CHECK(cuCtxSetCurrent(home));
    gate_close_by_kernel(&gate, busy);
    CHECK(cuCtxSetCurrent(other));
    add(2, 100, 20000, s);
    add(3, 100, 20000, s);
    add(2, 100, 20000, s);
    show("busy");
    gate_open(&gate);
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamDestroy(busy));
    CHECK(cuStreamDestroy(s));
    end();
}

static void *open_soon(void *gate)
{
    usleep(100000);
    gate_open(gate);
    return NULL;
}

/* A stream is destroyed while its kernel runs. */
static void ended_stream(void)
{
    static struct gate gate;
    pthread_t thread;
    CUstream s;
    start_gpu(0);
    make(4);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    sweep(0, 2, 2, 100, 20000);
    add(2, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, s);
    CHECK(cuStreamDestroy(s));
    EXPECT(!pthread_create(&thread, NULL, open_soon, &gate));
    sweep(2, 4, 4, 100, 20000);
    EXPECT(atomic_load(&gate.open));
    show("at rest");
    pthread_join(thread, NULL);
    end();
}

/* Another device writes a block by a copy between contexts, which needs no access to it. */
static void peer_copy(void)
{
    struct gate gate;
    CUstream s;
    CUdeviceptr theirs;
    CUcontext home = start_gpu(0), other = start_gpu(1);
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    CHECK(cuCtxSetCurrent(home));
    make(4);
    sweep(0, 2, 2, 100, 20000);
    add(2, 100, 20000, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuMemAlloc(&theirs, MIB));
    CHECK(cuMemsetD8(theirs, 99, MIB));
    gate_close_by_kernel(&gate, s);
    CHECK(cuMemcpyPeerAsync(blocks[0], home, theirs, other, MIB, s));
    CHECK(cuCtxSetCurrent(home));
    sweep(2, 4, 4, 100, 20000);
    CHECK(cuCtxSynchronize());
    show("copied");
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(theirs));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuMemcpyDtoH(out, blocks[0], BLOCK));
    EXPECT(all_are(out, 99, MIB));
    CHECK(cuMemsetD8(blocks[0], value[0], MIB));
    end();
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuDevicePrimaryCtxReset(1));
}

static void beside_batch(void)
{
    beside(false);
}

static void beside_capture(void)
{
    beside(true);
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
    for (unsigned t = 0; t < 20; t++) {
        sweep(0, 2, 2, 100, 4000);
        sweep(2, 4, 2, 100, 4000);
    }
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
    end();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"phases", phases},
                                          {"light", light},
                                          {"often", often},
                                          {"cycle", cycle},
                                          {"room", room_again},
                                          {"copies", copies},
                                          {"fails", fails},
                                          {"threads", threads},
                                          {"graphs", graphs},
                                          {"for_ever", for_ever},
                                          {"shared", shared},
                                          {"paused", paused},
                                          {"unmapped", unmapped},
                                          {"gone", gone},
                                          {"graph_copies", graph_copies},
                                          {"refused", refused},
                                          {"beside_batch", beside_batch},
                                          {"beside_capture", beside_capture},
                                          {"questions", questions},
                                          {"exported", exported},
                                          {"beside_late", beside_late},
                                          {"beside_ended", beside_ended},
                                          {"from_beside", from_beside},
                                          {"ended_stream", ended_stream},
                                          {"peer_copy", peer_copy}};
    return RUN_SCENARIO(all, argc, argv);
}
