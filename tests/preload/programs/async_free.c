/* SPDX-License-Identifier: MIT */
/* Frees memory in stream order, with the stream held so that the order shows. */
#include <pthread.h>
#include <stdbool.h>

#include "program.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SIZE (2 * MIB)

static char host[SIZE];

static CUstream stream(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUdeviceptr block(size_t bytes, CUstream s)
{
    CUdeviceptr p;
    CHECK(cuMemAllocAsync(&p, bytes, s));
    return p;
}

static CUdeviceptr take(CUdeviceptr p, size_t bytes, CUstream s, int value)
{
    fill(p, value, bytes, s);
    CHECK(cuMemcpyDtoHAsync(host, p, bytes, s));
    EXPECT(all_are(host, value, bytes));
    return p;
}

/* While a stream still uses a freed block, no other stream gets its pages. */
static void other_stream(void)
{
    struct gate gate;
    CUstream first = stream(), second = stream();
    CUdeviceptr p = block(SIZE, first), q[8], copy = block(SIZE, first);
    CHECK(cuStreamSynchronize(first));
    gate_close(&gate, first);
    fill(p, 7, SIZE, first);
    CHECK(cuMemcpyDtoDAsync(copy, p, SIZE, first));
    CHECK(cuMemFreeAsync(p, first));
    for (int i = 0; i < 8; i++) {
        q[i] = block(SIZE, second);
        EXPECT(q[i] + SIZE <= p || q[i] >= p + SIZE);
        take(q[i], SIZE, second, 9);
    }
    gate_open(&gate);
    CHECK(cuStreamSynchronize(first));
    CHECK(cuMemcpyDtoH(host, copy, SIZE));
    EXPECT(all_are(host, 7, SIZE));
    for (int i = 0; i < 8; i++) {
        CHECK(cuMemcpyDtoH(host, q[i], SIZE));
        EXPECT(all_are(host, 9, SIZE));
        CHECK(cuMemFreeAsync(q[i], second));
    }
    CHECK(cuMemFreeAsync(copy, first));
}

static CUcontext beside;
static CUdeviceptr taken;

/* Takes a block from a stream that has the handle of the one which has yet to free another. */
static void *take_beside(void *handle)
{
    CHECK(cuCtxSetCurrent(beside));
    taken = block(SIZE, handle);
    CHECK(cuMemsetD8Async(taken, 9, SIZE, handle));
    CHECK(cuStreamSynchronize(handle));
    return NULL;
}

/* Has the stream set a block and then free it, which it comes to after take_beside(). */
static void free_held(CUdeviceptr p, CUstream handle, bool in_thread)
{
    struct gate gate;
    pthread_t thread;
    CUcontext mine;
    CHECK(cuCtxGetCurrent(&mine));
    gate_close(&gate, handle);
    CHECK(cuMemsetD8Async(p, 7, SIZE, handle));
    CHECK(cuMemFreeAsync(p, handle));
    if (in_thread) {
        CHECK(pthread_create(&thread, NULL, take_beside, handle));
        CHECK(pthread_join(thread, NULL));
    } else {
        take_beside(handle);
        CHECK(cuCtxSetCurrent(mine));
    }
    gate_open(&gate);
    CHECK(cuStreamSynchronize(handle));
    CHECK(cuCtxSetCurrent(beside));
    CHECK(cuMemcpyDtoH(host, taken, SIZE));
    EXPECT(all_are(host, 9, SIZE));
    CHECK(cuMemFreeAsync(taken, handle));
}

/* Each thread has a stream of its own behind CU_STREAM_PER_THREAD. */
static void other_thread(void)
{
    CHECK(cuCtxGetCurrent(&beside));
    CUdeviceptr p = block(SIZE, CU_STREAM_PER_THREAD);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    free_held(p, CU_STREAM_PER_THREAD, true);
}

/* And so has each context behind NULL. */
static void other_context(void)
{
    CHECK(cuCtxGetCurrent(&beside));
    CUdeviceptr p = block(SIZE, NULL);
    CHECK(cuStreamSynchronize(NULL));
    CUcontext other = another_context();
    free_held(p, NULL, false);
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(beside));
}

