/* SPDX-License-Identifier: MIT */
/* Uses device memory in the ways whose order or meaning a place could change, and checks every
 * byte. */
#include <pthread.h>
#include <stdbool.h>

#include "program.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static char host[8 * MIB];

static CUdeviceptr block(size_t bytes)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

static CUstream stream(unsigned flags)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, flags));
    return s;
}

static CUcontext main_context; /* Current in every scenario. */

/* Prints what the simulated driver holds when one block of each request lives: "class count".
 * Freed, and their context reset, they leave nothing. */
static void kinds(void)
{
    static const char *const names[] = {"device",  "pooled",      "host",    "registered",
                                        "managed", "reservation", "mapping", "handle"};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool;
    CUdeviceptr p[5];
    size_t pitch;
    CHECK(cuMemPoolCreate(&pool, &props));
    p[0] = block(4 * KIB);
    p[1] = block(4 * MIB);
    CHECK(cuMemAllocPitch(&p[2], &pitch, 100, 10, 4));
    CHECK(cuMemAllocAsync(&p[3], 64 * KIB, NULL));
    CHECK(cuMemAllocFromPoolAsync(&p[4], 2 * MIB, pool, NULL));
    for (int i = SIM_LEAK_DEVICE; i <= SIM_LEAK_HANDLE; i++)
        if (sim_leaks((enum sim_leak_class)i))
            printf("%s %zu\n", names[i], sim_leaks((enum sim_leak_class)i));
    for (int i = 3; i < 5; i++)
        CHECK(cuMemFreeAsync(p[i], NULL));
    CHECK(cuStreamSynchronize(NULL));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(p[i]));
    CHECK(cuMemPoolDestroy(pool));
    end_gpu(0);
    for (int i = SIM_LEAK_DEVICE; i <= SIM_LEAK_HANDLE; i++)
        EXPECT(sim_leaks((enum sim_leak_class)i) == 0);
    main_context = start_gpu(0);
}

/* Prints how much device memory the driver gives for rows of each length of element. */
static void elements(void)
{
    for (unsigned element = 1; element <= 32; element++) {
        size_t before = sim_leaks(SIM_LEAK_DEVICE), pitch;
        CUdeviceptr p;
        int code = cuMemAllocPitch(&p, &pitch, 100, 10, element);
        if (code == 0) {
            printf("%u %zu\n", element, sim_leaks(SIM_LEAK_DEVICE) - before);
            CHECK(cuMemFree(p));
        }
    }
}

/* Contexts with more blocks than libzc forgets at once: each has as many in the place as the
 * budget of the rule has room for. */
static void contexts(void)
{
    for (int round = 0; round < 3; round++) {
        CUcontext context = another_context();
        size_t before = sim_leaks(SIM_LEAK_DEVICE);
        for (int i = 0; i < 130; i++)
            block(4 * KIB);
        printf("%zu\n", sim_leaks(SIM_LEAK_DEVICE) - before);
        CHECK(cuCtxDestroy(context));
        EXPECT(sim_leaks(SIM_LEAK_DEVICE) == before);
    }
    CHECK(cuCtxSetCurrent(main_context));
}

/* A kernel on device 1 writes a block of device 0, and a copy between the devices reads it. */
static void peer(void)
{
    CUcontext first, second;
    CHECK(cuInit(0));
    first = start_gpu(0);
    CUdeviceptr p = block(64 * KIB), big = block(3 * MIB);
    second = start_gpu(1);
    CHECK(cuCtxEnablePeerAccess(first, 0));
    fill(p, 7, 64 * KIB, NULL);
    fill(big, 8, 3 * MIB, NULL);
    CUdeviceptr q = block(64 * KIB);
    CHECK(cuMemcpyPeer(q, second, p, first, 64 * KIB));
    CHECK(cuMemcpyDtoH(host, q, 64 * KIB));
    EXPECT(all_are(host, 7, 64 * KIB));
    CHECK(cuMemcpyDtoH(host, big, 3 * MIB));
    EXPECT(all_are(host, 8, 3 * MIB));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuMemFree(p));
    CHECK(cuMemFree(big));
    CHECK(cuCtxSetCurrent(second));
    CHECK(cuMemFree(q));
    end_gpu(1);
}

static void *open_late(void *gate)
{
    usleep(40000);
    gate_open(gate);
    return NULL;
}

