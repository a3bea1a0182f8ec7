/* SPDX-License-Identifier: MIT */
/* Copies of which it is known what they carry.  Each scene has a device block of a size of its own,
 * in MiB, by which the test finds its call path. */
#include "program.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
/* With an argument: no kernel writes, and no memory is protected. */
static bool allowed;

#define SCENE __attribute__((noinline)) static void

static CUdeviceptr block(size_t mib)
{
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, mib * MIB));
    return d;
}
#define BLOCK(mib)                                                                                 \
    __extension__({                                                                                \
        CUdeviceptr at;                                                                            \
        CHECK(cuMemAlloc(&at, (mib)*MIB));                                                         \
        at;                                                                                        \
    })

/* Host memory whose bytes tell the seed. */
static unsigned char *memory(size_t mib, int seed)
{
    unsigned char *host = malloc(mib * MIB);
    EXPECT(host);
    for (size_t i = 0; i < mib * MIB; i++)
        host[i] = (unsigned char)(i >> 16 ^ i ^ (size_t)seed);
    return host;
}

/* A kernel that is given a block and changes nothing. */
static int nothing_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args, (void)launch;
    return 0;
}

static void launch(CUdeviceptr d)
{
    static CUfunction nothing;
    static const size_t sizes[] = {4, sizeof(d)};
    int number = 1;
    void *args[] = {&number, &d};
    if (!nothing)
        nothing = load_kernel("nothing", nothing_grid, 2, sizes);
    CHECK(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CHECK(cuCtxSynchronize());
}

/* The same bytes again: with a launch between, without, and with one byte changed. */
SCENE again(void)
{
    CUdeviceptr d = BLOCK(5);
    unsigned char *h = memory(5, 1);
    CHECK(cuMemcpyHtoD(d, h, 5 * MIB));
    launch(d);
    CHECK(cuMemcpyHtoD(d, h, 5 * MIB));
    CHECK(cuMemcpyHtoD(d, h, 5 * MIB));
    launch(d);
    h[3 * MIB] ^= 1;
    CHECK(cuMemcpyHtoD(d, h, 5 * MIB));
    launch(d);
    CHECK(cuMemFree(d));
    free(h);
}

/* Bytes that come back as they were sent; once more; and after a kernel changed some of them. */
SCENE round_trip(void)
{
    CUdeviceptr d = BLOCK(6);
    unsigned char *h = memory(6, 2);
    CHECK(cuMemcpyHtoD(d, h, 6 * MIB));
    launch(d);
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    if (!allowed)
        fill(d, 9, 100, NULL); /* Other bytes in one place make the copy another one. */
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    CHECK(cuMemcpyHtoD(d, h, 6 * MIB)); /* All of it is there. */
    CHECK(cuMemFree(d));
    free(h);
}

/* What is written between counts, whoever writes it, and whichever part of the bytes. */
SCENE overwritten(void)
{
    CUdeviceptr d = BLOCK(7), e = block(1);
    unsigned char *h = memory(7, 3), *other = memory(1, 4);
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemsetD8(d + 6 * MIB, 0, MIB));
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB)); /* A duplicate. */
    CHECK(cuMemcpyHtoD(d + MIB, other, MIB));
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemcpyDtoD(d, e, MIB));
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    free(h);
    free(other);
}

/* A set behind a copy that has not come yet: what the copy takes is not what the set leaves. */
SCENE overwritten_later(void)
{
    CUdeviceptr d = BLOCK(8);
    CUstream stream;
    struct gate gate;
    void *h;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&h, 8 * MIB, 0));
    memset(h, 7, 8 * MIB);
    CHECK(cuMemcpyHtoD(d, h, 8 * MIB));
    gate_close(&gate, stream);
    CHECK(cuMemcpyDtoHAsync(h, d, 8 * MIB, stream)); /* Not compared. */
    CHECK(cuMemsetD8Async(d, 1, 8 * MIB, stream));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoD(d, h, 8 * MIB)); /* No duplicate. */
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(h));
}

/* A block that has ended, to the program, before its copy has come. */
SCENE freed_before(void)
{
    CUdeviceptr d;
    CUstream stream;
    struct gate gate;
    void *h;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&d, 9 * MIB, stream));
    CHECK(cuMemHostAlloc(&h, 9 * MIB, 0));
    memset(h, 8, 9 * MIB);
    CHECK(cuMemcpyHtoDAsync(d, h, 9 * MIB, stream));
    gate_close(&gate, stream);
    CHECK(cuMemcpyDtoHAsync(h, d, 9 * MIB, stream)); /* A round trip. */
    CHECK(cuMemFreeAsync(d, stream));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFreeHost(h));
}

