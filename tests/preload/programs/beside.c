/* SPDX-License-Identifier: MIT */
/* A program that names addresses just before and behind its blocks, which are nobody's: beside
 * SCENE.  It prints what the calls give; the tests compare that with and without libzc. */
#include "program.h"

#define MIB ((size_t)1 << 20)

static char host[64];
static CUdeviceptr apart; /* Another block. */

static CUDA_MEMCPY3D line(CUmemorytype to, CUdeviceptr dst, CUmemorytype from, CUdeviceptr src)
{
    return (CUDA_MEMCPY3D){.dstMemoryType = to,
                           .dstHost = (void *)dst,
                           .dstDevice = dst,
                           .srcMemoryType = from,
                           .srcHost = (void *)src,
                           .srcDevice = src,
                           .WidthInBytes = 8,
                           .Height = 1,
                           .Depth = 1};
}

/* Nodes that copy or set 8 bytes from `at` on, and nodes of `good` memory that are changed so. */
static void add_nodes(CUdeviceptr good, CUdeviceptr at)
{
    const CUmemorytype device = CU_MEMORYTYPE_DEVICE, cpu = CU_MEMORYTYPE_HOST;
    CUDA_MEMCPY3D to = line(device, at, cpu, (CUdeviceptr)host);
    CUDA_MEMCPY3D from = line(cpu, (CUdeviceptr)host, device, at);
    CUDA_MEMCPY3D copy = line(cpu, (CUdeviceptr)host, device, good);
    CUDA_MEMSET_NODE_PARAMS bad = {.dst = at, .elementSize = 1, .width = 8, .height = 1};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = good, .elementSize = 1, .width = 8, .height = 1};
    CUgraph graph;
    CUgraphNode copies, sets, node;
    CUgraphExec exec;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &to, context));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &from, context));
    SHOW(cuGraphAddMemsetNode(&node, graph, NULL, 0, &bad, context));
    CHECK(cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &copy, context));
    CHECK(cuGraphAddMemsetNode(&sets, graph, NULL, 0, &set, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    SHOW(cuGraphMemcpyNodeSetParams(copies, &from));
    SHOW(cuGraphMemsetNodeSetParams(sets, &bad));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, copies, &from, context));
    SHOW(cuGraphExecMemsetNodeSetParams(exec, sets, &bad, context));
#if CUDA_VERSION >= 13000
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    any.memcpy.copyParams = from;
    any.memcpy.copyCtx = context;
    SHOW(cuGraphAddNode(&node, graph, NULL, NULL, 0, &any));
    SHOW(cuGraphNodeSetParams(copies, &any));
    SHOW(cuGraphExecNodeSetParams(exec, copies, &any));
    any = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET};
    any.memset.dst = at;
    any.memset.elementSize = 1;
    any.memset.width = 8;
    any.memset.height = 1;
    any.memset.ctx = context;
    SHOW(cuGraphAddNode(&node, graph, NULL, NULL, 0, &any));
    SHOW(cuGraphNodeSetParams(sets, &any));
    SHOW(cuGraphExecNodeSetParams(exec, sets, &any));
