/* SPDX-License-Identifier: MIT */
/* Two devices: streams, copies and kernels of one that use blocks of the other. */
#include <pthread.h>

#include "program.h"

#define BYTES 4096

static void other_device_stream(void)
{
    static char host[BYTES], seen[BYTES];
    CUdeviceptr block;
    CUstream far;
    struct gate gate;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, 0));
    start_gpu(0);
    CHECK(cuMemHostRegister(host, BYTES, 0));
    CHECK(cuMemAlloc(&block, BYTES));
    CHECK(cuMemsetD8(block, 1, BYTES));

    gate_close(&gate, far);
    memset(host, 9, BYTES);
    CHECK(cuMemcpyHtoDAsync(block, host, BYTES, far));
    CHECK(cuMemcpyDtoH(seen, block, BYTES));
    EXPECT(all_are(seen, 1, BYTES)); /* The copy stands behind the gate. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(far));
    CHECK(cuMemcpyDtoH(seen, block, BYTES));
    EXPECT(all_are(seen, 9, BYTES));
    CHECK(cuMemHostUnregister(host));
    CHECK(cuMemFree(block));
    CHECK(cuStreamDestroy(far));
}

#define MANY ((size_t)8 << 20)

/* Pageable memory, more than a thread copies alone, there and back through the other's stream. */
static void pageable_copy(void)
{
    static char host[MANY], seen[MANY];
    CUdeviceptr block;
    CUstream far;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, 0));
    start_gpu(0);
    CHECK(cuMemAlloc(&block, MANY));
    memset(host, 9, MANY);
    CHECK(cuMemcpyHtoDAsync(block, host, MANY, far));
    CHECK(cuMemcpyDtoHAsync(seen, block, MANY, far));
    CHECK(cuStreamSynchronize(far));
    EXPECT(all_are(seen, 9, MANY));
    CHECK(cuMemFree(block));
    CHECK(cuStreamDestroy(far));
}

static void freed_in_other_device_stream(void)
{
    CUdeviceptr block, next;
    CUstream far;
    struct gate gate;
    start_gpu(1);
    CHECK(cuStreamCreate(&far, 0));
    start_gpu(0);
    CHECK(cuMemAllocAsync(&block, BYTES, NULL));
    CHECK(cuMemsetD8(block, 1, BYTES));
    CHECK(cuCtxSynchronize()); /* A set of device memory need not have run when the call returns. */

    gate_close(&gate, far);
    CHECK(cuMemFreeAsync(block, far));
    CHECK(cuMemAllocAsync(&next, BYTES, NULL));
    EXPECT(next != block); /* The freed block is still in use by the other stream. */
    gate_open(&gate);
    CHECK(cuStreamSynchronize(far));
    CHECK(cuMemFreeAsync(next, NULL));
    CHECK(cuStreamSynchronize(NULL));
}

#define LARGE ((size_t)3 << 20)

static char bytes[LARGE];
static CUcontext first, second;

/* A block of device 0 with one value, and device 1 current behind it. */
static CUdeviceptr far_block(int value)
{
    CUdeviceptr p;
    first = start_gpu(0);
    CHECK(cuMemAlloc(&p, LARGE));
    CHECK(cuMemsetD8(p, (unsigned char)value, LARGE));
    CHECK(cuCtxSynchronize());
    second = start_gpu(1);
    return p;
}

static void has(CUdeviceptr p, int value)
{
    memset(bytes, 0, LARGE);
    CHECK(cuMemcpyDtoH(bytes, p, LARGE));
    EXPECT(all_are(bytes, value, LARGE));
}

static void leave(CUdeviceptr p)
{
    CHECK(cuMemFree(p));
    end_gpu(0);
    end_gpu(1);
}

/* The result of a kernel of the current device that writes a block of another one. */
static void show_kernel(CUdeviceptr p)
{
    fill(p, 9, LARGE, NULL);
    printf("kernel %d\n", cuCtxSynchronize());
}

static void peer_not_enabled(void)
{
    show_kernel(far_block(1));
}

static void peer_disabled(void)
{
    CUdeviceptr p = far_block(1);
    CHECK(cuCtxEnablePeerAccess(first, 0));
    show_kernel(p);
    CHECK(cuCtxDisablePeerAccess(first));
    show_kernel(p);
}