/* Synchronous copies in the legacy stream wait for what blocking streams were given before. */
static void sync_order(void)
{
    struct gate gate;
    pthread_t opener;
    CUdeviceptr p = block(2 * MIB), q = block(2 * MIB);
    CUstream s = stream(CU_STREAM_DEFAULT);
    CHECK(cuMemsetD8(p, 1, 2 * MIB));
    gate_close(&gate, s);
    fill(p, 9, 2 * MIB, s);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyDtoH(host, p, 2 * MIB));
    EXPECT(all_are(host, 9, 2 * MIB));
    CHECK(pthread_join(opener, NULL));
    gate_close(&gate, s);
    fill(p, 3, 2 * MIB, s);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyDtoD(q, p, 2 * MIB));
    CHECK(cuMemcpyDtoH(host, q, 2 * MIB));
    EXPECT(all_are(host, 3, 2 * MIB));
    CHECK(pthread_join(opener, NULL));
    gate_close(&gate, s);
    fill(p, 4, 2 * MIB, s);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    memset(host, 5, 2 * MIB);
    CHECK(cuMemcpyHtoD(p, host, 2 * MIB));
    CHECK(cuMemcpyDtoH(host, p, 2 * MIB));
    EXPECT(all_are(host, 5, 2 * MIB));
    CHECK(pthread_join(opener, NULL));
}

/* Asynchronous calls return while their stream waits for something that the program does later. */
static void no_hang(void)
{
    struct gate gate;
    void *pinned;
    CUdeviceptr p = block(256 * KIB), q = block(256 * KIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuMemAllocHost(&pinned, 256 * KIB));
    memset(pinned, 1, 256 * KIB);
    memset(host, 2, 256 * KIB);
    gate_close(&gate, s);
    CHECK(cuMemcpyHtoDAsync(p, pinned, 128 * KIB, s));
    CHECK(cuMemcpyHtoDAsync(p + 128 * KIB, host, 128 * KIB, s));
    memset(host, 9, 256 * KIB); /* The source was pageable: the program may use it again. */
    CHECK(cuMemcpyDtoDAsync(q, p, 256 * KIB, s));
    CHECK(cuMemsetD8Async(p, 6, 256 * KIB, s));
    CHECK(cuMemcpyDtoHAsync(pinned, q, 256 * KIB, s));
    EXPECT(cuStreamQuery(s) == CUDA_ERROR_NOT_READY);
    EXPECT(all_are(pinned, 1, 256 * KIB));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(s));
    EXPECT(all_are(pinned, 1, 128 * KIB));
    EXPECT(all_are((char *)pinned + 128 * KIB, 2, 128 * KIB));
    CHECK(cuMemcpyDtoH(host, p, 256 * KIB));
    EXPECT(all_are(host, 6, 256 * KIB));
}

/* A copy to pageable memory has arrived when the call returns. */
static void arrived(void)
{
    struct gate gate;
    pthread_t opener;
    CUdeviceptr p = block(64 * KIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    gate_close(&gate, s);
    fill(p, 3, 64 * KIB, s);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyDtoHAsync(host, p, 64 * KIB, s));
    EXPECT(all_are(host, 3, 64 * KIB));
    CHECK(pthread_join(opener, NULL));
}

/* cuMemFree waits for everything that the device has to do, in streams of all kinds. */
static void free_waits(void)
{
    static const size_t sizes[] = {4 * KIB, 3 * MIB};
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        pthread_t opener;
        CUdeviceptr p = block(sizes[i]);
        gate_close(&gate, s);
        fill(p, 3, sizes[i], s);
        CHECK(pthread_create(&opener, NULL, open_late, &gate));
        CHECK(cuMemFree(p));
        CHECK(cuStreamQuery(s));
        CHECK(pthread_join(opener, NULL));
    }
}

/* Large pageable sources, for which the call may wait, can be used again as well. */
static void large_source(void)
{
    struct gate gate;
    pthread_t opener;
    CUdeviceptr p = block(4 * MIB);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    memset(host, 4, 4 * MIB);
    gate_close(&gate, s);
    CHECK(pthread_create(&opener, NULL, open_late, &gate));
    CHECK(cuMemcpyHtoDAsync(p, host, 4 * MIB, s));
    memset(host, 8, 4 * MIB);
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(host, p, 4 * MIB));
    EXPECT(all_are(host, 4, 4 * MIB));
    CHECK(pthread_join(opener, NULL));
}

