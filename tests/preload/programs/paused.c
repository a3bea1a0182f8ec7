/* SPDX-License-Identifier: MIT */
/* Gives the device memory of blocks back and takes it again, by zc.h, and prints what that gave. */
#include <pthread.h>
#include <sys/wait.h>

#include "include/zc.h"
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (12 * MIB)

static unsigned char in[BLOCK], out[BLOCK];

static CUdeviceptr block(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

/* A block that was requested in a range. */
static CUdeviceptr block_in(const char *range, size_t bytes)
{
    zc_push(range);
    CUdeviceptr p = block(bytes);
    zc_pop();
    return p;
}

static void seed(CUdeviceptr p, size_t bytes, int by)
{
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(i * 7 + i / 4099 + by);
    CHECK(cuMemcpyHtoD(p, in, bytes));
}

static bool holds(CUdeviceptr p, size_t bytes, int by)
{
    memset(out, 0, bytes);
    CHECK(cuMemcpyDtoH(out, p, bytes));
    for (size_t i = 0; i < bytes; i++)
        if (out[i] != (unsigned char)(i * 7 + i / 4099 + by))
            return false;
    return true;
}

static size_t mib_free(void)
{
    size_t available, total;
    CHECK(cuMemGetInfo(&available, &total));
    return available / MIB;
}

static void ask(const char *what, CUdeviceptr p)
{
    struct zc_memory m = {.paused = -1};
    zc_query((const void *)p, &m);
    printf("%s: paused %d, %lld on the device\n", what, m.paused, (long long)m.device_bytes);
}

static int mib_paused(const char *range, unsigned flags)
{
    return (int)(zc_pause(range, flags) / MIB);
}

/* Two blocks of a range, one of a range within it, and one outside. */
static void keeps(void)
{
    start_gpu(0);
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    zc_push("weights");
    CUdeviceptr p = block(BLOCK), inner = block_in("layer", 1000);
    zc_pop();
    CUdeviceptr beside = block(BLOCK);
    seed(p, BLOCK, 1);
    seed(inner, 1000, 2);
    fill(beside, 3, BLOCK, NULL);
    CHECK(cuCtxSynchronize());
    size_t before = mib_free();
    fill(inner + 999, 9, 1, s); /* What runs is waited for. */
    SHOW(mib_paused("layer", ZC_KEEP));
    SHOW(mib_paused("weights", ZC_KEEP));
    SHOW(mib_paused("weights", 0));
    SHOW(mib_paused("nobody", ZC_KEEP));
    printf("free: %zu more\n", mib_free() - before);
    ask("block", p);
    ask("beside", beside);
    fill(beside, 4, BLOCK, NULL);
    CHECK(cuMemcpyDtoH(out, beside, BLOCK));
    EXPECT(all_are(out, 4, BLOCK));
    SHOW(zc_resume("weights"));
    SHOW(zc_resume("weights"));
    EXPECT(mib_free() == before);
    CHECK(cuMemcpyDtoH(out, inner + 999, 1));
    EXPECT(out[0] == 9);
    EXPECT(holds(inner, 999, 2));
    EXPECT(holds(p, BLOCK, 1));
    fill(p, 5, BLOCK, NULL);
    CHECK(cuMemcpyDtoH(out, p, BLOCK));
    EXPECT(all_are(out, 5, BLOCK));
    ask("block", p);
    SHOW(mib_paused(NULL, 0));
    EXPECT(zc_resume(NULL) == 0);
    seed(p, BLOCK, 6);
    EXPECT(holds(p, BLOCK, 6));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(inner));
    CHECK(cuMemFree(beside));
    CHECK(cuMemFree(p));
    end_gpu(0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

/* Pauses all of an array while a kernel uses another block; all that is given back is free then. */
static void sleep_once(CUdeviceptr other)
{
    size_t before = mib_free();
    int given = mib_paused("array", ZC_KEEP);
    printf("%d: %zu\n", given, mib_free() - before);
    fill(other, 1, MIB, NULL);
    CHECK(cuCtxSynchronize());
    EXPECT(zc_resume("array") == 0);
}

/* An array that grows: between its growths, with a larger block that is empty yet, and with one
 * that has a pending copy. */
static void grows(void)
{
    start_gpu(0);
    CUdeviceptr other = block(2 * MIB);
    fill(other, 1, MIB, NULL);
    zc_push("array");
    CUdeviceptr p = block(2 * MIB);
    seed(p, 2 * MIB, 1);
    for (int i = 2; i < 5; i++) {
        CUdeviceptr q = block((size_t)i * 2 * MIB);
        if (i == 3)
            sleep_once(other);
        CHECK(cuMemcpyDtoD(q, p, (size_t)(i - 1) * 2 * MIB));
        if (i == 4)
            sleep_once(other);
        CHECK(cuMemFree(p));
        p = q;
        if (i == 2)
            fill(other, 1, MIB, NULL); /* It gets all its memory, and will give its addresses. */
        else
            sleep_once(other);
        EXPECT(holds(p, 2 * MIB, 1));
    }
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(other));
    end_gpu(0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

/* Calls that name a paused block. */
static void refused(void)
{
    CUcontext c = start_gpu(0);
    CUdeviceptr p = block_in("weights", BLOCK), q = block(BLOCK);
    CUgraph graph;
    CUgraphNode node;
    int type;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p,
                          .WidthInBytes = 20,
                          .Height = 1,
                          .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    seed(p, BLOCK, 1);
    EXPECT(zc_pause("weights", ZC_KEEP) > 0);
    SHOW(cuMemcpyHtoD(p, in, BLOCK));
    SHOW(cuMemcpyDtoH(out, p + 5, MIB));
    SHOW(cuMemcpyDtoDAsync(q, p, MIB, NULL));
    SHOW(cuMemcpy(p, (CUdeviceptr)in, MIB));
    SHOW(cuMemsetD8(p + MIB, 1, MIB));
    SHOW(cuStreamWriteValue32(NULL, p, 1, 0));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, c));
#if CUDA_VERSION >= 13000
    size_t bytes = MIB, first = 0;
    CUstream s;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    SHOW(cuMemcpyBatchAsync(&q, &p, &bytes, 1, &attributes, &first, 1, s));
    CHECK(cuStreamDestroy(s));
#else
    printf("cuMemcpyBatchAsync(...) -> 401\n");
#endif
    CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    EXPECT(type == CU_MEMORYTYPE_DEVICE);
    CHECK(cuGraphDestroy(graph));
    SHOW(zc_resume("weights"));
    EXPECT(holds(p, BLOCK, 1));
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(q));
    end_gpu(0);
}