/* Enabled before some blocks are made and after others, and again; each is reached. */
static void peer_enabled(void)
{
    CUdeviceptr p = far_block(1), later, again;
    CHECK(cuCtxEnablePeerAccess(first, 0));
    EXPECT(cuCtxEnablePeerAccess(first, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    show_kernel(p);
    has(p, 9);
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuMemAlloc(&later, LARGE));
    CHECK(cuCtxSetCurrent(second));
    show_kernel(later);
    has(later, 9);
    CHECK(cuMemFree(later)); /* While the peer maps it. */
    CHECK(cuCtxDisablePeerAccess(first));
    EXPECT(cuCtxDisablePeerAccess(first) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK(cuCtxEnablePeerAccess(first, 0));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuMemAlloc(&again, LARGE));
    CHECK(cuCtxSetCurrent(second));
    show_kernel(again);
    has(again, 9);
    CHECK(cuMemFree(again));
    leave(p);
}

/* A copy through another device's context lets that device's kernels reach no later block. */
static void peer_copied_before(void)
{
    CUdeviceptr p = far_block(1), more;
    memset(bytes, 2, LARGE);
    CHECK(cuMemcpyHtoD(p, bytes, LARGE));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuMemAlloc(&more, LARGE));
    CHECK(cuMemcpyDtoD(more, p, LARGE));
    CHECK(cuMemFree(p));
    CHECK(cuMemAlloc(&p, LARGE)); /* At the freed one's addresses. */
    CHECK(cuMemsetD8(p, 1, LARGE));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(second));
    show_kernel(p);
}

/* Copies go through any device's context, sets do not. */
static void far_copies(void)
{
    CUdeviceptr p = far_block(1), near;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = bytes,
                          .WidthInBytes = 512,
                          .Height = 8,
                          .srcPitch = 4096,
                          .dstPitch = 512};
    CHECK(cuMemAlloc(&near, LARGE));
    EXPECT(cuMemsetD8(p, 3, LARGE) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyPeer(near, second, p, first, LARGE));
    has(near, 1);
    CHECK(cuMemcpyDtoD(near, p, LARGE));
    CHECK(cuCtxSynchronize());
    has(near, 1);
    has(p, 1);
    memset(bytes, 4, LARGE);
    CHECK(cuMemcpyHtoD(p, bytes, LARGE));
    has(p, 4);
    rows.srcDevice = p;
    memset(bytes, 0, LARGE);
    CHECK(cuMemcpy2D(&rows));
    EXPECT(all_are(bytes, 4, 512 * 8));
    CHECK(cuMemsetD8(near, 5, LARGE));
    CHECK(cuMemcpyDtoD(p, near, LARGE));
    CHECK(cuCtxSynchronize());
    has(p, 5);
    EXPECT(cuMemsetD8(p, 3, LARGE) == CUDA_ERROR_INVALID_VALUE); /* Still. */
    CHECK(cuMemFree(near));
    leave(p);
}

static void *open_late(void *gate)
{
    usleep(40000);
    gate_open(gate);
    return NULL;
}

/* A peer copy without a stream comes after what both devices had to do, and before what they are
 * given next. */
static void peer_order(void)
{
    CUdeviceptr p = far_block(1), near;
    pthread_t opener;
    struct gate gate;
    CHECK(cuMemAlloc(&near, LARGE));
    for (int i = 0; i < 2; i++) {
        CHECK(cuCtxSetCurrent(first));
        gate_close(&gate, NULL);
        CHECK(cuMemsetD8Async(p, (unsigned char)(5 + i), LARGE, NULL));
        CHECK(cuCtxSetCurrent(second));
        CHECK(pthread_create(&opener, NULL, open_late, &gate));
        CHECK(cuMemcpyPeer(near, second, p, first, LARGE));
        CHECK(cuCtxSetCurrent(first));
        CHECK(cuMemsetD8Async(p, 3, LARGE, NULL));
        CHECK(cuCtxSetCurrent(second));
        CHECK(cuCtxSynchronize());
        has(near, 5 + i);
        CHECK(pthread_join(opener, NULL));
    }
    CHECK(cuMemFree(near));
    leave(p);
}

static CUresult batch_of_one(CUdeviceptr dst, CUdeviceptr src, CUstream stream)
{
#if CUDA_VERSION >= 13000
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first_of = 0, size = LARGE;
    return cuMemcpyBatchAsync(&dst, &src, &size, 1, &attributes, &first_of, 1, stream);
#else
    return cuMemcpyDtoDAsync(dst, src, LARGE, stream);
#endif
}

