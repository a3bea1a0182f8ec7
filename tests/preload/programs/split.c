/* SPDX-License-Identifier: MIT */
/* Uses blocks that may be device memory and then host memory, with calls of every shape that cross
 * the border, at 4 MiB in each block of 12 MiB, and prints what they leave there. */
#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (12 * MIB)
#define BORDER (4 * MIB)

static unsigned char in[BLOCK], out[BLOCK];

static CUdeviceptr new_block(void)
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

/* The same rows from and to an array, and lines from and to one of one dimension. */
static void arrays(CUdeviceptr p)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 1024, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR line = {
        .Width = 2048, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUarray array, row;
    CHECK(cuArrayCreate(&array, &shape));
    CHECK(cuArrayCreate(&row, &line));
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
                          .dstDevice = p + BORDER - 20 * 4444 - 4,
                          .dstPitch = 4444,
                          .WidthInBytes = 3900,
                          .Height = 50};
    CHECK(cuMemcpy2D(&back));
    show("rows of an array", p);
    CHECK(cuMemcpyDtoA(row, 4096, p + BORDER - 1000, 2000));
    CHECK(cuMemcpyAtoD(p + BORDER - 3004, row, 4096, 4000));
    show("lines of an array", p);
    CHECK(cuArrayDestroy(array));
    CHECK(cuArrayDestroy(row));
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

/* A captured copy between sets, launched twice with other bytes. */
static void graph(CUdeviceptr p, CUdeviceptr q, CUstream s)
{
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(q + BORDER - 10, 0x3c, 5 * MIB / 2, s));
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

/* On both sides of the border a block is device memory, and one. */
static void questions(CUdeviceptr p)
{
    static const size_t at[] = {0, BORDER - 1, BORDER, BORDER + MIB};
    for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        unsigned type = 0, managed = 9, ordinal = 9, mapped = 9;
        CUdeviceptr base = 0, start = 0, device = 0;
        size_t size = 0, range = 0;
        void *host = NULL;
        CUpointer_attribute which[] = {
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MAPPED,
            CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_HOST_POINTER};
        void *answers[] = {&type, &managed, &ordinal, &mapped, &device, &start, &range, &host};
        CHECK(cuPointerGetAttributes(8, which, answers, p + at[i]));
        CHECK(cuMemGetAddressRange(&base, &size, p + at[i]));
        printf("at %zu: type %u, managed %u, device %u, mapped %u, %llu of %llu %zu, host %p, "
               "%llu %zu\n",
               at[i], type, managed, ordinal, mapped, device - p, start - p, range, host, base - p,
               size);
    }
}

static void shapes(void)
{
    CUcontext c = start_gpu(0);
    CUstream s;
    CUdeviceptr p = new_block(), q = new_block();
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    seed(q);
    CHECK(cuMemcpy(p, q, BLOCK));
    show("whole", p);
    questions(p);
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

/* Nodes that name a range, and executable graphs that shall name another one. */
static void nodes(CUgraph graph, CUdeviceptr p, CUcontext c)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p + BORDER,
                          .WidthInBytes = 20,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = p + BORDER, .elementSize = 1, .value = 3, .width = 20, .height = 1};
    CUgraphNode copies, sets, more;
    CUgraphExec exec;
    CHECK(cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &copy, c));
    CHECK(cuGraphAddMemsetNode(&sets, graph, NULL, 0, &set, c));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    copy.dstDevice -= 10;
    set.dst -= 10;
    CHECK(cuGraphAddMemcpyNode(&more, graph, NULL, 0, &copy, c));
    CHECK(cuGraphAddMemsetNode(&more, graph, NULL, 0, &set, c));
    SHOW(cuGraphMemcpyNodeSetParams(copies, &copy));
    SHOW(cuGraphMemsetNodeSetParams(sets, &set));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, copies, &copy, c));
    SHOW(cuGraphExecMemsetNodeSetParams(exec, sets, &set, c));
#if CUDA_VERSION >= 13000
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                             .memcpy = {.copyCtx = c, .copyParams = copy}};
    CHECK(cuGraphAddNode(&more, graph, NULL, NULL, 0, &any));
    SHOW(cuGraphNodeSetParams(copies, &any));
    SHOW(cuGraphExecNodeSetParams(exec, copies, &any));
#endif
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecDestroy(exec));
}

#if CUDA_VERSION >= 13000
static CUmemcpy3DOperand at_address(CUdeviceptr p)
{
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = p};
}

/* Boxes, of which one has an array's elements of 4 bytes, and lines that name no attributes. */
static void batches(CUdeviceptr p, CUarray array)
{
    CUDA_MEMCPY3D_BATCH_OP box = {.src = at_address(p),
                                  .dst = at_address(p + BORDER - 10),
                                  .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                  .extent = {20, 1, 1}};
    CUdeviceptr to = p + BORDER - 10, from = p;
    size_t size = 20;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpy3DBatchAsync(1, &box, 0, s));
    box.src = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array.array = array};
    box.dst.op.ptr.ptr = p + BORDER - 40;
    CHECK(cuMemcpy3DBatchAsync(1, &box, 0, s));
    SHOW(cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, NULL, 1, s));
    box.dst.op.ptr.ptr = p + BORDER;
    CHECK(cuMemcpy3DBatchAsync(1, &box, 0, s));
    CHECK(cuStreamDestroy(s));
}
#else
static void batches(CUdeviceptr p, CUarray array)
{
    (void)p, (void)array;
}
#endif

