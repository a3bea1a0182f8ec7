/* SPDX-License-Identifier: MIT */
/* Calls of CUDA that meet a pair: copies and sets in all shapes, streams, graphs, queries, the end
 * of a context. */
#include <pthread.h>

#include "shared_scene.h"

static unsigned char plain[4 * SIZE]; /* Memory that no rule can place. */

/* Sets of the device block are not seen by the host block. */
static void sets(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CHECK(cuMemsetD8(p.d + 100, 7, UNIT));
    CHECK(cuMemsetD32(p.d + UNIT * 2, 0x01010101, 1000));
    CHECK(cuMemsetD2D16(p.d + UNIT * 2 + 8192, 4096, 0x0202, 10, 3));
    EXPECT(shows(p.h, SIZE, 1));
    CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
    EXPECT(shows(plain, 100, 1) && all_are(plain + 100, 7, UNIT));
    EXPECT(shows_part(plain, UNIT + 100, UNIT - 100, 1));
    EXPECT(all_are(plain + UNIT * 2, 1, 4000) && all_are(plain + UNIT * 2 + 12288, 2, 20));
    EXPECT(shows_part(plain, UNIT * 2 + 12308, 4076, 1));
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    EXPECT(!memcmp(p.h, plain, SIZE));
    give_back(p);
}

/* What no memory takes: elements and rows that overlap, and addresses of nobody's. */
static void malformed(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = plain,
                          .srcPitch = 4096,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p.d,
                          .dstPitch = 100,
                          .WidthInBytes = 4096,
                          .Height = 3};
    SHOW(cuMemsetD16(p.d + 1, 7, 10));
    SHOW(cuMemsetD32(p.d + 2, 7, 10));
    SHOW(cuMemsetD32Async(p.d + 5, 7, 10, NULL));
    SHOW(cuMemsetD2D8(p.d, 99, 7, 100, 3));
    SHOW(cuMemsetD2D8(p.d, 0, 7, 100, 3));
    SHOW(cuMemsetD2D32(p.d, 102, 7, 10, 3));
    SHOW(cuMemcpy2D(&rows));
    SHOW(cuMemcpyHtoD(p.d, NULL, 10));
    SHOW(cuMemcpyHtoDAsync(p.d, NULL, 10, NULL));
    SHOW(cuMemcpyDtoH(NULL, p.d, 10));
    SHOW(cuMemcpyDtoHAsync(NULL, p.d, 10, NULL));
    SHOW(cuMemcpyDtoD(p.d, 0, 10));
    SHOW(cuMemcpyDtoD(0x1234560000, p.d, 10));
    rows.dstPitch = 4096;
    rows.srcHost = NULL;
    SHOW(cuMemcpy2D(&rows));
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    give_back(p);
}

/* Copies between device blocks, and between a device block and other host memory. */
static void device_to_device(void)
{
    struct pair p = filled_pair(SIZE, 1), q = filled_pair(SIZE, 2);
    CUdeviceptr alone;
    CHECK(cuMemAlloc(&alone, 64 << 10));
    CHECK(cuMemcpyDtoD(q.d, p.d, SIZE));
    EXPECT(shows(q.h, SIZE, 2) && sees(q.d, 0, SIZE, 1));
    CHECK(cuMemcpyDtoD(alone, p.d, 64 << 10));
    EXPECT(copy_sees(alone, 0, 64 << 10, 1));
    CHECK(cuMemcpyHtoD(alone, q.h, 64 << 10));
    EXPECT(copy_sees(alone, 0, 64 << 10, 2));
    CHECK(cuMemcpyDtoD(p.d, alone, 64 << 10));
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, 64 << 10, 2));
    EXPECT(sees(p.d, 64 << 10, SIZE - (64 << 10), 1));
    CHECK(cuMemcpyDtoH(q.h, p.d, SIZE));
    EXPECT(shows(q.h, 64 << 10, 2) && shows_part(q.h, 64 << 10, SIZE - (64 << 10), 1));
    EXPECT(sees(q.d, 0, SIZE, 1));
    CHECK(cuMemFree(alone));
    give_back(p);
    give_back(q);
}