/* A stream may get what it freed itself at once, and what it does with it stays in order. */
static void same_stream(void)
{
    struct gate gate;
    CUstream s = stream();
    CUdeviceptr p = block(SIZE, s), q, copy = block(SIZE, s);
    gate_close(&gate, s);
    fill(p, 3, SIZE, s);
    CHECK(cuMemcpyDtoDAsync(copy, p, SIZE, s));
    CHECK(cuMemFreeAsync(p, s));
    q = block(SIZE, s);
    fill(q, 5, SIZE, s);
    gate_open(&gate);
    CHECK(cuMemcpyDtoHAsync(host, copy, SIZE, s));
    EXPECT(all_are(host, 3, SIZE));
    CHECK(cuMemcpyDtoHAsync(host, q, SIZE, s));
    EXPECT(all_are(host, 5, SIZE));
    printf("%s\n", q == p ? "reused" : "fresh");
    CHECK(cuMemFreeAsync(q, s));
    CHECK(cuMemFreeAsync(copy, s));
}

/* Once the stream has passed the free, another stream may get the memory. */
static void passed(void)
{
    CUstream first = stream(), second = stream();
    for (int i = 0; i < 20; i++) {
        CUdeviceptr p = block(SIZE, first);
        take(p, SIZE, first, i);
        CHECK(cuMemFreeAsync(p, first));
        CHECK(cuStreamSynchronize(first));
        p = block(SIZE, second);
        take(p, SIZE, second, i + 1);
        CHECK(cuMemFreeAsync(p, second));
        CHECK(cuStreamSynchronize(second));
    }
    printf("host+registered+managed+reservations: %zu\n",
           sim_leaks(SIM_LEAK_HOST) + sim_leaks(SIM_LEAK_REGISTERED) + sim_leaks(SIM_LEAK_MANAGED) +
               sim_leaks(SIM_LEAK_RESERVATION));
}

/* What is freed is gone for every call, whether its stream has passed or not. */
static void misuse(void)
{
    struct gate gate;
    CUdeviceptr base;
    size_t size;
    unsigned type;
    CUstream s = stream();
    for (int held = 0; held < 2; held++) {
        CUdeviceptr p = block(64 * KIB, s);
        CHECK(cuStreamSynchronize(s));
        if (held)
            gate_close(&gate, s);
        SHOW(cuMemFreeAsync(p + 256, s));
        SHOW(cuMemFreeAsync(p, s));
        SHOW(cuMemFreeAsync(p, s));
        SHOW(cuMemFree(p));
        SHOW(cuMemsetD8Async(p, 1, 16, s));
        SHOW(cuMemcpyHtoDAsync(p, host, 16, s));
        SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        SHOW(cuMemGetAddressRange(&base, &size, p));
        if (held)
            gate_open(&gate);
        SHOW(cuStreamSynchronize(s));
    }
}

/* Blocks of one kind of request freed by the call of the other kind. */
static void crossed(void)
{
    CUstream s = stream();
    CUdeviceptr p = block(64 * KIB, s);
    take(p, 64 * KIB, s, 1);
    SHOW(cuMemFree(p));
    SHOW(cuMemFree(p));
    CHECK(cuMemAlloc(&p, 64 * KIB));
    take(p, 64 * KIB, s, 2);
    SHOW(cuMemFreeAsync(p, s));
    SHOW(cuMemFreeAsync(p, s));
    SHOW(cuStreamSynchronize(s));
}

/* Many blocks of four streams, freed in the stream of another with an event between. */
static void many(void)
{
    CUstream s[4];
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 4; i++)
        s[i] = stream();
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)(1 + i % 7) * 100 * KIB;
        CUstream owner = s[i % 4], other = s[(i + 1) % 4];
        CUdeviceptr p = block(bytes, owner);
        fill(p, i, bytes, owner);
        CHECK(cuEventRecord(event, owner));
        CHECK(cuStreamWaitEvent(other, event, 0));
        CHECK(cuMemcpyDtoHAsync(host, p, bytes, other));
        EXPECT(all_are(host, i, bytes));
        CHECK(cuMemFreeAsync(p, other));
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuEventDestroy(event));
}

