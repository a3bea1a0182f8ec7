/* SPDX-License-Identifier: MIT */
/* Uses blocks of which the first parts may be device memory and the others host memory, with calls
 * of every shape that cross the border, at 4 MiB in each block of 12 MiB, and prints what they
 * leave there. */
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (12 * MIB)
#define BORDER (4 * MIB)

static unsigned char in[BLOCK], out[BLOCK];

static CUdeviceptr block(void)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, BLOCK));
    return p;
}

static void show(const char *what, CUdeviceptr p)
{
    unsigned long long sum = 5381;
    CHECK(cuMemcpyDtoH(out, p, BLOCK));
    for (size_t i = 0; i < BLOCK; i++)
        sum = sum * 33 + out[i];
    printf("%s %llx\n", what, sum);
}

static void seed(CUdeviceptr p)
{
    for (size_t i = 0; i < BLOCK; i++)
        in[i] = (unsigned char)(i * 7 + i / 4099);
    CHECK(cuMemcpyHtoD(p, in, BLOCK));
}

/* Copies of rows, of which one begins before the border and ends behind it. */
static void rectangles(CUdeviceptr p, CUdeviceptr q, CUstream s, CUcontext c)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .srcPitch = 5000,
                          .srcXInBytes = 11,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + BORDER - 100 * 6000 - 77,
                          .dstPitch = 6000,
                          .dstY = 3,
                          .WidthInBytes = 4000,
                          .Height = 300};
    CHECK(cuMemcpy2D(&flat));
    show("rows in", p);
    flat.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    flat.srcDevice = q + BORDER - 100 * 5000;
    flat.dstDevice += 555;
    CHECK(cuMemcpy2DAsync(&flat, s));
    CHECK(cuStreamSynchronize(s));
    show("rows within", p);
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = q + BORDER - 2 * 40 * 3000 - 12345,
                          .srcPitch = 3000,
                          .srcHeight = 40,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + BORDER - 3 * 30 * 2500 - 7,
                          .dstPitch = 2500,
                          .dstY = 1,
                          .dstHeight = 30,
                          .WidthInBytes = 2000,
                          .Height = 25,
                          .Depth = 5};
    CHECK(cuMemcpy3D(&deep));
    show("boxes", p);
    CUDA_MEMCPY3D_PEER far;
    memcpy(&far, &deep, sizeof(far));
    far.srcContext = far.dstContext = c;
    far.dstXInBytes = 100;
    CHECK(cuMemcpy3DPeerAsync(&far, s));
    CHECK(cuStreamSynchronize(s));
    show("boxes of a peer", p);
    memset(out, 0, BLOCK);
    flat.srcDevice = p + BORDER - 1000;
    flat.srcPitch = 0;
    flat.Height = 1;
    flat.srcXInBytes = flat.dstY = 0;
    flat.dstMemoryType = CU_MEMORYTYPE_HOST;
    flat.dstHost = out;
    CHECK(cuMemcpy2DUnaligned(&flat));
    printf("row out %d %d\n", out[999], out[3999]);
}

static void sets(CUdeviceptr p, CUstream s)
{
    CHECK(cuMemsetD8(p + BORDER - 5, 0x11, 10));
    CHECK(cuMemsetD16Async(p + BORDER - 20, 0x2233, 9, s));
    CHECK(cuMemsetD32(p + BORDER + 4 - 40, 0x44556677, 20));
    show("sets", p);
    CHECK(cuMemsetD2D8Async(p + BORDER - 100 * 777 - 3, 777, 0x88, 700, 200, s));
    CHECK(cuMemsetD2D32(p + BORDER - 20 * 4096 + 2048, 4096, 0x99aabbcc, 900, 40));
    CHECK(cuStreamSynchronize(s));
    show("sets of rows", p);
}

/* The same rows from and to an array. */
static void arrays(CUdeviceptr p)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 1024, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUarray array;
    CHECK(cuArrayCreate(&array, &shape));
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p + BORDER - 10 * 5000,
                          .srcPitch = 5000,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .dstXInBytes = 16,
                          .dstY = 2,
                          .WidthInBytes = 4000,
                          .Height = 60};
    CHECK(cuMemcpy2D(&flat));
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array,
                          .srcXInBytes = 16,
                          .srcY = 3,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + BORDER - 20 * 4444 - 1,
                          .dstPitch = 4444,
                          .WidthInBytes = 3900,
                          .Height = 50};
    CHECK(cuMemcpy2D(&back));
    show("rows of an array", p);
    CHECK(cuArrayDestroy(array));
}