/* Parts, and parts that change their offset. */
static void partial(void)
{
    struct pair p = filled_pair(SIZE, 1);
    paint(p.h, SIZE, 2);
    CHECK(cuMemcpyHtoD(p.d + 1000, p.h + 1000, UNIT));
    EXPECT(sees(p.d, 0, 1000, 1) && sees(p.d, 1000, UNIT, 2));
    EXPECT(sees(p.d, UNIT + 1000, SIZE - UNIT - 1000, 1));
    CHECK(cuMemcpyDtoH(p.h + UNIT / 2, p.d + UNIT / 2, 2 * UNIT));
    EXPECT(shows(p.h, UNIT + 1000, 2) && shows_part(p.h, 5 * UNIT / 2, UNIT / 2, 2));
    EXPECT(shows_part(p.h, UNIT + 1000, 3 * UNIT / 2 - 1000, 1));
    paint(p.h, SIZE, 3);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuMemcpyHtoD(p.d + 5, p.h + UNIT, UNIT)); /* To another offset. */
    EXPECT(shows(p.h, SIZE, 3));
    CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
    EXPECT(!memcmp(plain + 5, p.h + UNIT, UNIT) && shows(plain, 5, 3));
    CHECK(cuMemcpyDtoH(p.h + 77, p.d + 5, UNIT));
    EXPECT(!memcmp(p.h + 77, plain + 5, UNIT) && shows(p.h, 77, 3));
    give_back(p);
}

static CUDA_MEMCPY2D box(struct pair p, bool in, size_t x, size_t y, size_t width, size_t rows)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                       .dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                       .srcPitch = 4096,
                       .dstPitch = 4096,
                       .srcXInBytes = x,
                       .dstXInBytes = x,
                       .srcY = y,
                       .dstY = y,
                       .WidthInBytes = width,
                       .Height = rows,
                       .srcHost = p.h,
                       .dstHost = p.h,
                       .srcDevice = p.d,
                       .dstDevice = p.d};
    return c;
}

/* Rows of a pitched block, whole and in part. */
static void rectangles(void)
{
    struct pair p = filled_pair(SIZE, 1);
    paint(p.h, SIZE, 2);
    CUDA_MEMCPY2D in = box(p, true, 100, 3, 500, SIZE / 4096 - 3),
                  whole = box(p, true, 0, 0, 4096, SIZE / 4096);
    CHECK(cuMemcpy2D(&in));
    CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
    for (size_t i = 0; i < SIZE; i++)
        EXPECT(plain[i] == pattern(i, i >= 3 * 4096 && i % 4096 >= 100 && i % 4096 < 600 ? 2 : 1));
    CHECK(cuMemcpy2D(&whole));
    EXPECT(sees(p.d, 0, SIZE, 2));
    put(p.d, SIZE, 3);
    whole = box(p, false, 0, 0, 4096, SIZE / 4096);
    CHECK(cuMemcpy2DAsync(&whole, NULL));
    CHECK(cuStreamSynchronize(NULL));
    EXPECT(shows(p.h, SIZE, 3));
    give_back(p);
}

/* Calls that do not say which of two blocks they mean, where both hold the same. */
static void either(void)
{
    struct pair p = new_pair(SIZE);
    CUdeviceptr other;
    CHECK(cuMemAlloc(&other, UNIT / 4));
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpy(p.d, (CUdeviceptr)p.h, SIZE));
    paint(p.h, SIZE / 2, 2);
    EXPECT(sees(p.d, 0, SIZE, 1) || !kernels_read);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuMemcpyAsync((CUdeviceptr)p.h, p.d, SIZE, NULL));
    CHECK(cuMemcpy((CUdeviceptr)plain, p.d + UNIT, UNIT));
    CHECK(cuMemcpy(other, (CUdeviceptr)p.h + UNIT, UNIT / 4));
    CHECK(cuMemcpyDtoH(plain + UNIT, other, UNIT / 4));
    EXPECT(!memcmp(plain, p.h + UNIT, UNIT) && !memcmp(plain + UNIT, plain, UNIT / 4));
    EXPECT(shows(p.h, SIZE / 2, 2) && shows_part(p.h, SIZE / 2, SIZE / 2, 1));
    CHECK(cuMemFree(other));
    give_back(p);
}