#endif
    SHOW(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* Values written and waited for; each has come if that is memory. */
static void values(CUdeviceptr at)
{
    CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
    op.writeValue.address = at;
    SHOW(cuStreamWriteValue32(NULL, at, 1, 0));
    SHOW(cuStreamWriteValue64(NULL, at, 1, 0));
    SHOW(cuStreamWaitValue32(NULL, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
    SHOW(cuStreamWaitValue64(NULL, at, 0, CU_STREAM_WAIT_VALUE_GEQ));
    SHOW(cuStreamBatchMemOp(NULL, 1, &op, 0));
}

/* Nodes of good memory that stand behind no node of their graph, and calls that change a node of
 * another kind or of another graph. */
static void wrong_nodes(CUdeviceptr d)
{
    CUDA_MEMCPY3D copy = line(CU_MEMORYTYPE_HOST, (CUdeviceptr)host, CU_MEMORYTYPE_DEVICE, d);
    CUDA_MEMSET_NODE_PARAMS set = {.dst = d, .elementSize = 1, .width = 8, .height = 1};
    CUgraph graph, other;
    CUgraphNode copies, sets, stranger, node;
    CUgraphExec exec;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphCreate(&other, 0));
    CHECK(cuGraphAddEmptyNode(&stranger, other, NULL, 0));
    CHECK(cuGraphAddMemcpyNode(&copies, graph, NULL, 0, &copy, context));
    set.dst = apart;
    CHECK(cuGraphAddMemsetNode(&sets, graph, NULL, 0, &set, context));
    set.dst = d;
    SHOW(cuGraphAddMemcpyNode(&node, graph, &stranger, 1, &copy, context));
    SHOW(cuGraphAddMemsetNode(&node, graph, &stranger, 1, &set, context));
    SHOW(cuGraphAddMemsetNode(&node, graph, NULL, 1, &set, context));
    SHOW(cuGraphAddMemsetNode(NULL, graph, NULL, 0, &set, context));
    SHOW(cuGraphMemcpyNodeSetParams(sets, &copy));
    SHOW(cuGraphMemsetNodeSetParams(copies, &set));
#if CUDA_VERSION >= 13000
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    any.memcpy.copyParams = copy;
    any.memcpy.copyCtx = context;
    SHOW(cuGraphAddNode(&node, graph, &stranger, NULL, 1, &any));
    SHOW(cuGraphNodeSetParams(sets, &any));
#endif
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, sets, &copy, context));
    SHOW(cuGraphExecMemsetNodeSetParams(exec, copies, &set, context));
    CHECK(cuGraphAddMemcpyNode(&stranger, other, NULL, 0, &copy, context));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, stranger, &copy, context));
    SHOW(cuGraphExecMemsetNodeSetParams(exec, stranger, &set, context));
#if CUDA_VERSION >= 13000
    SHOW(cuGraphExecNodeSetParams(exec, sets, &any));
    SHOW(cuGraphExecNodeSetParams(exec, stranger, &any));
#endif
    size_t nodes = 0;
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("%zu nodes\n", nodes);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuGraphDestroy(other));
}

/* Copies of rows in an executable graph, which no call changes in any memory. */
static void wrong_changes(CUdeviceptr d)
{
    CUDA_MEMCPY3D copy = line(CU_MEMORYTYPE_HOST, (CUdeviceptr)host, CU_MEMORYTYPE_DEVICE, d);
    CUgraph graph;
    CUgraphNode lines, rows;
    CUgraphExec exec;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&lines, graph, NULL, 0, &copy, context));
    copy.WidthInBytes = copy.Height = 2;
    copy.srcPitch = copy.dstPitch = 4;
    CHECK(cuGraphAddMemcpyNode(&rows, graph, NULL, 0, &copy, context));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, rows, &copy, context));
    copy.WidthInBytes = 3;
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, rows, &copy, context));
    SHOW(cuGraphExecMemcpyNodeSetParams(exec, lines, &copy, context));
#if CUDA_VERSION >= 13000
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    any.memcpy.copyParams = copy;
    any.memcpy.copyCtx = context;
    SHOW(cuGraphExecNodeSetParams(exec, rows, &any));
