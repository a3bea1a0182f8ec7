/* SPDX-License-Identifier: MIT */
/* Others begin to use blocks that move: threads, captures, contexts and devices; prints where the
 * blocks are. */
#include <pthread.h>
#include <sys/mman.h>

#include "moved_scene.h"

static CUcontext shared_context;
static atomic_int stop;

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
    sweep(2, 4, 4, 5, 20000);
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
    sweep(0, 2, 2, 5, 20000);
    CHECK(cuCtxSynchronize());
    sim_before("cuMemGetHandleForAddressRange", meanwhile);
    CHECK(cuMemGetHandleForAddressRange(&fd, blocks[0], 2 * MIB,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    while (!atomic_load(&stop))
        usleep(1000);
    CHECK(cuCtxSynchronize());
    show("exported");
    add(0, 5, 20000, NULL);
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

/* Ends a context when its stream has done its work. */
static void leave(CUcontext other, CUstream stream, CUcontext home)
{
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(home));
}

/* Another context uses a block, by a batch or while the first context captures. */
static void beside(bool captures)
{
    struct gate gate;
    CUstream there, here;
    CUgraph graph;
    CUcontext home = start_gpu(0), other;
    make(4);
    sweep(0, 2, 2, 5, 20000);
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
    sweep(2, 4, 4, 5, 20000);
    show("used beside");
    if (captures)
        gate_open(&gate);
    leave(other, there, home);
    CHECK(cuStreamDestroy(here));
    end();
}

static CUstream captured_stream;
static atomic_int capturing;

static void *capture_for_a_while(void *arg)
{
    CUgraph graph;
    (void)arg;
    CHECK(cuCtxSetCurrent(shared_context));
    CHECK(cuStreamBeginCapture(captured_stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    atomic_store(&capturing, 1);
    while (!atomic_load(&stop))
        usleep(1000);
    CHECK(cuStreamEndCapture(captured_stream, &graph));
    CHECK(cuGraphDestroy(graph));
    atomic_store(&capturing, 0);
    return NULL;
}

static void begin_capture(void)
{
    in_a_thread(capture_for_a_while);
    for (int i = 0; i < 30 && !atomic_load(&capturing); i++)
        usleep(10000);
}

/* Another thread begins a capture when it has been decided that a block moves. */
static void capture_late(void)
{
    shared_context = start_gpu(0);
    CHECK(cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    make(4);
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    sim_before("cuCtxGetCurrent", begin_capture);
    sweep(2, 4, 2, 5, 20000);
    while (!atomic_load(&capturing))
        usleep(1000);
    atomic_store(&stop, 1);
    while (atomic_load(&capturing))
        usleep(1000);
    CHECK(cuStreamDestroy(captured_stream));
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
    sweep(0, 2, 2, 5, 20000);
    CHECK(cuCtxSynchronize());
    other_context = another_context();
    CHECK(cuStreamCreate(&other_stream, CU_STREAM_DEFAULT));
    CHECK(cuCtxSetCurrent(home));
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    sim_before("cuCtxGetCurrent", launch_now);
    sweep(2, 4, 4, 5, 20000);
    show("used beside");
    gate_open(&late_gate);
    leave(other_context, other_stream, home);
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
    sweep(0, 4, 4, 5, 20000);
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
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, s);
    CHECK(cuCtxSynchronize());
    other = another_context();
    CHECK(cuCtxSetCurrent(home));
    gate_close_by_kernel(&gate, busy);
    CHECK(cuCtxSetCurrent(other));
    add(2, 5, 20000, s);
    add(3, 5, 20000, s);
    add(2, 5, 20000, s);
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
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, s);
    CHECK(cuStreamDestroy(s));
    EXPECT(!pthread_create(&thread, NULL, open_soon, &gate));
    sweep(2, 4, 4, 5, 20000);
    EXPECT(atomic_load(&gate.open));
    show("at rest");
    pthread_join(thread, NULL);
    end();
}

static void move_now(void)
{
    sweep(2, 4, 4, 5, 20000);
    show("copied");
}

/* A block moves when a copy has been asked where its source is, and before it begins. */
static void copy_late(void)
{
    start_gpu(0);
    make(4);
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    memset(out, value[0] = 7, BLOCK);
    sim_before("cuPointerGetAttribute", move_now);
    CHECK(cuMemcpy(blocks[0], (CUdeviceptr)out, BLOCK));
    end();
}

static atomic_int came_through;

static void *launch_cancelled(void *arg)
{
    (void)arg;
    CHECK(cuCtxSetCurrent(shared_context));
    pthread_cancel(pthread_self());
    add(2, 5, 20000, NULL);
    atomic_store(&came_through, 1);
    return NULL;
}

/* A launch is no point at which a thread ends that has been cancelled, though it waits. */
static void cancelled(void)
{
    static struct gate gate;
    pthread_t opener, launcher;
    CUstream s;
    shared_context = start_gpu(0);
    make(4);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, s);
    EXPECT(!pthread_create(&opener, NULL, open_soon, &gate));
    EXPECT(!pthread_create(&launcher, NULL, launch_cancelled, NULL));
    EXPECT(!pthread_join(launcher, NULL) && !pthread_join(opener, NULL));
    printf("came through: %d\n", atomic_load(&came_through));
    sweep(0, 4, 2, 5, 20000);
    CHECK(cuStreamDestroy(s));
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
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuMemAlloc(&theirs, MIB));
    CHECK(cuMemsetD8(theirs, 99, MIB));
    gate_close_by_kernel(&gate, s);
    CHECK(cuMemcpyPeerAsync(blocks[0], home, theirs, other, MIB, s));
    CHECK(cuCtxSetCurrent(home));
    sweep(2, 4, 4, 5, 20000);
    CHECK(cuCtxSynchronize());
    show("copying");
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(theirs));
    CHECK(cuCtxSetCurrent(home));
    sweep(2, 4, 4, 5, 20000);
    show("copied");
    CHECK(cuMemcpyDtoH(out, blocks[0], BLOCK));
    EXPECT(all_are(out, 99, MIB));
    CHECK(cuMemsetD8(blocks[0], value[0], MIB));
    end();
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuDevicePrimaryCtxReset(1));
}

/* A kernel of one stream waits for the program, which waits for those of another one. */
static void in_turn(void)
{
    struct gate gate;
    CUstream s, other;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    CHECK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    make(4);
    sweep(0, 2, 2, 5, 20000);
    add(2, 5, 20000, s);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, other);
    add(2, 5, 20000, s);
    add(3, 5, 20000, s);
    CHECK(cuStreamSynchronize(s));
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    show("waited");
    CHECK(cuStreamDestroy(other));
    CHECK(cuStreamDestroy(s));
    end();
}

static void beside_batch(void)
{
    beside(false);
}

static void beside_capture(void)
{
    beside(true);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"exported", exported},         {"batch", beside_batch},        {"capture", beside_capture},
        {"capture_late", capture_late}, {"late", beside_late},          {"ended", beside_ended},
        {"from", from_beside},          {"ended_stream", ended_stream}, {"peer_copy", peer_copy},
        {"in_turn", in_turn},           {"cancelled", cancelled},       {"copy_late", copy_late}};
    return RUN_SCENARIO(all, argc, argv);
}
