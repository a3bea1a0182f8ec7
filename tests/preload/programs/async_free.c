/* SPDX-License-Identifier: MIT */
/* Frees memory in stream order, with the stream held so that the order shows. */
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

static CUdeviceptr block(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
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
    CUdeviceptr p = block(SIZE), q[8], copy = block(SIZE);
    CHECK(cuStreamSynchronize(first));
    gate_close(&gate, first);
    fill(p, 7, SIZE, first);
    CHECK(cuMemcpyDtoDAsync(copy, p, SIZE, first));
    CHECK(cuMemFreeAsync(p, first));
    for (int i = 0; i < 8; i++) {
        q[i] = block(SIZE);
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

/* A freed block is gone for every call, whether its stream has passed or not. */
static void misuse(void)
{
    struct gate gate;
    CUdeviceptr base;
    size_t size;
    unsigned type;
    CUstream s = stream();
    for (int held = 0; held < 2; held++) {
        CUdeviceptr p = block(64 * KIB);
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
    CUdeviceptr p;
    CHECK(cuMemAllocAsync(&p, 64 * KIB, s));
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
        CUdeviceptr p = block(bytes);
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

/* Leaves everything to the end of the context: live, deferred and waiting blocks. */
static void left_behind(void)
{
    CUdeviceptr p;
    CUstream s = stream();
    CHECK(cuMemAlloc(&p, 3 * MIB));
    CHECK(cuMemAlloc(&p, 4 * KIB));
    for (int i = 0; i < 10; i++) {
        p = block((size_t)(i + 1) * 300 * KIB);
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
    p = block(SIZE);
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
    sim_reset_counts();
    CHECK(cuMemAlloc(&p, SIZE));
    CHECK(cuMemFree(p));
    /* Those of whole contexts are of this moment. */
    EXPECT(sim_calls("cuEventQuery") + sim_calls("cuEventSynchronize") ==
           sim_calls("cuCtxRecordEvent"));
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

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"other_stream", other_stream},
                                          {"misuse", misuse},
                                          {"detached", detached},
                                          {"crossed", crossed},
                                          {"many", many},
                                          {"block_destroyed", block_destroyed},
                                          {"stream_destroyed", stream_destroyed},
                                          {"destroyed", destroyed},
                                          {"left_behind", left_behind}};
    CUcontext context = start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    CHECK(cuCtxSetCurrent(context));
    end_gpu(0);
    return status;
}