/* Pinned memory: what comes to it later than a call returns is seen when it comes, and so is what
 * the host sends from there behind it. */
SCENE pinned(void)
{
    CUdeviceptr d = BLOCK(12);
    CUstream stream;
    struct gate gate;
    void *h;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&h, 12 * MIB, 0));
    memset(h, 8, 12 * MIB);
    CHECK(cuMemcpyHtoDAsync(d, h, 12 * MIB, stream));
    launch(d);
    CHECK(cuMemcpyHtoDAsync(d, h, 12 * MIB, stream)); /* A duplicate. */
    CHECK(cuMemcpyDtoHAsync(h, d, 12 * MIB, stream)); /* A round trip. */
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoDAsync(d, h, 12 * MIB, stream)); /* A duplicate. */
    gate_close(&gate, stream);
    CHECK(cuMemcpyDtoHAsync(h, d, 12 * MIB, stream)); /* A round trip. */
    CHECK(cuMemcpyHtoDAsync(d, h, 12 * MIB, stream)); /* A duplicate. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(h));
}

/* Parts of what an earlier copy brought tell nothing of it, however many are under way. */
SCENE in_flight(void)
{
    CUdeviceptr d = BLOCK(17);
    CUstream stream;
    struct gate gate;
    void *h;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc(&h, 17 * MIB, 0));
    memset(h, 9, 17 * MIB);
    CHECK(cuMemcpyHtoDAsync(d, h, 17 * MIB, stream));
    gate_close(&gate, stream);
    for (size_t at = 0; at < 17 * MIB; at += MIB / 2)
        CHECK(cuMemcpyDtoHAsync((char *)h + at, d + at, MIB / 2, stream));
    CHECK(cuMemcpyDtoHAsync(h, d, 17 * MIB, stream)); /* A round trip. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoDAsync(d, h, 17 * MIB, stream)); /* A duplicate. */
    CHECK(cuMemcpyHtoDAsync(d, h, 17 * MIB, stream)); /* A duplicate. */
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(h));
}

/* Memory that the CPU can't read well, or at all. */
SCENE unreadable(void)
{
    CUdeviceptr d = BLOCK(13);
    void *h, *combined;
    CHECK(cuMemHostAlloc(&h, 13 * MIB, 0));
    CHECK(cuMemHostAlloc(&combined, 13 * MIB, CU_MEMHOSTALLOC_WRITECOMBINED));
    CHECK(cuMemcpyHtoD(d, combined, 13 * MIB));
    memset(h, 5, 13 * MIB);
    EXPECT(mprotect(h, 13 * MIB, PROT_NONE) == 0);
    CHECK(cuMemcpyHtoD(d, h, 13 * MIB));
    CHECK(cuMemcpyDtoH(h, d, 13 * MIB));
    EXPECT(mprotect(h, 13 * MIB, PROT_READ | PROT_WRITE) == 0);
    EXPECT(all_are(h, 5, 13 * MIB));
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(h));
    CHECK(cuMemFreeHost(combined));
}

/* Copies of rows are not seen.  A graph changes what its nodes write. */
SCENE rows_and_graphs(void)
{
    CUdeviceptr d = BLOCK(14);
    unsigned char *h = memory(14, 9);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = h,
                          .srcPitch = 128,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = d,
                          .dstPitch = 128,
                          .WidthInBytes = 64,
                          .Height = 8192};
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(d, h, 14 * MIB));
    CHECK(cuMemcpy2D(&rows));
    CHECK(cuMemcpyHtoD(d + 2 * MIB, h, 2 * MIB));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuMemsetD8Async(d, 1, 14 * MIB, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoD(d + 2 * MIB, h, 2 * MIB)); /* No duplicate. */
    launch(d);
    CHECK(cuMemFree(d));
    free(h);
}

/* Copies of which a block has more than are remembered, after some that it has not. */
SCENE many(void)
{
    CUdeviceptr d = BLOCK(16);
    unsigned char *h = memory(1, 11);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 64; i++)
            CHECK(cuMemcpyHtoD(d + i * 4096, h + i * 4096, 4096)); /* Duplicates, then. */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 300; i++)
            CHECK(cuMemcpyHtoD(d + 4 * MIB + i * 4096, h + i, 1));
    CHECK(cuMemFree(d));
    free(h);
}

int main(int argc, char **argv)
{
    allowed = argc > 1;
    (void)argv;
    start_gpu(0);
    again();
    round_trip();
    overwritten();
    overwritten_later();
    freed_before();
    pinned();
    in_flight();
    if (!allowed)
        unreadable();
    rows_and_graphs();
    many();
    return 0;
}