/* And where they do not, or one of them would be written. */
static void unclear(void)
{
    struct pair p = filled_pair(SIZE, 1);
    paint(plain, SIZE, 3);
    SHOW(cuMemcpy(p.d, (CUdeviceptr)plain, SIZE));
    SHOW(cuMemcpy(p.d + UNIT, (CUdeviceptr)p.h, UNIT));
    p.h[5] ^= 255;
    SHOW(cuMemcpy(p.d, (CUdeviceptr)p.h, SIZE));
    SHOW(cuMemcpy((CUdeviceptr)plain, p.d, UNIT));
    p.h[5] ^= 255;
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    give_back(p);
}

static void *open_late(void *gate)
{
    usleep(40000);
    gate_open(gate);
    return NULL;
}

/* Asynchronous copies on a stream with work pending: in order, and with pageable memory's rules. */
static void busy(void)
{
    struct pair p = filled_pair(SIZE, 1);
    struct gate gate;
    pthread_t opener;
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    gate_close(&gate, s);
    if (!kernels_read)
        CHECK(cuMemsetD8Async(p.d, 9, UNIT, s));
    paint(p.h, SIZE, 2);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    paint(p.h, SIZE, 3); /* The source may be used again. */
    CHECK(cuStreamSynchronize(s));
    CHECK(pthread_join(opener, NULL));
    EXPECT(sees(p.d, 0, SIZE, 2) && shows(p.h, SIZE, 3));
    gate_close(&gate, s);
    if (!kernels_read)
        CHECK(try_kernel(PAINT, p.d, 0, SIZE, 4, NULL, s));
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyDtoHAsync(p.h, p.d, SIZE, s));
    EXPECT(shows(p.h, SIZE, kernels_read ? 2 : 4)); /* It has arrived. */
    CHECK(pthread_join(opener, NULL));
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    CHECK(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s)); /* All is one: nothing to wait for. */
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* The gate is opened by the thread that sets: the set must not wait, with a stream or without. */
static void waiting_set(void)
{
    struct pair p = filled_pair(SIZE, 1);
    struct gate gate;
    CUstream s;
    gate_close(&gate, NULL);
    CHECK(cuMemsetD8(p.d + UNIT, 8, UNIT));
    EXPECT(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY && shows(p.h, SIZE, 1));
    gate_open(&gate);
    CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
    EXPECT(all_are(plain + UNIT, 8, UNIT) && shows(p.h, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, s);
    CHECK(cuMemsetD8Async(p.d, 9, UNIT, s));
    EXPECT(shows(p.h, SIZE, 1));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(s));
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, UNIT, SIZE - UNIT, 1));
    CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
    EXPECT(all_are(p.h, 9, UNIT) && shows_part(p.h, UNIT, SIZE - UNIT, 1));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* Waiting for the device is no launch: what was copied back before stays the host block's. */
static void waits_after(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    gpu_paint(p.d, 0, SIZE, 2);
    CHECK(cuMemcpyDtoHAsync(p.h, p.d, SIZE, NULL));
    CHECK(cuEventRecord(event, NULL));
    CHECK(cuEventSynchronize(event));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuEventDestroy(event));
    EXPECT(shows(p.h, SIZE, 2));
    give_back(p);
}