static void by_kernel(void)
{
    start_gpu(0);
    CUdeviceptr p = block_in("weights", BLOCK);
    EXPECT(zc_pause("weights", 0) > 0);
    fill(p, 1, BLOCK, NULL);
    SHOW(cuCtxSynchronize());
}

/* Paused blocks that are freed, in each way, and with their context. */
static void freed(void)
{
    CUstream s;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned flags = 0; flags <= ZC_KEEP; flags += ZC_KEEP) {
        CUdeviceptr p = block_in("a", BLOCK), q, old = p;
        zc_push("b");
        CHECK(cuMemAllocAsync(&q, BLOCK, s));
        zc_pop();
        fill(p, 1, BLOCK, s);
        fill(q, 1, BLOCK, s);
        EXPECT(zc_pause("a", flags) == BLOCK && zc_pause("b", flags) == BLOCK);
        CHECK(cuMemFree(p));
        CHECK(cuMemFreeAsync(q, s));
        CHECK(cuStreamSynchronize(s));
        EXPECT(zc_resume("a") == 0 && zc_resume("b") == 0);
        SHOW(cuMemFree(old));
        p = block(BLOCK); /* Gets no paused one's addresses. */
        CHECK(cuMemAllocAsync(&q, BLOCK, s));
        fill(p, 1, BLOCK, s);
        fill(q, 1, BLOCK, s);
        CHECK(cuStreamSynchronize(s));
        CHECK(cuMemFreeAsync(q, s));
        CHECK(cuMemFree(p));
    }
    CHECK(cuStreamDestroy(s));
    CUcontext own = another_context();
    CHECK(cuMemsetD8(block_in("c", BLOCK), 1, BLOCK));
    EXPECT(zc_pause("c", ZC_KEEP) == BLOCK);
    CHECK(cuCtxDestroy(own));
    EXPECT(zc_resume("c") == 0);
    start_gpu(0);
    CHECK(cuMemsetD8(block_in("d", BLOCK), 1, BLOCK));
    EXPECT(zc_pause("d", ZC_KEEP) == BLOCK);
    end_gpu(0);
    EXPECT(zc_resume("d") == 0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

/* The device is full, or a limit is reached, when the memory is to come back. */
static void full(void)
{
    start_gpu(0);
    CUdeviceptr p = block_in("weights", BLOCK), q;
    seed(p, BLOCK, 1);
    int fits = cuMemAlloc(&q, BLOCK);
    printf("another -> %d\n", fits);
    if (!fits)
        CHECK(cuMemFree(q));
    SHOW(mib_paused("weights", ZC_KEEP));
    CHECK(cuMemAlloc(&q, BLOCK));
    fill(q, 1, BLOCK, NULL);
    CHECK(cuCtxSynchronize());
    SHOW(zc_resume("weights"));
    ask("block", p);
    CHECK(cuMemFree(q));
    SHOW(zc_resume("weights"));
    EXPECT(holds(p, BLOCK, 1));
    CHECK(cuMemFree(p));
    CHECK(cuMemAlloc(&q, BLOCK));
    end_gpu(0);
}

/* Each driver call fails in turn: a block is either paused or not, and keeps its bytes. */
static void fails(void)
{
    static const char *const names[] = {
        "cuCtxSynchronize", "cuStreamSynchronize", "cuCtxPushCurrent_v2", "cuMemHostRegister_v2",
        "cuMemcpyDtoH_v2",  "cuMemUnmap",          "cuMemRelease",        "cuMemCreate",
        "cuMemMap",         "cuMemSetAccess",      "cuMemcpyHtoD_v2",     "cuMemHostUnregister"};
    size_t bytes = 4 * MIB;
    bool stayed = false, waited = false;
    CUcontext c = start_gpu(0), none;
    CUdeviceptr p = block_in("weights", bytes);
    seed(p, bytes, 1);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsigned nth = 0;
        do {
            CHECK(cuCtxPopCurrent(&none)); /* As in a thread that has no context. */
            sim_reset_counts();
            sim_fail(names[i], CUDA_ERROR_UNKNOWN, ++nth);
            bool given = zc_pause("weights", ZC_KEEP) != 0, missing = zc_resume("weights") != 0;
            sim_fail(NULL, 0, 0);
            CHECK(cuCtxSetCurrent(c));
            stayed |= !given;
            waited |= missing;
            EXPECT(given || !missing);
            EXPECT(zc_resume("weights") == 0 && holds(p, bytes, 1));
        } while (sim_calls(names[i]) > nth);
        EXPECT(sim_calls(names[i]));
    }
    printf("stayed %d waited %d\n", stayed, waited);
    CHECK(cuMemFree(p));
    end_gpu(0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

static CUcontext shared_context;
static atomic_int rounds_left;

static void *pauses(void *range)
{
    CHECK(cuCtxSetCurrent(shared_context));
    while (atomic_fetch_sub(&rounds_left, 1) > 0) {
        zc_pause(range, ZC_KEEP);
        EXPECT(zc_resume(range) == 0);
    }
    return NULL;
}

/* Threads pause and resume the same blocks, others come and go. */
static void threads(void)
{
    pthread_t thread[3];
    shared_context = start_gpu(0);
    CUdeviceptr p = block_in("weights", 2 * MIB);
    seed(p, 2 * MIB, 1);
    atomic_store(&rounds_left, 40);
    for (int i = 0; i < 3; i++)
        EXPECT(!pthread_create(&thread[i], NULL, pauses, i ? "weights" : NULL));
    while (atomic_load(&rounds_left) > 0) {
        CUdeviceptr q = block_in("weights", MIB);
        CHECK(cuMemFree(q));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    EXPECT(zc_resume(NULL) == 0 && holds(p, 2 * MIB, 1));
    pid_t child = (zc_pause("weights", ZC_KEEP), fork());
    if (!child) {
        EXPECT(zc_pause("weights", 0) == 0 && zc_resume("weights") != 0);
        _exit(0);
    }
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(zc_resume("weights") == 0 && holds(p, 2 * MIB, 1));
    CHECK(cuMemFree(p));
    end_gpu(0);
    printf("leaks %zu\n", sim_leaks(SIM_LEAK_CLASSES));
}

static void captured(void)
{
    CUstream s;
    CUgraph graph;
    start_gpu(0);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p = block_in("weights", BLOCK);
    seed(p, BLOCK, 1);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SHOW(mib_paused("weights", ZC_KEEP));
    SHOW(zc_resume("weights"));
    CHECK(cuStreamEndCapture(s, &graph));
    EXPECT(holds(p, BLOCK, 1));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* Another device has been given access. */
static void peers(void)
{
    CUcontext home = start_gpu(0), other = start_gpu(1);
    CHECK(cuCtxEnablePeerAccess(home, 0));
    CHECK(cuCtxSetCurrent(home));
    CUdeviceptr p = block_in("weights", BLOCK);
    seed(p, BLOCK, 1);
    CHECK(cuCtxSetCurrent(other));
    SHOW(mib_paused("weights", ZC_KEEP));
    SHOW(zc_resume("weights"));
    fill(p, 2, BLOCK, NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(out, p, BLOCK));
    EXPECT(all_are(out, 2, BLOCK));
}

static atomic_int pause_called;

static void *pause_all(void *arg)
{
    (void)arg;
    zc_pause(NULL, ZC_KEEP);
    atomic_store(&pause_called, 1);
    return NULL;
}

static void pause_meanwhile(void)
{
    pthread_t thread;
    EXPECT(!pthread_create(&thread, NULL, pause_all, NULL) && !pthread_detach(thread));
    for (int i = 0; i < 30 && !atomic_load(&pause_called); i++)
        usleep(10000);
}

/* Another thread pauses a block while its memory is exported. */
static void exported(void)
{
    int fd = -1;
    start_gpu(0);
    CUdeviceptr p = block(BLOCK);
    seed(p, BLOCK, 1);
    sim_before("cuMemGetHandleForAddressRange", pause_meanwhile);
    CHECK(cuMemGetHandleForAddressRange(&fd, p, BLOCK, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    while (!atomic_load(&pause_called))
        usleep(1000);
    ask("exported", p);
    EXPECT(holds(p, BLOCK, 1) && !close(fd));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"keeps", keeps},       {"grows", grows}, {"refused", refused},  {"by_kernel", by_kernel},
        {"freed", freed},       {"full", full},   {"fails", fails},      {"threads", threads},
        {"captured", captured}, {"peers", peers}, {"exported", exported}};
    return RUN_SCENARIO(all, argc, argv);
}