#endif
    SHOW(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

/* Lists with a good element that are wrong in something else. */
static void wrong_lists(CUdeviceptr d)
{
    CUstreamBatchMemOpParams ops[2] = {{.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32},
                                       {.operation = (CUstreamBatchMemOpType)99}};
    ops[0].writeValue.address = d;
    SHOW(cuStreamBatchMemOp(NULL, 2, ops, 0));
    SHOW(cuStreamBatchMemOp(NULL, 1, ops, 1));
    SHOW(cuStreamBatchMemOp(NULL, 0, ops, 0));
#if CUDA_VERSION >= 13000
    CUdeviceptr to[2] = {d, d + 8}, from[2] = {(CUdeviceptr)host, (CUdeviceptr)host};
    size_t sizes[2] = {8, 0}, first = 0, second = 1;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP box = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream;
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = (CUdeviceptr)host;
    box.dst.op.ptr.ptr = d;
    CHECK(cuStreamCreate(&stream, 0));
    SHOW(cuMemcpyBatchAsync(to, from, sizes, 1, &how, &first, 1, NULL));
    SHOW(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, stream));
    SHOW(cuMemcpyBatchAsync(to, from, sizes, 1, &how, &second, 1, stream));
    SHOW(cuMemcpyBatchAsync(to, from, sizes, 1, &how, &first, 0, stream));
    SHOW(cuMemcpy3DBatchAsync(1, &box, 0, stream));
    box.extent = (CUextent3D){.width = 8, .height = 1, .depth = 1};
    SHOW(cuMemcpy3DBatchAsync(1, &box, 0, NULL));
    SHOW(cuMemcpy3DBatchAsync(1, &box, 1, stream));
    CHECK(cuStreamDestroy(stream));
#endif
}

/* Calls that name a good block, and are wrong in something else. */
static void wrong(CUdeviceptr d, size_t size)
{
    CUDA_MEMCPY3D copy = line(CU_MEMORYTYPE_DEVICE, d, CU_MEMORYTYPE_HOST, 0);
    CUDA_MEMSET_NODE_PARAMS set = {.dst = d, .elementSize = 3, .width = 8, .height = 1};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
                                   .res.linear.devPtr = d + 1,
                                   .res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8,
                                   .res.linear.numChannels = 1,
                                   .res.linear.sizeInBytes = 16};
    CUDA_TEXTURE_DESC texture = {.flags = 0};
    CUgraph graph, ended;
    CUgraphNode node;
    CUcontext context;
    CUtexObject object;
    CUstream stream;
    printf("wrong\n");
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    SHOW(cuGraphAddMemFreeNode(&node, graph, NULL, 0, d));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    SHOW(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    set.elementSize = 0;
    SHOW(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    set.elementSize = 4;
    SHOW(cuGraphAddMemsetNode(&node, NULL, NULL, 0, &set, context));
    set.dst = d + 1;
    SHOW(cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    CHECK(cuGraphDestroy(graph));
    wrong_nodes(d);
    wrong_changes(d);
    wrong_lists(d);
    values(d + 1);
    SHOW(cuStreamWriteValue32(NULL, d, 1, 0x70));
    SHOW(cuMemAddressFree(d, size));
    SHOW(cuTexObjectCreate(&object, &resource, &texture, NULL));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuStreamWriteValue32(stream, d + 1, 1, 0));
    SHOW(cuStreamEndCapture(stream, &ended));
    CHECK(cuStreamDestroy(stream));
}

/* All kinds of calls that begin at `at`, which is `offset` bytes from its block. */
static void ask(CUdeviceptr d, CUdeviceptr at, long offset)
{
    CUdeviceptr base;
    size_t size;
    unsigned type;
    int yes = 1;
    CUpointer_attribute types[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void *data[] = {&type};
    printf("at %ld\n", offset);
    SHOW(cuMemsetD8(at, 1, 8));
    SHOW(cuMemsetD32Async(at & ~3ull, 1, 2, NULL));
    SHOW(cuMemsetD2D8(at, 16, 1, 4, 2));
    SHOW(cuMemcpyHtoD(at, host, 8));
    SHOW(cuMemcpyHtoDAsync(at, host, 8, NULL));
    SHOW(cuMemcpyDtoH(host, at, 8));
    SHOW(cuMemcpyDtoHAsync(host, at, 8, NULL));
    SHOW(cuMemcpyDtoD(at, d, 8));
    SHOW(cuMemcpyDtoD(d, at, 8));
    SHOW(cuMemcpyDtoDAsync(d, at, 8, NULL));
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = 16,
                          .WidthInBytes = 8,
                          .Height = 2};
    SHOW(cuMemcpy2D(&rows));
    SHOW(cuMemGetAddressRange(&base, &size, at));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SHOW(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    SHOW(cuPointerGetAttributes(1, types, data, at));
    printf("type %u\n", type);
    SHOW(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SHOW(cuMemHostGetFlags(&type, (void *)at));
    SHOW(cuMemFree(at));
    SHOW(cuMemFreeHost((void *)at));
    add_nodes(apart, at);
    values((offset < 0 ? at : at + 7) & ~7ull);
    SHOW(cuCtxSynchronize());
}

/* Not all the way through another block's memory: such addresses may be that one's. */
static void around(CUdeviceptr d, size_t size, bool before)
{
    static const long behind[] = {0, 1, 4096, 64 << 10};
    printf("%zu bytes\n", size);
    SHOW(cuMemsetD8(d + size - 1, 1, 1));
    SHOW(cuMemsetD8(d + size - 1, 1, 2));
    wrong(d, size);
    for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
        ask(d, d + size + (CUdeviceptr)behind[i], behind[i]);
    if (before) {
        ask(d, d - 1, -1);
        ask(d, d - 4096, -4096);
    }
    SHOW(cuMemcpyDtoH(host, d, 8));
}

/* A block that is smaller than a page of the device's. */
static void small(void)
{
    size_t size = MIB / 2;
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, size));
    for (CUdeviceptr at = d + size; at < d + size + 8192; at += 4095)
        ask(d, at, (long)(at - d));
    CHECK(cuMemFree(d));
}

/* A block alone, before and after all of it was used. */
static void device(void)
{
    static const size_t sizes[] = {3 * MIB + 512, 5 * MIB + 1, 7 * MIB - 256};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CUdeviceptr d;
        CHECK(cuMemAlloc(&d, sizes[i]));
        around(d, sizes[i], true);
        CHECK(cuMemsetD8(d, 1, sizes[i]));
        around(d, sizes[i], true);
        CHECK(cuMemFree(d));
        printf("freed\n");
        ask(0, d, 0);
        ask(0, d + 4096, 4096);
    }
}