/* Writes 1, 2, 3... and reads them back through a pitched block and an array. */
static void rectangles(void)
{
    static unsigned char in[40][60], out[40][60];
    CUdeviceptr p;
    size_t pitch;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR desc = {60, 40, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    for (int i = 0; i < 2400; i++)
        in[i / 60][i % 60] = (unsigned char)(i * 7);
    CHECK(cuMemAllocPitch(&p, &pitch, 60, 40, 4));
    CHECK(cuArrayCreate(&array, &desc));
    CHECK(cuMemsetD2D8(p, pitch, 0xEE, 60, 40));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = in,
                        .srcPitch = 60,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = 60,
                        .Height = 40};
    CUDA_MEMCPY2D over = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = pitch,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = 60,
                          .Height = 40};
    CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = array,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = p,
                          .dstPitch = pitch,
                          .WidthInBytes = 60,
                          .Height = 40};
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = p,
                          .srcPitch = pitch,
                          .srcXInBytes = 5,
                          .srcY = 3,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .dstPitch = 60,
                          .dstXInBytes = 5,
                          .dstY = 3,
                          .WidthInBytes = 50,
                          .Height = 30};
    CHECK(cuMemcpy2D(&up));
    CHECK(cuMemcpy2DAsync(&over, NULL));
    CHECK(cuMemsetD2D32(p, pitch, 0, 15, 40));
    CHECK(cuMemcpy2D(&back));
    CHECK(cuMemcpy2DUnaligned(&down));
    for (int y = 0; y < 40; y++)
        for (int x = 0; x < 60; x++)
            EXPECT(out[y][x] == (y >= 3 && y < 33 && x >= 5 && x < 55 ? in[y][x] : 0));
    CHECK(cuMemcpyDtoA(array, 0, p, 60));
    CHECK(cuMemcpyAtoD(p + pitch, array, 0, 60));
    CHECK(cuMemcpyDtoH(out, p + pitch, 60));
    EXPECT(!memcmp(out, in, 60));
    CHECK(cuArrayDestroy(array));
    CHECK(cuMemFree(p));
}

/* A box of 8 x 6 x 4 bytes out of one of 16 x 10 x 6. */
static void boxes(void)
{
    static unsigned char in[6][10][16], out[4][6][8];
    for (int i = 0; i < 960; i++)
        (&in[0][0][0])[i] = (unsigned char)(i * 3);
    CUdeviceptr p = block(sizeof(in)), q = block(sizeof(out));
    CHECK(cuMemcpyHtoD(p, in, sizeof(in)));
    CUDA_MEMCPY3D cut = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = p,
                         .srcPitch = 16,
                         .srcHeight = 10,
                         .srcXInBytes = 2,
                         .srcY = 1,
                         .srcZ = 1,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = q,
                         .dstPitch = 8,
                         .dstHeight = 6,
                         .WidthInBytes = 8,
                         .Height = 6,
                         .Depth = 4};
    CHECK(cuMemcpy3D(&cut));
    CHECK(cuMemcpyDtoH(out, q, sizeof(out)));
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 6; y++)
            EXPECT(!memcmp(out[z][y], &in[z + 1][y + 1][2], 8));
    cut.dstMemoryType = CU_MEMORYTYPE_HOST;
    cut.dstHost = out;
    memset(out, 0, sizeof(out));
    CHECK(cuMemcpy3DAsync(&cut, NULL));
    CHECK(cuStreamSynchronize(NULL));
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 6; y++)
            EXPECT(!memcmp(out[z][y], &in[z + 1][y + 1][2], 8));
}

