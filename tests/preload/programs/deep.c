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

/* Bytes that come back as they were sent; once more; and after a kernel changed the first page. */
SCENE round_trip(void)
{
    CUdeviceptr d = BLOCK(6);
    unsigned char *h = memory(6, 2);
    CHECK(cuMemcpyHtoD(d, h, 6 * MIB));
    launch(d);
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    if (!allowed)
        fill(d, 9, 100, NULL);
    CHECK(cuMemcpyDtoH(h, d, 6 * MIB));
    CHECK(cuMemcpyHtoD(d, h, 6 * MIB)); /* All of it is there. */
    CHECK(cuMemFree(d));
    free(h);
}

/* Overwritten by a part of other bytes, by a set, and freed, before anything could use them. */
SCENE unused(void)
{
    CUdeviceptr d = BLOCK(7);
    unsigned char *h = memory(7, 3), *other = memory(7, 4);
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemcpyHtoD(d + MIB, other, MIB)); /* 1 MiB was of no use. */
    launch(d);
    CHECK(cuMemcpyHtoD(d, other, 7 * MIB));
    CHECK(cuMemsetD8(d, 0, 7 * MIB)); /* 7. */
    CHECK(cuMemcpyHtoD(d, h, 7 * MIB));
    CHECK(cuMemcpyDtoH(other, d + 6 * MIB, 1)); /* One page is read, of 1 MiB. */
    CHECK(cuMemFree(d));                        /* 6. */
    free(h);
    free(other);
}

/* Blocks that are touched in part, and that nothing touches. */
SCENE untouched(void)
{
    CUdeviceptr d = BLOCK(8);
    unsigned char *h = memory(8, 5), back;
    CHECK(cuMemcpyHtoD(d, h, 3 * MIB));
    CHECK(cuMemsetD8(d + 6 * MIB, 1, MIB));
    CHECK(cuMemcpyDtoH(&back, d, 1));
    CHECK(cuMemFree(d)); /* 4 MiB of it. */
    free(h);
}

SCENE never_touched(void)
{
    CHECK(cuMemFree(BLOCK(9)));
}

/* A kernel finds the block by a table of addresses, and another one in a structure. */
SCENE by_address(void)
{
    CUdeviceptr d = BLOCK(10), table = block(1), kept[2] = {1, d + MIB};
    unsigned char *h = memory(10, 6);
    CHECK(cuMemcpyHtoD(d, h, 10 * MIB));
    CHECK(cuMemcpyHtoD(table, kept, sizeof(kept)));
    launch(table);
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(table));
    free(h);
}

static int structure_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args, (void)launch;
    return 0;
}

SCENE in_structure(void)
{
    static const size_t sizes[] = {24};
    CUdeviceptr d = BLOCK(11);
    CUfunction kernel = load_kernel("structure", structure_grid, 1, sizes);
    uint64_t structure[3] = {0, 7, d + 11 * MIB - 1};
    void *args[] = {structure};
    unsigned char *h = memory(11, 7);
    CHECK(cuMemcpyHtoD(d, h, 11 * MIB));
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    CHECK(cuMemFree(d));
    free(h);
}

/* Pinned memory: what comes to it later than a call returns is seen when it comes.  Until then it
 * is not known what the host sends from there. */
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
    CHECK(cuMemcpyHtoDAsync(d, h, 12 * MIB, stream)); /* Not seen. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(h));
}

/* More copies at once than have a place of their own, and one over others: all come in the end. */
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
    CHECK(cuMemcpyDtoHAsync(h, d, 17 * MIB, stream)); /* Not seen. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyHtoDAsync(d, h, 17 * MIB, stream));
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

/* Copies of rows are not seen.  A graph may use, and change, whatever there is. */
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

/* A device block to another one: what is read was of use. */
SCENE on_the_device(void)
{
    CUdeviceptr d = BLOCK(15), e = block(1);
    unsigned char *h = memory(15, 10);
    CHECK(cuMemcpyHtoD(d, h, 15 * MIB));
    CHECK(cuMemcpyDtoD(e, d, MIB)); /* One page of 8. */
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    free(h);
}

/* Small copies, more of them in a page than are remembered. */
SCENE small(void)
{
    CUdeviceptr d = BLOCK(16);
    unsigned char *h = memory(1, 11);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 64; i++) {
            CHECK(cuMemcpyHtoD(d + i * 4096, h + i * 4096, 4096));
            CHECK(cuMemcpyHtoD(d + 4 * MIB + i * MIB / 8, h + i, 1));
        }
    launch(d);
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
    unused();
    untouched();
    never_touched();
    by_address();
    in_structure();
    pinned();
    in_flight();
    if (!allowed)
        unreadable();
    rows_and_graphs();
    on_the_device();
    small();
    return 0;
}
