/* SPDX-License-Identifier: MIT */
/* What the pools of a program count, before and after its blocks are freed. */
#include "program.h"

#define MIB ((cuuint64_t)1 << 20)

static CUmemoryPool pool;
static CUstream stream;

static void show(const char *when)
{
    static const CUmemPool_attribute figures[] = {
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
    cuuint64_t value[4];
    for (int i = 0; i < 4; i++)
        CHECK(cuMemPoolGetAttribute(pool, figures[i], &value[i]));
    printf("%s: used %zu, high %zu, reserved %s\n", when, (size_t)(value[0] / MIB),
           (size_t)(value[1] / MIB),
           value[2] < value[0]   ? "less than used"
           : value[3] < value[2] ? "more than its most"
                                 : "enough");
}

static void keep(cuuint64_t bytes)
{
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static void start(cuuint64_t threshold)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemPoolCreate(&pool, &props));
    keep(threshold);
}

static CUdeviceptr get(cuuint64_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAllocFromPoolAsync(&p, bytes, pool, stream));
    CHECK(cuStreamSynchronize(stream));
    show("after a request");
    return p;
}

static void give(CUdeviceptr p)
{
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    show("after a free");
}

static void end(void)
{
    CHECK(cuMemPoolDestroy(pool));
    CHECK(cuStreamDestroy(stream));
}

static void trim(cuuint64_t bytes)
{
    CHECK(cuMemPoolTrimTo(pool, bytes));
    show("after a trim");
}

/* Nothing is released before the program trims the pool. */
static void keeping(void)
{
    start(~(cuuint64_t)0);
    CUdeviceptr p = get(128 * MIB);
    give(p);
    p = get(96 * MIB);
    trim(0);
    give(p);
    trim(64 * MIB);
    trim(96 * MIB);
    trim(0);
    end();
}

/* What is above the threshold goes with the next synchronisation, of whatever stream. */
static void releasing(void)
{
    start(32 * MIB);
    CUdeviceptr p = get(64 * MIB), q = get(64 * MIB);
    give(p);
    give(q);
    keep(0);
    show("without a threshold");
    CHECK(cuCtxSynchronize());
    show("after the context");
    p = get(64 * MIB);
    CHECK(cuMemFreeAsync(p, stream));
    while (cuStreamQuery(stream) != CUDA_SUCCESS)
        usleep(1000);
    show("before waiting");
    CUevent event;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventSynchronize(event));
    show("after an event");
    CHECK(cuEventDestroy(event));
    end();
}

/* A free that its stream has not come to is not waited for by others. */
static void pending(void)
{
    struct gate gate;
    CUstream other;
    start(0);
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p = get(64 * MIB);
    gate_close(&gate, stream);
    CHECK(cuMemFreeAsync(p, stream));
    show("before the stream");
    CHECK(cuStreamSynchronize(other));
    show("after another stream");
    trim(0);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    show("after the stream");
    CHECK(cuStreamDestroy(other));
    end();
}

/* Each mark is set back to what is now. */
static void marks(void)
{
    cuuint64_t zero = 0;
    start(~(cuuint64_t)0);
    CUdeviceptr p = get(64 * MIB), q = get(32 * MIB);
    give(p);
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    show("after setting back the most in use");
    trim(0);
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    show("after setting back the most reserved");
    give(q);
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    show("after setting back both");
    end();
}

/* Another pool comes and goes. */
static void neighbour(void)
{
    CUmemoryPool first, second;
    start(~(cuuint64_t)0);
    first = pool;
    CUdeviceptr p = get(64 * MIB);
    start(~(cuuint64_t)0);
    second = pool;
    give(get(32 * MIB));
    CHECK(cuMemPoolDestroy(second));
    pool = first;
    give(p);
    trim(0);
    end();
}

/* All pools release with the next synchronisation what is above their thresholds. */
static void several(void)
{
    CUmemoryPool pools[20];
    for (int i = 0; i < 20; i++) {
        start(0);
        pools[i] = pool;
        CUdeviceptr p;
        CHECK(cuMemAllocFromPoolAsync(&p, 32 * MIB, pool, stream));
        CHECK(cuMemFreeAsync(p, stream));
        while (cuStreamQuery(stream) != CUDA_SUCCESS)
            usleep(1000);
        CHECK(cuStreamDestroy(stream));
    }
    CHECK(cuCtxSynchronize());
    for (int i = 0; i < 20; i++) {
        pool = pools[i];
        show("after the context");
        CHECK(cuMemPoolDestroy(pool));
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"keeping", keeping},     {"releasing", releasing},
                                          {"pending", pending},     {"marks", marks},
                                          {"neighbour", neighbour}, {"several", several}};
    return RUN_SCENARIO(all, argc, argv);
}