#if CUDA_VERSION >= 13000
/* A batch: up, from block to block behind that, and down, each of 16 pieces. */
static void batches(void)
{
    enum { PIECES = 16, BYTES = 2048 };
    static char in[PIECES * BYTES], out[PIECES * BYTES];
    CUdeviceptr p = block(sizeof(in)), q = block(sizeof(in)), to[3][PIECES], from[3][PIECES];
    size_t sizes[PIECES], first = 0;
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUmemcpyAttributes one_each[PIECES];
    size_t each[PIECES];
    for (int i = 0; i < PIECES; i++) {
        one_each[i] = attributes;
        each[i] = (size_t)i;
        sizes[i] = BYTES;
        memset(in + i * BYTES, i + 1, BYTES);
        from[0][i] = (CUdeviceptr)(in + i * BYTES);
        to[0][i] = from[1][i] = p + (CUdeviceptr)i * BYTES;
        to[1][i] = from[2][i] = q + (CUdeviceptr)(PIECES - 1 - i) * BYTES;
        to[2][i] = (CUdeviceptr)(out + i * BYTES);
    }
    for (int round = 0; round < 2; round++) {
        memset(out, 0, sizeof(out));
        for (int i = 0; i < 3; i++)
            CHECK(
                round
                    ? cuMemcpyBatchAsync(to[i], from[i], sizes, PIECES, one_each, each, PIECES, s)
                    : cuMemcpyBatchAsync(to[i], from[i], sizes, PIECES, &attributes, &first, 1, s));
        CHECK(cuStreamSynchronize(s));
        EXPECT(!memcmp(in, out, sizeof(in)));
    }
}

/* Batches of lines, and of boxes, that leave their block by a byte, or name no memory. */
static void wrong_batches(void)
{
    enum { BYTES = 70000 };
    static char plain[2 * BYTES];
    CUdeviceptr p = block(BYTES), from = (CUdeviceptr)plain, nowhere = 0;
    size_t size = BYTES - 9, first = 0;
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP box = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
                                  .extent = {.width = 100, .height = 7, .depth = 1}};
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.src.op.ptr.ptr = from;
    box.dst.op.ptr.ptr = p;
    box.dst.op.ptr.rowLength = (BYTES - 100) / 6;
    for (CUdeviceptr to = p + 8; to < p + 12; to++)
        SHOW(cuMemcpyBatchAsync(&to, &from, &size, 1, &attributes, &first, 1, s));
    SHOW(cuMemcpy3DBatchAsync(1, &box, 0, s));
    box.dst.op.ptr.rowLength++;
    SHOW(cuMemcpy3DBatchAsync(1, &box, 0, s));
    box.dst.op.ptr.ptr = 0;
    SHOW(cuMemcpy3DBatchAsync(1, &box, 0, s));
    SHOW(cuMemcpyBatchAsync(&p, &nowhere, &size, 1, &attributes, &first, 1, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemFree(p));
}
#else
static void batches(void)
{
}

static void wrong_batches(void)
{
}
#endif

/* Copies between a small and a large block, of which a policy may convert one. */
static void mixed(void)
{
    CUdeviceptr small = block(4 * KIB), large = block(2 * MIB);
    CUstream s = stream(CU_STREAM_DEFAULT);
    for (int i = 1; i <= 50; i++) {
        fill(small, i, 4 * KIB, s);
        CHECK(cuMemcpyDtoDAsync(large + MIB, small, 4 * KIB, s));
        CHECK(cuMemcpyDtoDAsync(small, large + MIB, 2 * KIB, s));
        CHECK(cuMemcpyDtoHAsync(host, large + MIB, 4 * KIB, s));
        EXPECT(all_are(host, i, 4 * KIB));
        CHECK(cuMemcpy((CUdeviceptr)host, small, 4 * KIB));
        EXPECT(all_are(host, i, 4 * KIB));
    }
}

static atomic_int held; /* The first thread's stream waits. */
static struct gate per_thread_gate;

static void *hold_own_stream(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    gate_close(&per_thread_gate, CU_STREAM_PER_THREAD);
    atomic_store(&held, 1);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

/* The default stream of one thread does not wait for that of another. */
static void per_thread(void)
{
    CUcontext context;
    pthread_t holder;
    CUdeviceptr p = block(64 * KIB);
    CHECK(cuCtxGetCurrent(&context));
    CHECK(pthread_create(&holder, NULL, hold_own_stream, context));
    while (!atomic_load(&held))
        usleep(1000);
    memset(host, 1, 64 * KIB);
    CHECK(cuMemcpyHtoDAsync(p, host, 64 * KIB, CU_STREAM_PER_THREAD));
    CHECK(cuMemcpyDtoHAsync(host + MIB, p, 64 * KIB, CU_STREAM_PER_THREAD));
    EXPECT(all_are(host + MIB, 1, 64 * KIB));
    fill(p, 2, 64 * KIB, CU_STREAM_PER_THREAD);
    CHECK(cuMemcpyDtoHAsync(host, p, 64 * KIB, CU_STREAM_PER_THREAD));
    EXPECT(all_are(host, 2, 64 * KIB));
    gate_open(&per_thread_gate);
    CHECK(pthread_join(holder, NULL));
}

static int assert_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args, (void)launch;
    return CUDA_ERROR_ASSERT;
}