/* A graph that holds the device block's address in a kernel, and one that would copy. */
static void captures(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;
    kernel_of(PAINT);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(try_kernel(PAINT, p.d, 0, SIZE, 2, NULL, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    EXPECT(shows(p.h, SIZE, 1));
    for (int i = 0; i < 2; i++) {
        paint(p.h, SIZE, 5);
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        CHECK(cuGraphLaunch(exec, s));
        CHECK(cuStreamSynchronize(s));
        CHECK(cuMemcpyDtoH(p.h, p.d, SIZE));
        EXPECT(shows(p.h, SIZE, 2));
    }
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuMemcpyHtoDAsync(p.d, p.h, SIZE, s));
    SHOW(cuMemcpyDtoHAsync(p.h, p.d, SIZE, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* What other streams copy while one captures.  It is not for them to end the capture. */
static void beside_a_capture(void)
{
    struct pair p = filled_pair(SIZE, 1);
    const size_t n = 512 << 10;
    CUdeviceptr other;
    CUgraph graph;
    CUstream s, apart;
    CHECK(cuMemAlloc(&other, n));
    CHECK(cuMemsetD8(other, 7, n));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SHOW(cuMemcpyDtoHAsync(plain, p.d, SIZE, apart));
    SHOW(cuMemcpyHtoDAsync(p.d + UNIT, plain, UNIT, apart));
    SHOW(cuMemcpyDtoDAsync(p.d, other, n, apart));
    SHOW(cuMemcpyDtoDAsync(other, p.d + UNIT, n, apart));
    SHOW(cuMemcpyDtoHAsync(p.h, p.d, SIZE, apart));
    SHOW(cuMemsetD8Async(p.d, 9, UNIT, apart));
    SHOW(cuStreamEndCapture(s, &graph));
    CHECK(cuStreamSynchronize(apart));
    EXPECT(all_are(p.h, 7, n) && shows_part(p.h, 2 * UNIT, UNIT, 1));
    CHECK(cuMemcpyDtoH(plain, other, n));
    EXPECT(!memcmp(plain, p.h + UNIT, n));
    CHECK(cuMemcpyDtoH(plain, p.d, UNIT));
    EXPECT(all_are(plain, 9, UNIT));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    CHECK(cuStreamDestroy(apart));
    CHECK(cuMemFree(other));
    give_back(p);
}

/* A graph sets and copies a device block that gets its host block between two launches. */
static void joined_graph(void)
{
    CUdeviceptr d = device_block(SIZE), other;
    CUgraphExec exec;
    CUgraph graph;
    CUstream s;
    CHECK(cuMemAlloc(&other, 512 << 10));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(d, 6, SIZE, s));
    CHECK(cuMemcpyDtoDAsync(other, d, 512 << 10, s));
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
    unsigned char *h = host_block(SIZE);
    TELL("same address %d\n", (CUdeviceptr)h == d);
    paint(h, SIZE, 1);
    SHOW(cuGraphLaunch(exec, s));
    CHECK(cuStreamSynchronize(s));
    EXPECT(shows(h, SIZE, 1));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 6, SIZE));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(other));
    CHECK(cuMemFree(d));
    free(h);
}

/* Many copies in one call, and a handle for other processes. */
static void refused(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
#if CUDA_VERSION >= 12080
    CUdeviceptr dst = p.d, src = (CUdeviceptr)plain;
    size_t n = 4096, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
#if CUDA_VERSION >= 13000
    paint(plain, n, 1);
    SHOW(cuMemcpyBatchAsync(&dst, &src, &n, 1, &how, &first, 1, s));
#else
    size_t failed;
    SHOW(cuMemcpyBatchAsync(&dst, &src, &n, 1, &how, &first, 1, &failed, s));
#endif
#endif
    CUipcMemHandle handle;
    SHOW(cuIpcGetMemHandle(&handle, p.d));
    SHOW(cuMemHostRegister(p.h, SIZE, 0));
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* Nodes of a graph that copy device memory into the host block. */
static void nodes(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUgraph graph;
    CUgraphNode node;
    CUdeviceptr other;
    CHECK(cuMemAlloc(&other, 4096));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = other,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = p.h,
                          .WidthInBytes = 4096,
                          .Height = 1,
                          .Depth = 1};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = copy};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuCtxGetCurrent(&any.memcpy.copyCtx));
    SHOW(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, any.memcpy.copyCtx));
    SHOW(cuGraphAddNode(&node, graph, NULL, NULL, 0, &any));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(other));
    give_back(p);
}