static void linear_copies(CUdeviceptr p, CUarray array)
{
    CUDA_MEMCPY2D wrong = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = in,
                           .srcPitch = 100,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = p + BORDER - 150,
                           .dstPitch = 50,
                           .WidthInBytes = 100,
                           .Height = 4};
    CHECK(cuMemcpyAtoH((void *)(p + BORDER - 8), array, 0, 16));
    CHECK(cuMemcpyHtoA(array, 0, (void *)(p + BORDER - 8), 16));
    SHOW(cuMemcpy2D(&wrong));
    CUDA_MEMCPY2D within = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, /* An element is on both sides. */
                            .srcArray = array,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = p + BORDER - 18,
                            .WidthInBytes = 32,
                            .Height = 1};
    SHOW(cuMemcpy2DUnaligned(&within));
    CHECK(cuMemcpyDtoA(array, 0, p + BORDER - 16, 16));
}

/* Ranges across the border that leave nothing to divide. */
static void undivided(void)
{
    CUcontext c = start_gpu(0);
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUdeviceptr p = new_block();
    CUgraph graph;
    CUarray array;
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuArrayCreate(&array, &shape));
    nodes(graph, p, c);
    batches(p, array);
    linear_copies(p, array);
    CHECK(cuArrayDestroy(array));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* Another block asks for more of the device than the first one has left, which is used before and
 * after. */
static void gives_way(void)
{
    start_gpu(0);
    for (int i = 0; i < 2; i++) { /* All is given back. */
        CUdeviceptr p = new_block(), q;
        seed(p);
        CHECK(cuMemAlloc(&q, 5 * MIB));
        fill(q, 3, 5 * MIB, NULL);
        show("before", p);
        CHECK(cuMemcpyDtoD(p + BORDER - MIB, q, 3 * MIB));
        fill(p + BORDER - 5, 4, 10, NULL);
        CHECK(cuMemsetD8(p + BORDER - 1000, 5, 900));
        show("after", p);
        CHECK(cuMemcpyDtoH(out, q, 5 * MIB));
        EXPECT(all_are(out, 3, 5 * MIB));
        CHECK(cuMemFree(q));
        CHECK(cuMemFree(p));
    }
    end_gpu(0);
}

/* Others ask for a part of what the first block has of the device, and then for the rest. */
static void by_and_by(void)
{
    CUdeviceptr p, q[2];
    start_gpu(0);
    p = new_block();
    seed(p);
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemAlloc(&q[i], 3 * MIB));
        fill(q[i], 3 + i, 3 * MIB, NULL);
        CHECK(cuMemcpyDtoD(p + BORDER / 2 - MIB / 2, q[i], MIB));
        fill(p + BORDER / 2 - 5, 5 + i, 10, NULL);
        CHECK(cuMemsetD8(p + BORDER - 1000, 7 + i, 1900));
        show("after", p);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemcpyDtoH(out, q[i], 3 * MIB));
        EXPECT(all_are(out, (unsigned char)(3 + i), 3 * MIB));
        CHECK(cuMemFree(q[i]));
    }
    show("alone", p);
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* The same in a capture, while which no block moves, and of a block that a graph copies. */
static void captured(void)
{
    CUdeviceptr p, q, r;
    CUstream s;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    p = new_block();
    seed(p);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemAlloc(&q, 5 * MIB));
    CHECK(cuMemcpyDtoDAsync(q, p + BORDER - MIB, 2 * MIB, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuMemAlloc(&r, 5 * MIB));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemsetD8(q + 2 * MIB, 1, 3 * MIB));
    CHECK(cuMemcpyDtoD(p + 7 * MIB, q, 5 * MIB));
    show("copied", p);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(q));
    CHECK(cuMemFree(r));
    CHECK(cuMemFree(p));
    CHECK(cuStreamDestroy(s));
    end_gpu(0);
}

/* Blocks of a rule of their own are over its budget. */
static void others(void)
{
    CUdeviceptr p, q[4];
    start_gpu(0);
    p = new_block();
    for (int i = 0; i < 4; i++)
        CHECK(cuMemAlloc(&q[i], MIB));
    show("there", p);
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFree(q[i]));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* The first block has less of the device than the last one lacks. */
static void in_vain(void)
{
    CUdeviceptr p, q, r;
    start_gpu(0);
    CHECK(cuMemAlloc(&q, 3 * MIB));
    p = new_block();
    CHECK(cuMemAlloc(&r, 5 * MIB));
    CHECK(cuMemFree(r));
    CHECK(cuMemFree(q));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* A block of another context than the first one's. */
static void use_there(void)
{
    CUdeviceptr p = new_block();
    seed(p);
    show("there", p);
    CHECK(cuMemFree(p));
}

static void elsewhere(void)
{
    CUdeviceptr q;
    start_gpu(0);
    CHECK(cuMemAlloc(&q, 3 * MIB));
    CUcontext other = another_context();
    use_there();
    CHECK(cuCtxDestroy(other));
    start_gpu(1);
    use_there();
    end_gpu(1);
    end_gpu(0);
}

/* Requests beside a kernel that waits for the program, and once it has ended. */
static void beside(void)
{
    CUdeviceptr p, q[3];
    CUstream s;
    struct gate gate;
    start_gpu(0);
    p = new_block();
    seed(p);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    gate_close_by_kernel(&gate, s);
    CHECK(cuMemAlloc(&q[0], 5 * MIB));
    CHECK(cuMemAlloc(&q[1], 5 * MIB));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemAlloc(&q[2], 5 * MIB));
    show("there", p);
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(q[i]));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(p));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"shapes", shapes},     {"undivided", undivided}, {"gives_way", gives_way},
        {"captured", captured}, {"by_and_by", by_and_by}, {"others", others},
        {"in_vain", in_vain},   {"elsewhere", elsewhere}, {"beside", beside}};
    return RUN_SCENARIO(all, argc, argv);
}