/* A block that is freed, another one of another size, and what does not fit beside both. */
static void limited(void)
{
    CUstream s = stream();
    CUdeviceptr p = block(6 * MIB, s), q;
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
    p = block(5 * MIB, s);
    q = block(7 * MIB, s);
    take(p, SIZE, s, 1);
    take(q, SIZE, s, 2);
}

/* Leaves everything to the end of the context: live, deferred and waiting blocks. */
static void left_behind(void)
{
    CUdeviceptr p;
    CUstream s = stream();
    CHECK(cuMemAlloc(&p, 3 * MIB));
    CHECK(cuMemAlloc(&p, 4 * KIB));
    for (int i = 0; i < 10; i++) {
        p = block((size_t)(i + 1) * 300 * KIB, s);
        take(p, 4 * KIB, s, i);
        CHECK(cuMemFreeAsync(p, s));
    }
}

/* Destroys a context while it has live and deferred blocks; nothing of them may stay. */
static void destroyed(void)
{
    struct gate gate;
    CUdeviceptr p;
    CUcontext context = another_context();
    CUstream s = stream();
    CHECK(cuMemAlloc(&p, 3 * MIB));
    CHECK(cuMemAlloc(&p, 4 * KIB));
    p = block(SIZE, s);
    take(p, SIZE, s, 4);
    gate_close(&gate, s);
    CHECK(cuMemFreeAsync(p, s));
    gate_open(&gate);
    CHECK(cuCtxDestroy(context));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* A context goes with the last reference to it, and its blocks with it. */
static void detached(void)
{
    CUcontext mine, again;
    CUdeviceptr p;
    size_t before, after, total;
    CHECK(cuCtxGetCurrent(&mine));
    CHECK(cuMemGetInfo(&before, &total));
    CUcontext context = another_context();
    CHECK(cuMemAlloc(&p, 3 * MIB));
    CHECK(cuCtxAttach(&again, 0));
    EXPECT(again == context);
    CHECK(cuCtxDetach(context));
    CHECK(cuMemsetD8(p, 7, 3 * MIB));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDetach(context));
    CHECK(cuCtxSetCurrent(mine));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before == after);
    EXPECT(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
}
#pragma GCC diagnostic pop

/* A block of one context is freed in a stream of another, and one of both contexts is destroyed
 * when the stream has come to the free.  No event is lost with it, or asked about afterwards. */
static void one_destroyed(bool of_block)
{
    CUcontext mine;
    CUdeviceptr p;
    CHECK(cuCtxGetCurrent(&mine));
    CUcontext other = another_context();
    CHECK(cuCtxSetCurrent(of_block ? other : mine));
    CHECK(cuMemAlloc(&p, SIZE));
    CHECK(cuCtxSetCurrent(of_block ? mine : other));
    CUstream s = stream();
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(mine));
    EXPECT(sim_leaks(SIM_LEAK_EVENT) == 0);
    unsigned long long asked = sim_calls("cuEventQuery");
    CHECK(cuMemAlloc(&p, SIZE));
    CHECK(cuMemFree(p));
    EXPECT(sim_calls("cuEventQuery") == asked);
    if (of_block)
        CHECK(cuStreamDestroy(s));
}

static void block_destroyed(void)
{
    one_destroyed(true);
}

static void stream_destroyed(void)
{
    one_destroyed(false);
}

/* Memory of a pool is there after the context that asked for it.  A block that is freed first
 * leaves what the next one of its size may get. */