/* The program registers its host block first: then it is its own. */
static void registered(void)
{
    struct pair p = {host_block(SIZE), 0};
    CHECK(cuMemHostRegister(p.h, SIZE, 0));
    p.d = device_block(SIZE);
    TELL("same address %d\n", (CUdeviceptr)p.h == p.d);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemHostUnregister(p.h));
    give_back(p);
}

static int attribute(CUdeviceptr at, CUpointer_attribute which)
{
    int value = -1;
    return cuPointerGetAttribute(&value, which, at) == CUDA_SUCCESS ? value : -1;
}

/* What the driver says of the device block; and of the host block, which has the same address. */
/* A kernel: *result = *h, where the device reaches pageable memory. */
static int reads_h(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    unsigned char *h = *(unsigned char **)args[0], *seen = sim_gpu_pointer((CUdeviceptr)h);
    **(int **)args[1] = seen ? *seen : *h;
    return 0;
}

static void given_h(void)
{
    static const size_t sizes[] = {8, 8};
    CUfunction f = load_kernel("reads_h", reads_h, 2, sizes);
    struct pair p = filled_pair(SIZE, 1);
    int result = -1, *to = &result;
    p.h[0] = 200;
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p.h, &to}, NULL));
    CHECK(cuCtxSynchronize());
    printf("h is %d\n", result);
    give_back(p);
}

/* A kernel is given the host block's address after a copy, where no device block is one with it. */
static void reached(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    int result = -1;
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(try_kernel(SHOWS, (CUdeviceptr)h, 0, SIZE, 1, &result, NULL));
    SHOW(cuCtxSynchronize());
    printf("the kernel saw %d\n", result);
    free(h);
}

/* A library that copies a buffer by what its address is: bare, the host block by the CPU. */
static void asks(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    int type = 0;
    void *data = &type;
    size_t span;
    TELL("while both are one: %d\n", attribute((CUdeviceptr)p.h, which));
    CHECK(cuMemGetAddressRange(NULL, &span, p.d));
    p.h[0] = 200;
    TELL("when h was written: %d\n", attribute((CUdeviceptr)p.h, which));
    CHECK(cuPointerGetAttributes(1, &which, &data, p.d));
    CHECK(cuMemGetAddressRange(NULL, &span, p.d));
    EXPECT(type == CU_MEMORYTYPE_DEVICE && span == SIZE && p.h[0] == 200);
    give_back(p);
    p = filled_pair(SIZE, 1);
    gpu_paint(p.d, 0, SIZE, 2);
    CHECK(cuMemGetAddressRange(NULL, &span, p.d));
    give_back(p);
}