/* One copy of a whole block by each call that may name two devices' memory. */
static CUresult copy_by(unsigned way, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                        CUcontext from, CUstream stream)
{
    const CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .srcDevice = src,
                                     .srcContext = from,
                                     .srcPitch = 4096,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = dst,
                                     .dstContext = to,
                                     .dstPitch = 4096,
                                     .WidthInBytes = 4096,
                                     .Height = LARGE / 4096,
                                     .Depth = 1};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = src,
                          .srcPitch = 4096,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = dst,
                          .dstPitch = 4096,
                          .WidthInBytes = 4096,
                          .Height = LARGE / 4096};
    switch (way) {
    case 0:
        return cuMemcpyPeer(dst, to, src, from, LARGE);
    case 1:
        return cuMemcpyPeerAsync(dst, to, src, from, LARGE, stream);
    case 2:
        return cuMemcpy3DPeer(&peer);
    case 3:
        return cuMemcpy3DPeerAsync(&peer, stream);
    case 4:
        return cuMemcpy(dst, src, LARGE);
    case 5:
        return cuMemcpyDtoDAsync(dst, src, LARGE, stream);
    case 6:
        return cuMemcpy2D(&rows);
    case 7:
        return batch_of_one(dst, src, stream);
    default:
        return cuMemcpy2DAsync(&rows, stream);
    }
}

/* The same in a graph: captured, or as a node of the program's. */
static CUresult copy_by_graph(bool node, CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                              CUcontext from, CUstream stream)
{
    const CUDA_MEMCPY3D line = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = src,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = dst,
                                .WidthInBytes = LARGE,
                                .Height = 1,
                                .Depth = 1};
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode added;
    CUcontext here;
    CHECK(cuCtxGetCurrent(&here));
    if (node) {
        CHECK(cuGraphCreate(&graph, 0));
        CUresult code = cuGraphAddMemcpyNode(&added, graph, NULL, 0, &line, here);
        if (code == CUDA_ERROR_INVALID_VALUE) { /* As libzc says of mapped device memory. */
            puts("a node is refused");
            CHECK(cuMemcpyPeerAsync(dst, to, src, from, LARGE, stream));
            return cuGraphDestroy(graph);
        }
        CHECK(code);
    } else {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(cuMemcpyAsync(dst, src, LARGE, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
    }
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    return cuGraphDestroy(graph);
}

static void fill_there(CUdeviceptr block, CUcontext context, unsigned char value)
{
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemsetD8(block, value, LARGE));
    CHECK(cuCtxSynchronize());
}

enum { GRAPHS = 9, WAYS = 11, BLOCKS = 4 };

/* Both devices' blocks, of 4 MiB and a small one, are copied in each direction by one call, with
 * device `here` current, in a stream of any. */
static void far_copies_once(unsigned way, int here, const CUcontext *of, CUstream stream)
{
    static const size_t size[BLOCKS] = {LARGE, 4 << 20, 4 << 20, 4 << 20};
    CUdeviceptr block[2][BLOCKS];
    for (int i = 0; i < 2 * BLOCKS; i++) {
        CHECK(cuCtxSetCurrent(of[i % 2]));
        CHECK(cuMemAlloc(&block[i % 2][i / 2], size[i / 2]));
    }
    for (unsigned t = 0; t < BLOCKS * BLOCKS * 2; t++) {
        unsigned from = t & 1;
        CUdeviceptr src = block[from][t / 2 % BLOCKS], dst = block[!from][t / 2 / BLOCKS];
        fill_there(src, of[from], (unsigned char)t);
        fill_there(dst, of[!from], 0xff);
        CHECK(cuCtxSetCurrent(of[here]));
        CHECK(way < GRAPHS ? copy_by(way, dst, of[!from], src, of[from], stream)
                           : copy_by_graph(way > GRAPHS, dst, of[!from], src, of[from], stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuCtxSynchronize());
        CHECK(cuCtxSetCurrent(of[!from]));
        memset(bytes, 0xff, LARGE);
        CHECK(cuMemcpyDtoH(bytes, dst, LARGE));
        EXPECT(all_are(bytes, (unsigned char)t, LARGE));
    }
    for (int i = 0; i < 2 * BLOCKS; i++)
        CHECK(cuMemFree(block[i % 2][i / 2]));
}

static void far_copies_by(unsigned from_way, unsigned to_way)
{
    CUstream stream[2];
    CUcontext of[2];
    for (int d = 0; d < 2; d++) {
        of[d] = start_gpu(d);
        CHECK(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
    }
    for (unsigned way = from_way; way < to_way; way++)
        for (int i = 0; i < 4; i++)
            far_copies_once(way, i & 1, of, stream[i >> 1]);
    for (int d = 0; d < 2; d++)
        CHECK(cuStreamDestroy(stream[d]));
}

static void far_ways(void)
{
    far_copies_by(0, GRAPHS);
}

static void far_graphs(void)
{
    far_copies_by(GRAPHS, WAYS);
}

/* A batch of copies in a stream of another device. */
static void far_batch(void)
{
#if CUDA_VERSION >= 13000
    CUdeviceptr p = far_block(1), near;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t first_of = 0, sizes[] = {LARGE / 2, LARGE / 2};
    CUstream stream;
    CHECK(cuMemAlloc(&near, LARGE));
    CHECK(cuStreamCreate(&stream, 0));
    CUdeviceptr from[] = {p, p + LARGE / 2}, to[] = {near, near + LARGE / 2};
    CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first_of, 1, stream));
    CHECK(cuStreamSynchronize(stream));
    has(near, 1);
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemFree(near));
    leave(p);