/* Results of calls that name blocks, one of them requested behind the launch, once a kernel has
 * failed. */
static void failed_kernel(void)
{
    CUfunction failing = load_kernel("failing", assert_grid, 0, NULL);
    CUdeviceptr p = block(2 * MIB), fresh;
    struct gate gate;
    CHECK(cuMemsetD8(p, 1, 2 * MIB));
    gate_close(&gate, NULL);
    CHECK(cuLaunchKernel(failing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    fresh = block(2 * MIB);
    gate_open(&gate);
    SHOW(cuCtxSynchronize());
    SHOW(cuMemcpyDtoH(host, p, 2 * MIB));
    SHOW(cuMemcpyHtoDAsync(p, host, 2 * MIB, NULL));
    SHOW(cuMemsetD8(p, 1, 2 * MIB));
    SHOW(cuMemcpyHtoD(fresh, host, 2 * MIB));
    SHOW(cuLaunchKernel(failing, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SHOW(cuStreamWriteValue32(NULL, p, 1, 0));
    SHOW(cuMemFree(p));
}

/* A kernel writes where nothing is, and the call that the second argument names is the first to
 * tell. */
static const char *first_to_tell;
static void stray_kernel(void)
{
    CUdeviceptr p = block(2 * MIB), q = block(3 * MIB);
    void *pinned;
    CUfunction again = load_kernel("failing", assert_grid, 0, NULL);
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    fill(1 << 16, 1, 8, NULL);
    wait_for_error();
    if (!strcmp(first_to_tell, "launch"))
        SHOW(cuLaunchKernel(again, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    else if (!strcmp(first_to_tell, "free"))
        SHOW(cuMemFree(q));
    else if (!strcmp(first_to_tell, "host"))
        SHOW(cuMemFreeHost(pinned));
    SHOW(cuMemcpyDtoH(host, p, 8));
    SHOW(cuCtxSynchronize());
}

/* A kernel reach(pointer, before, behind): reads a byte so far before a block and one so far behind
 * its first byte. */
static int reach_grid(void *const *args, const struct sim_launch *launch)
{
    (void)launch;
    CUdeviceptr at = *(CUdeviceptr *)args[0];
    volatile const char *before = sim_gpu_pointer(at - *(size_t *)args[1]);
    volatile const char *behind = sim_gpu_pointer(at + *(size_t *)args[2]);
    if (!before || !behind)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    (void)*before, (void)*behind;
    return 0;
}

static void launch_reach(CUdeviceptr p, size_t before, size_t behind)
{
    static const size_t params[] = {sizeof(CUdeviceptr), sizeof(size_t), sizeof(size_t)};
    CUfunction reach = load_kernel("reach", reach_grid, 3, params);
    void *args[] = {&p, &before, &behind};
    CHECK(cuLaunchKernel(reach, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    SHOW(cuCtxSynchronize());
}

/* Kernels that read `margin` bytes too far from a block, which is alone or between others. */
static void read_beside(size_t size, size_t margin, bool alone)
{
    CUdeviceptr p[3];
    for (int k = alone; k < 3 - alone; k++)
        p[k] = block(size);
    launch_reach(p[1], margin, size + margin - 1);
    for (int k = alone; k < 3 - alone; k++)
        CHECK(cuMemFree(p[k]));
}

static void overreads(void)
{
    static const size_t sizes[] = {1 * MIB + 512, 2 * MIB, 3 * MIB + 4096, 8 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        read_beside(sizes[i], 64 << 10, false);
}

/* The same of blocks that do not fill their pieces of 2 MiB. */
static void overreads_slack(void)
{
    static const size_t sizes[] = {1 * MIB + 512, 2 * MIB + 8, 3 * MIB + 4096};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        read_beside(sizes[i], 64 << 10, true);
}

/* Blocks that are alone, by a sixteenth of their size. */
static void overreads_alone(void)
{
    static const size_t sizes[] = {2 * MIB, 4 * MIB - 4096, 8 * MIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        read_beside(sizes[i], 64 << 10, true);
}

static void overreads_small(void)
{
    read_beside(64 << 10, 4096, true);
    read_beside(1000 << 10, 60 << 10, true);
}

/* A kernel that reads as far as a block's last piece goes, and one that reads before it. */
static void overreads_one_side(void)
{
    CUdeviceptr p = block(3 * MIB);
    launch_reach(p, 0, 4 * MIB - 1);
    launch_reach(p, 512, 0);
}

/* Three requests from a pool, and what the program believes of the first one's memory. */
static void use_pool(CUmemoryPool pool, bool by_cpu)
{
    static char seen[MIB];
    CUdeviceptr p[3] = {0};
    int managed = -1;
    for (int i = 0; i < 3; i++)
        SHOW(cuMemAllocFromPoolAsync(&p[i], 3 * MIB, pool, NULL));
    CHECK(cuStreamSynchronize(NULL));
    SHOW(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p[0]));
    printf("managed %d\n", managed);
    if (by_cpu)
        memset((void *)p[0], 5, MIB);
    else
        CHECK(cuMemsetD8(p[0], 5, MIB));
    CHECK(cuMemcpyDtoH(seen, p[0], MIB));
    EXPECT(all_are(seen, 5, MIB));
    for (int i = 0; i < 3; i++)
        if (p[i])
            CHECK(cuMemFreeAsync(p[i], NULL));
    CHECK(cuStreamSynchronize(NULL));
}

/* Pages can be sent and given up in managed memory alone, whatever the device block lies in. */
static void prefetch_batches(void)
{
#if CUDA_VERSION >= 13000
    CUdeviceptr managed, device;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    size_t bytes[] = {2 * MIB, 2 * MIB}, first = 0;
    CHECK(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAlloc(&device, 2 * MIB));
    CUdeviceptr right[] = {managed, managed}, wrong[] = {managed, device};
    SHOW(cuMemPrefetchBatchAsync(right, bytes, 2, &here, &first, 1, 0, NULL));
    SHOW(cuMemPrefetchBatchAsync(wrong, bytes, 2, &here, &first, 1, 0, NULL));
    SHOW(cuMemDiscardAndPrefetchBatchAsync(right, bytes, 1, &here, &first, 1, 0, NULL));
    SHOW(cuMemDiscardAndPrefetchBatchAsync(wrong, bytes, 2, &here, &first, 1, 0, NULL));
    SHOW(cuMemDiscardBatchAsync(right, bytes, 1, 0, NULL));
    SHOW(cuMemDiscardBatchAsync(wrong, bytes, 2, 0, NULL));
    CHECK(cuMemFree(device));
    CHECK(cuMemFree(managed));
#endif
}

/* Pools of a limited size, and of other memory than a device's. */
static void special_pools(void)
{
#if CUDA_VERSION >= 13000
    const CUmemPoolProps limited = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .maxSize = 8 * MIB};
    const CUmemPoolProps managed = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_NONE}};
    CUmemLocation nowhere = managed.location;
    CUmemoryPool pool;
    CHECK(cuMemPoolCreate(&pool, &limited));
    use_pool(pool, false);
    CHECK(cuMemPoolDestroy(pool));
    CHECK(cuMemPoolCreate(&pool, &managed));
    use_pool(pool, true);
    CHECK(cuMemPoolDestroy(pool));
    CHECK(cuMemGetDefaultMemPool(&pool, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED));
    use_pool(pool, true);
    CHECK(cuMemGetMemPool(&pool, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED));
    use_pool(pool, true);
#endif
}

static CUdeviceptr of_host_function, pooled_of_host_function;
static void *registered_of_host_function;

/* CUDA refuses its calls there (CUDA driver API, cuLaunchHostFunc); libc does not. */
static void CUDA_CB calls(void *data)
{
    CUdeviceptr p = 0;
    void *memory = malloc(4 * MIB);
    memset(memory, 1, 4 * MIB);
    SHOW(cuMemFree(of_host_function));
    SHOW(cuMemFreeAsync(pooled_of_host_function, NULL));
    SHOW(cuMemFreeHost(registered_of_host_function));
    SHOW(cuMemAlloc(&p, 4 * MIB));
    SHOW(cuMemAllocManaged(&p, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocAsync(&p, 4 * MIB, NULL));
    SHOW(cuMemAllocHost(&memory, 4 * MIB));
    SHOW(cuMemHostRegister(memory, 4 * MIB, 0));
    SHOW(cuMemcpyDtoH(host, of_host_function, 4 * MIB));
    SHOW(cuMemcpyHtoDAsync(of_host_function, data, 4 * MIB, NULL));
    SHOW(cuMemsetD8(of_host_function, 3, 4 * MIB));
    SHOW(cuStreamSynchronize(NULL));
    SHOW(cuCtxSynchronize());
    EXPECT(p == 0);
    free(memory);
}

/* Calls that a host function may not make leave every block whole. */
static void host_function(void)
{
    void *copied = memset(malloc(4 * MIB), 2, 4 * MIB);
    of_host_function = block(4 * MIB);
    CHECK(cuMemAllocAsync(&pooled_of_host_function, 4 * MIB, NULL));
    CHECK(cuMemAllocHost(&registered_of_host_function, 4 * MIB));
    CHECK(cuMemsetD8(of_host_function, 7, 4 * MIB));
    CHECK(cuMemsetD8(pooled_of_host_function, 8, 4 * MIB));
    memset(registered_of_host_function, 9, 4 * MIB);
    CHECK(cuLaunchHostFunc(NULL, calls, copied));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpyDtoH(host, of_host_function, 4 * MIB));
    EXPECT(all_are(host, 7, 4 * MIB));
    CHECK(cuMemcpyDtoH(host, pooled_of_host_function, 4 * MIB));
    EXPECT(all_are(host, 8, 4 * MIB));
    EXPECT(all_are(registered_of_host_function, 9, 4 * MIB));
    CHECK(cuMemcpyHtoD(of_host_function, copied, 4 * MIB));
    free(copied);
    CHECK(cuMemFree(of_host_function));
    CHECK(cuMemFreeAsync(pooled_of_host_function, NULL));
    CHECK(cuMemFreeHost(registered_of_host_function));
}

/* Memory that the driver does not unmap is still the program's, with its bytes: two parts of a
 * block of 16 MiB, which `commit = lazy` maps one by one. */
static void refused_free(void)
{
    for (unsigned nth = 1; nth <= 2; nth++) {
        CUdeviceptr p = block(16 * MIB);
        CHECK(cuMemsetD8(p + 12 * MIB, 7, 4 * MIB));
        CHECK(cuMemsetD8(p, 8, 4 * MIB));
        sim_fail("cuMemUnmap", CUDA_ERROR_UNKNOWN, nth);
        SHOW(cuMemFree(p));
        sim_fail("cuMemUnmap", 0, 0);
        CHECK(cuMemcpyDtoH(host, p + 12 * MIB, 4 * MIB));
        EXPECT(all_are(host, 7, 4 * MIB));
        CHECK(cuMemcpyDtoH(host, p, 4 * MIB));
        EXPECT(all_are(host, 8, 4 * MIB));
        CHECK(cuMemFree(p));
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"kinds", kinds},
                                          {"elements", elements},
                                          {"contexts", contexts},
                                          {"peer", peer},
                                          {"sync_order", sync_order},
                                          {"no_hang", no_hang},
                                          {"arrived", arrived},
                                          {"large_source", large_source},
                                          {"boxes", boxes},
                                          {"mixed", mixed},
                                          {"rectangles", rectangles},
                                          {"per_thread", per_thread},
                                          {"free_waits", free_waits},
                                          {"batches", batches},
                                          {"wrong_batches", wrong_batches},
                                          {"failed_kernel", failed_kernel},
                                          {"stray_kernel", stray_kernel},
                                          {"overreads", overreads},
                                          {"overreads_slack", overreads_slack},
                                          {"host_function", host_function},
                                          {"overreads_alone", overreads_alone},
                                          {"overreads_small", overreads_small},
                                          {"overreads_one_side", overreads_one_side},
                                          {"refused_free", refused_free},
                                          {"special_pools", special_pools},
                                          {"prefetch_batches", prefetch_batches}};
    first_to_tell = argc > 2 ? argv[2] : "";
    main_context = start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    CHECK(cuCtxSetCurrent(main_context));
    end_gpu(0);
    return status;
}