/* A block that is one with a host block until a call names it: a new one for each address. */
static void paired(void)
{
    static const long size = 5 * MIB + 512;
    static const long offsets[] = {size, size + 1, size + 4096, size + (64 << 10), -1};
    char *h = malloc(size);
    memset(h, 3, size);
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        CUdeviceptr d;
        CHECK(cuMemAlloc(&d, size));
        CHECK(cuMemcpyHtoD(d, h, size));
        ask(d, d + (CUdeviceptr)offsets[i], offsets[i]);
        EXPECT(all_are(h, 3, size));
        CHECK(cuMemFree(d));
    }
    free(h);
}

static void pool(void)
{
    size_t size = 5 * MIB + 512;
    CUdeviceptr d;
    CHECK(cuMemAllocAsync(&d, size, NULL));
    around(d, size, true);
    printf("copies that begin behind\n");
    SHOW(cuMemcpy(d, d + size, 64));
    SHOW(cuMemcpy(d + size + 1, d, 64));
    SHOW(cuMemcpyAsync(d, d + size + 1, 64000, NULL));
    SHOW(cuMemcpy(apart, d + size, 64));
    SHOW(cuMemcpy(d + size + 1, apart, 64));
    SHOW(cuMemcpyAsync(apart, d + size + 1, 64, NULL));
    printf("values\n");
    values(d);
    CHECK(cuMemFreeAsync(d, NULL));
    CHECK(cuCtxSynchronize());
}

/* Calls that the driver refuses in managed memory alone. */
static void value(void)
{
    CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, MIB));
    op.writeValue.address = d;
    SHOW(cuStreamWriteValue32(NULL, d, 1, 0));
    SHOW(cuStreamBatchMemOp(NULL, 1, &op, 0));
    CHECK(cuMemFree(d));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"device", device}, {"small", small}, {"paired", paired}, {"pool", pool}, {"value", value}};
    start_gpu(0);
    CHECK(cuMemAlloc(&apart, 4096));
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