#if CUDA_VERSION >= 13000
static void batch(CUdeviceptr p, CUdeviceptr q)
{
    CUdeviceptr to[] = {p, p + BORDER - 99, p + BORDER + 50, p + BORDER - 70000};
    CUdeviceptr from[] = {q, q + MIB, q + BORDER - 60, q + BORDER - 50000};
    size_t sizes[] = {10, 140, 100, 60000}, first[] = {0, 2};
    CUmemcpyAttributes attributes[2] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
                                        {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY}};
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 4, attributes, first, 2, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy(s));
    show("batch", p);
}
#else
static void batch(CUdeviceptr p, CUdeviceptr q)
{
    (void)p, (void)q;
}
#endif

/* A captured copy and set, launched twice with other bytes. */
static void graph(CUdeviceptr p, CUdeviceptr q, CUstream s)
{
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoDAsync(p + BORDER - MIB, q + BORDER - 3, 2 * MIB, s));
    CHECK(cuMemsetD8Async(p + BORDER - 10, 0x5a, 20, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        fill(q, 0x40 + i, BLOCK, s);
        CHECK(cuGraphLaunch(exec, s));
        CHECK(cuStreamSynchronize(s));
        show("graph", p);
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* Copies behind work that has not been done: they read what that leaves, and later work does not
 * disturb them. */
static void in_order(CUdeviceptr p, CUdeviceptr q, CUstream s)
{
    struct gate gate;
    unsigned char *pinned;
    CHECK(cuMemAllocHost((void **)&pinned, BLOCK));
    gate_close_by_kernel(&gate, s);
    fill(q, 1, BLOCK, s);
    CHECK(cuMemcpyDtoDAsync(p, q, BLOCK, s));
    fill(q, 2, BLOCK, s);
    CHECK(cuMemcpyDtoHAsync(pinned, p, BLOCK, s));
    fill(p, 3, BLOCK, s);
    CHECK(cuMemcpyHtoDAsync(q, pinned, BLOCK, s));
    EXPECT(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(s));
    EXPECT(all_are(pinned, 1, BLOCK));
    show("behind a kernel", q);
    show("after it", p);
    CHECK(cuMemFreeHost(pinned));
}

static void shapes(void)
{
    CUcontext c = start_gpu(0);
    CUstream s;
    CUdeviceptr p = block(), q = block();
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    seed(q);
    CHECK(cuMemcpy(p, q, BLOCK));
    show("whole", p);
    CHECK(cuMemcpyPeer(p + 1, c, q + BORDER - 50, c, 100));
    CHECK(cuMemcpyDtoD(p + BORDER - 7, q + BORDER - 9, MIB));
    show("lines", p);
    rectangles(p, q, s, c);
    sets(p, s);
    arrays(p);
    batch(p, q);
    graph(p, q, s);
    in_order(p, q, s);
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(q));
    CHECK(cuStreamDestroy(s));
    end_gpu(0);
}

/* What names a range across the border and is carried out by the driver alone: a node of a graph,
 * and a box of a batch.  It is refused, or does what it says. */
static void driver_alone(void)
{
    CUcontext c = start_gpu(0);
    CUgraph graph;
    CUgraphNode node;
    CUdeviceptr p = block();
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + BORDER - 10,
                          .WidthInBytes = 20,
                          .Height = 1,
                          .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, c));
    copy.dstDevice += 10;
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, c));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* A block that is larger than the device. */
static void larger(void)
{
    CUdeviceptr p;
    start_gpu(0);
    CUresult result = cuMemAlloc(&p, BLOCK);
    printf("allocated %d\n", (int)result);
    if (result == CUDA_SUCCESS) {
        fill(p, 9, BLOCK, NULL);
        show("filled", p);
        CHECK(cuMemFree(p));
    }
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"shapes", shapes}, {"driver_alone", driver_alone}, {"larger", larger}};
    return RUN_SCENARIO(all, argc, argv);
}