#endif
}

/* A mapping of the program's that the current device may not use is what refuses a copy, whichever
 * device's stream it is in. */
static void own_mapping(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = far_block(1), own;
    CUstream far, near;
    CHECK(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING)); /* Of device 1. */
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuStreamCreate(&near, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAddressReserve(&own, 2 << 20, 0, 0, 0));
    CHECK(cuMemCreate(&handle, 2 << 20, &prop, 0));
    CHECK(cuMemMap(own, 2 << 20, 0, handle, 0));
    CHECK(cuMemSetAccess(own, 2 << 20, &access, 1));
    CHECK(cuCtxSetCurrent(second));
    SHOW(cuMemcpyAsync(p, own, 2 << 20, near));
    SHOW(cuMemcpyAsync(own, p, 2 << 20, near));
    CHECK(cuCtxSetCurrent(first));
    SHOW(cuMemcpyAsync(p, own, 2 << 20, far));
    CHECK(cuStreamSynchronize(far));
    CHECK(cuStreamDestroy(far));
    CHECK(cuStreamDestroy(near));
    CHECK(cuMemUnmap(own, 2 << 20));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(own, 2 << 20));
    leave(p);
}

/* Access that one more block can't be given is not enabled at all. */
static void peer_refused(void)
{
    CUdeviceptr p = far_block(1);
    sim_fail("cuMemSetAccess", CUDA_ERROR_OUT_OF_MEMORY, 1);
    printf("enable %d\n", cuCtxEnablePeerAccess(first, 0));
    sim_fail(NULL, CUDA_SUCCESS, 0);
    printf("disable %d\n", cuCtxDisablePeerAccess(first));
    CHECK(cuCtxEnablePeerAccess(first, 0));
    show_kernel(p);
    leave(p);
}

/* Two devices of 16 MiB each have what one of them could not. */
static void apart(void)
{
    CUdeviceptr near, far;
    CUstream stream;
    second = start_gpu(1);
    CHECK(cuStreamCreate(&stream, 0));
    start_gpu(0);
    CHECK(cuMemAlloc(&near, 8 << 20));
    CHECK(cuMemAllocAsync(&far, 12 << 20, stream)); /* Of the stream's device. */
    CHECK(cuMemFreeAsync(far, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuMemAlloc(&far, 12 << 20));
    CHECK(cuMemFree(far));
    leave(near);
}

/* Memory that one device has is no less free, and can be had, on another. */
static void free_apart(void)
{
    CUdeviceptr near, far;
    size_t before, after, total;
    second = start_gpu(1);
    CHECK(cuMemGetInfo(&before, &total));
    first = start_gpu(0);
    CHECK(cuMemAlloc(&near, 40 << 20));
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before == after);
    CHECK(cuMemAlloc(&far, 100 << 20));
    CHECK(cuMemGetInfo(&after, &total));
    printf("%zu\n", (before - after) >> 20);
    CHECK(cuMemFree(far));
    leave(near);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"copy", other_device_stream},
                                          {"pageable_copy", pageable_copy},
                                          {"free", freed_in_other_device_stream},
                                          {"peer_not_enabled", peer_not_enabled},
                                          {"peer_disabled", peer_disabled},
                                          {"peer_enabled", peer_enabled},
                                          {"peer_copied_before", peer_copied_before},
                                          {"far_copies", far_copies},
                                          {"peer_order", peer_order},
                                          {"far_batch", far_batch},
                                          {"far_ways", far_ways},
                                          {"far_graphs", far_graphs},
                                          {"apart", apart},
                                          {"free_apart", free_apart},
                                          {"peer_refused", peer_refused},
                                          {"own_mapping", own_mapping}};
    return RUN_SCENARIO(all, argc, argv);
}