static void answers(void)
{
    size_t before, after, total, span;
    CUdeviceptr base;
    CHECK(cuMemGetInfo(&before, &total));
    struct pair p = filled_pair(SIZE, 1);
    CHECK(cuMemGetInfo(&after, &total));
    CHECK(cuMemGetAddressRange(&base, &span, p.d + UNIT));
    printf("free memory %zu, range %zu %d\n", before - after, span, base == p.d);
    printf("type %d, managed %d, ordinal %d, mapped %d\n",
           attribute(p.d, CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
           attribute(p.d, CU_POINTER_ATTRIBUTE_IS_MANAGED),
           attribute(p.d, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
           attribute(p.d, CU_POINTER_ATTRIBUTE_MAPPED));
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
#if CUDA_VERSION >= 13000
    SHOW(cuMemPrefetchAsync(p.d, SIZE, here, 0, NULL));
    SHOW(cuMemAdvise(p.d, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
#else
    (void)here;
    SHOW(cuMemPrefetchAsync(p.d, SIZE, 0, NULL));
    SHOW(cuMemAdvise(p.d, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
#endif
    TELL("type of the host block %d\n",
         attribute((CUdeviceptr)p.h, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, SIZE, 1));
    CHECK(cuMemFree(p.d));
    TELL("and without device block %d\n",
         attribute((CUdeviceptr)p.h, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    free(p.h);
}

/* A copy to or from an array of UNIT bytes, in rows of 4 KiB. */
/* Pitches of arrays are not looked at. */
static CUresult array_copy(CUarray array, bool in, const void *host, CUdeviceptr device)
{
    CUDA_MEMCPY2D copy = {.WidthInBytes = 4096, .Height = UNIT / 4096};
    CUmemorytype type = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcMemoryType = in ? type : CU_MEMORYTYPE_ARRAY;
    copy.dstMemoryType = in ? CU_MEMORYTYPE_ARRAY : type;
    copy.srcArray = copy.dstArray = array;
    copy.srcHost = host;
    copy.dstHost = (void *)host;
    copy.srcDevice = copy.dstDevice = device;
    copy.srcPitch = in ? 4096 : 0;
    copy.dstPitch = in ? SIZE_MAX : 4096;
    return cuMemcpy2D(&copy);
}

/* Arrays are copied by the driver, from either side of a pair and into its device block. */
static void arrays(void)
{
    static unsigned char seen[UNIT];
    const CUDA_ARRAY_DESCRIPTOR like = {.Width = 4096,
                                        .Height = UNIT / 4096,
                                        .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                        .NumChannels = 1};
    struct pair p = filled_pair(SIZE, 1);
    CUarray array;
    CHECK(cuArrayCreate(&array, &like));
    CHECK(array_copy(array, true, p.h, 0));
    CHECK(array_copy(array, false, seen, 0));
    EXPECT(shows(seen, UNIT, 1));
    paint(p.h, SIZE, 2);
    CHECK(array_copy(array, true, NULL, p.d));
    CHECK(array_copy(array, false, seen, 0));
    EXPECT(shows(seen, UNIT, 1));
    if (kernels_read)
        TELL("into what is read: %d\n", (int)array_copy(array, false, NULL, p.d));
    paint(seen, UNIT, 3);
    CHECK(cuMemcpyHtoD(p.d, seen, UNIT));
    CHECK(array_copy(array, true, NULL, p.d));
    CHECK(array_copy(array, false, seen, 0));
    EXPECT(shows(seen, UNIT, 3) && shows(p.h, SIZE, 2));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    if (!kernels_read) {
        CHECK(array_copy(array, false, NULL, p.d));
        EXPECT(copy_sees(p.d, 0, UNIT, 3) && shows(p.h, SIZE, 2));
    }
    CHECK(cuArrayDestroy(array));
    give_back(p);
}

/* The program ends with all it has. */
static void leaves(void)
{
    filled_pair(SIZE, 1);
    struct pair p = filled_pair(SIZE, 2);
    p.h[0] ^= 1;
    exit(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"sets", sets},
        {"malformed", malformed},
        {"device_to_device", device_to_device},
        {"partial", partial},
        {"rectangles", rectangles},
        {"either", either},
        {"unclear", unclear},
        {"busy", busy},
        {"waiting_set", waiting_set},
        {"waits_after", waits_after},
        {"captures", captures},
        {"beside_a_capture", beside_a_capture},
        {"joined_graph", joined_graph},
        {"refused", refused},
        {"nodes", nodes},
        {"registered", registered},
        {"answers", answers},
        {"asks", asks},
        {"given_h", given_h},
        {"reached", reached},
        {"arrays", arrays},
        {"leaves", leaves},
    };
    return RUN_SCENES(all, argc, argv);
}