static void outlives(void)
{
    static const size_t sizes[] = {64 * KIB, 3 * MIB};
    CUcontext mine;
    CHECK(cuCtxGetCurrent(&mine));
    for (int i = 0; i < 2; i++) {
        char *seen = malloc(sizes[i]);
        CUdeviceptr p;
        CUcontext other = another_context();
        CHECK(cuMemFreeAsync(block(sizes[i], NULL), NULL));
        p = block(sizes[i], NULL);
        CHECK(cuMemsetD8Async(p, 7, sizes[i], NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxDestroy(other));
        CHECK(cuCtxSetCurrent(mine));
        SHOW(cuMemcpyDtoH(seen, p, sizes[i]));
        printf("%d\n", all_are(seen, 7, sizes[i]));
        SHOW(cuMemFreeAsync(p, NULL));
        CHECK(cuStreamSynchronize(NULL));
        free(seen);
    }
}

/* So it does after the last release of the primary context, which is no reset of the device. */
static void released(void)
{
    char *seen = malloc(3 * MIB);
    CUdeviceptr p = block(3 * MIB, NULL);
    CHECK(cuMemsetD8Async(p, 7, 3 * MIB, NULL));
    CHECK(cuCtxSynchronize());
    CUcontext other = another_context();
    CHECK(cuDevicePrimaryCtxRelease(0));
    SHOW(cuMemcpyDtoH(seen, p, 3 * MIB));
    printf("%d\n", all_are(seen, 7, 3 * MIB));
    cuMemFreeAsync(p, NULL);
    CHECK(cuCtxDestroy(other));
    start_gpu(0);
    free(seen);
}

static void outlives_alone(void)
{
    end_gpu(0);
    CUcontext alone = another_context();
    block(64 * KIB, NULL);
    CHECK(cuCtxDestroy(alone));
    start_gpu(0);
}

/* Where a block lies, and whether it can be used there. */
static void show_home(CUdeviceptr p, CUstream s)
{
    int ordinal = -1;
    CHECK(cuStreamSynchronize(s));
    SHOW(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    printf("on device %d\n", ordinal);
    CHECK(cuMemFreeAsync(p, s));
    CHECK(cuStreamSynchronize(s));
}

/* Requests of one device's context to pools of the other: made, default, and a stream's. */
static void other_device(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUcontext home;
    CUmemoryPool pool;
    CUdeviceptr p;
    CHECK(cuCtxGetCurrent(&home));
    start_gpu(1);
    CUstream theirs = stream();
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    show_home(p, NULL);
    CHECK(cuMemPoolDestroy(pool));
    CHECK(cuDeviceGetDefaultMemPool(&pool, 1));
    CHECK(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    show_home(p, NULL);
    show_home(block(SIZE, theirs), theirs);
    end_gpu(1);
}

/* What is freed after its pool has gone is not missing from one that gets the same handle. */
static void pool_destroyed(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p;
    for (int i = 0; i < 40; i++) {
        cuuint64_t used = 1;
        CHECK(cuMemPoolCreate(&pool, &props));
        CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        EXPECT(used == 0);
        CHECK(cuMemAllocFromPoolAsync(&p, 64 * KIB, pool, NULL));
        CHECK(cuMemPoolDestroy(pool));
        take(p, 64 * KIB, NULL, i);
        CHECK(cuMemFreeAsync(p, NULL));
        CHECK(cuStreamSynchronize(NULL));
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"other_stream", other_stream},
                                          {"other_thread", other_thread},
                                          {"other_context", other_context},
                                          {"same_stream", same_stream},
                                          {"passed", passed},
                                          {"misuse", misuse},
                                          {"detached", detached},
                                          {"crossed", crossed},
                                          {"many", many},
                                          {"limited", limited},
                                          {"outlives", outlives},
                                          {"outlives_alone", outlives_alone},
                                          {"released", released},
                                          {"other_device", other_device},
                                          {"block_destroyed", block_destroyed},
                                          {"stream_destroyed", stream_destroyed},
                                          {"pool_destroyed", pool_destroyed},
                                          {"destroyed", destroyed},
                                          {"left_behind", left_behind}};
    CUcontext context = start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    CHECK(cuCtxSetCurrent(context));
    end_gpu(0);
    return status;
}
