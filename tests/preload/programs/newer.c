/* SPDX-License-Identifier: MIT */
/* Calls of CUDA 13.1 to 13.5: what each of them does is the same in all memory. */
#include <pthread.h>

#include "shared_scene.h"
#include "sim/fabric.h"

CUresult CUDAAPI cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t n,
                                             CUmemcpyAttributes *attributes, CUstream stream);
CUresult CUDAAPI cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                               CUstream stream);
CUresult CUDAAPI cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data, unsigned int mode);
CUresult CUDAAPI cuFabricCpyBatchAsync(size_t count, CUDA_FABRIC_COPY_BATCH_OP *ops,
                                       unsigned long long flags, CUstream stream);

#define STREAM CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
#define DURING_API_CALL CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
#define ANY CU_MEMCPY_SRC_ACCESS_ORDER_ANY

CUresult CUDAAPI cuMemGetLocationInfo(CUdeviceptr ptr, size_t n, size_t summary, size_t sampling,
                                      CUmemLocation *locations);
CUresult CUDAAPI cuLogicalEndpointBindAddr(CUlogicalEndpointId id, CUdevice device,
                                           cuuint64_t offset, void *ptr, cuuint64_t n,
                                           unsigned long long flags);

static unsigned char plain[SIZE]; /* Memory that no rule can place. */
static CUstream stream;

static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t n, int order)
{
    CUmemcpyAttributes how = {.srcAccessOrder = (CUmemcpySrcAccessOrder)order};
    return cuMemcpyWithAttributesAsync(dst, src, n, &how, stream);
}

static void write_five(void *h)
{
    memset(h, 5, SIZE);
}

/* The stream goes on while the program is in a call: the gate opens by itself. */
static void *open_later(void *gate)
{
    usleep(100000);
    gate_open(gate);
    return NULL;
}

static pthread_t hold(struct gate *gate)
{
    pthread_t thread;
    gate_close(gate, stream);
    CHECK(pthread_create(&thread, NULL, open_later, gate));
    return thread;
}

/* To a device block from the host block that it was copied from before, and from another block. */
static void to_device(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE), other = device_block(SIZE);
    for (int order = STREAM; order <= ANY; order++) {
        memset(h, 1, SIZE);
        CHECK(cuMemcpyHtoD(d, h, SIZE));
        memset(h, 2, SIZE);
        CHECK(cuMemcpyDtoH(plain, d, SIZE));
        EXPECT(all_are(plain, 1, SIZE));
        CHECK(copy(d, (CUdeviceptr)h, SIZE, order));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(plain, d, SIZE));
        EXPECT(all_are(plain, 2, SIZE) && all_are(h, 2, SIZE));
        CHECK(cuMemsetD8Async(other, 7, SIZE, stream));
        CHECK(copy(d + UNIT, other, UNIT, order));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(plain, d, SIZE));
        EXPECT(all_are(plain, 2, UNIT) && all_are(plain + UNIT, 7, UNIT));
        EXPECT(all_are(plain + 2 * UNIT, 2, UNIT) && all_are(h, 2, SIZE));
    }
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(other));
    free(h);
}

/* Bytes copied to pageable memory behind a busy stream are there when the call returns. */
static void to_pageable(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    struct gate gate;
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    memset(h, 9, SIZE);
    pthread_t thread = hold(&gate);
    CHECK(copy((CUdeviceptr)h, d, SIZE, STREAM));
    EXPECT(all_are(h, 1, SIZE));
    CHECK(pthread_join(thread, NULL));
    CHECK(cuMemFree(d));
    free(h);
}

/* Pinned memory may be written again when a call returns that says so; with the order of the
 * stream a source is read no earlier than what is before writes it. */
static void source(void)
{
    unsigned char *h = host_block(SIZE), *pinned;
    CUdeviceptr d = device_block(SIZE);
    struct gate gate;
    CHECK(cuMemAllocHost((void **)&pinned, SIZE));
    memset(pinned, 1, SIZE);
    pthread_t thread = hold(&gate);
    CHECK(copy(d, (CUdeviceptr)pinned, SIZE, DURING_API_CALL));
    memset(pinned, 9, SIZE);
    CHECK(pthread_join(thread, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 1, SIZE));
    memset(h, 2, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    for (size_t n = 4096; n <= SIZE; n = n < SIZE ? SIZE : n + 1) {
        memset(h, 2, SIZE);
        thread = hold(&gate);
        CHECK(cuLaunchHostFunc(stream, write_five, h));
        CHECK(copy(d, (CUdeviceptr)h, n, STREAM));
        CHECK(pthread_join(thread, NULL));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemcpyDtoH(plain, d, SIZE));
        EXPECT(all_are(plain, 5, n));
    }
    CHECK(cuMemFree(d));
    CHECK(cuMemFreeHost(pinned));
    free(h);
}

/* Boxes: 100 rows of 1000 bytes, at steps of their own on both sides; and one side an array. */
static void boxes(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {1000, 50, 2}, .srcAccessOrder = STREAM};
    CUarray array;
    paint(h, SIZE, 1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    paint(h, SIZE, 2);
    op.src = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                 .op.ptr = {(CUdeviceptr)h + 64, 2048, 60, {0}}};
    op.dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                 .op.ptr = {d + 4096, 4096, 0, {0}}};
    CHECK(cuMemcpy3DWithAttributesAsync(&op, 0, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    for (size_t z = 0; z < 2; z++)
        for (size_t y = 0; y < 50; y++) {
            const unsigned char *from = h + 64 + (z * 60 + y) * 2048;
            EXPECT(!memcmp(plain + 4096 + (z * 50 + y) * 4096, from, 1000));
        }
    EXPECT(plain[4096 + 1000] == pattern(4096 + 1000, 1) && shows(h, SIZE, 2));
    const CUDA_ARRAY_DESCRIPTOR desc = {256, 8, CU_AD_FORMAT_FLOAT, 2};
    CHECK(cuArrayCreate(&array, &desc));
    op.extent = (CUextent3D){256, 8, 1};
    op.dst =
        (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {0, 0, 0}}};
    op.src.op.ptr.ptr = d;
    op.src.op.ptr.rowLength = op.src.op.ptr.layerHeight = 0;
    CHECK(cuMemcpy3DWithAttributesAsync(&op, 0, stream));
    op.src = op.dst;
    op.dst = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                 .op.ptr = {d + UNIT, 0, 0, {0}}};
    CHECK(cuMemcpy3DWithAttributesAsync(&op, 0, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain + UNIT, d + UNIT, 16384));
    EXPECT(!memcmp(plain, plain + UNIT, 16384));
    CHECK(cuArrayDestroy(array));
    CHECK(cuMemFree(d));
    free(h);
}

/* Of the same block, in one direction after the other. */
static void fabric(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE), e = device_block(SIZE);
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemsetD8Async(e, 3, SIZE, stream));
    CUDA_FABRIC_COPY_BATCH_OP ops[3] = {{.size = UNIT}, {.size = 0}, {.size = 4096}};
    for (int i = 0; i < 3; i++)
        ops[i].src.type = ops[i].dst.type = CU_FABRIC_COPY_OPERAND_TYPE_POINTER;
    ops[0].src.op.ptr.ptr = ops[1].src.op.ptr.ptr = e;
    ops[0].dst.op.ptr.ptr = ops[1].dst.op.ptr.ptr = d + UNIT;
    ops[2].src.op.ptr.ptr = d;
    ops[2].dst.op.ptr.ptr = e;
    CHECK(cuFabricCpyBatchAsync(3, ops, 0, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 1, UNIT) && all_are(plain + UNIT, 3, UNIT));
    CHECK(cuMemcpyDtoH(plain, e, 8192));
    EXPECT(all_are(plain, 1, 4096) && all_are(plain + 4096, 3, 4096) && all_are(h, 1, SIZE));
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(e));
    free(h);
}

/* A host function may wait for what the program does next. */
static void host_function(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    struct gate gate = {0};
    CUstream other;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuLaunchHostFunc_v2(stream, gate_wait, &gate, 1));
    CHECK(cuMemsetD8Async(d, 7, SIZE, other));
    CHECK(cuStreamSynchronize(other));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 7, SIZE) && all_are(h, 1, SIZE));
    CHECK(cuStreamDestroy(other));
    CHECK(cuMemFree(d));
    free(h);
}

/* The location can be asked of managed and pageable memory alone. */
static void locations(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE), managed;
    CUmemLocation at[3] = {{0}};
    int domain = 7;
    CHECK(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    SHOW(cuMemGetLocationInfo(d, SIZE, UNIT, 0, at));
    SHOW(cuMemGetLocationInfo(managed, SIZE, UNIT, 0, at));
    SHOW(cuMemGetLocationInfo((CUdeviceptr)h, SIZE, 0, 0, at));
    SHOW(cuMemGetLocationInfo((CUdeviceptr)h, SIZE, UNIT, UNIT + 1, at));
    SHOW(cuMemGetLocationInfo((CUdeviceptr)h, SIZE, UNIT + 1, UNIT, at));
    for (int i = 0; i < 3; i++)
        printf("%d %d\n", (int)at[i].type, at[i].id);
    SHOW(cuPointerGetAttribute(&domain, CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL, d));
    printf("%d\n", domain);
    CHECK(cuMemFree(managed));
    CHECK(cuMemFree(d));
    free(h);
}

/* Lends a block to objects of several devices. */
static void lends(void)
{
    CUdeviceptr d = device_block(SIZE);
    SHOW(cuMulticastBindAddr(0, 0, d, SIZE, 0));
    SHOW(cuLogicalEndpointBindAddr(0, 0, 0, (void *)d, SIZE, 0));
    CHECK(cuMemFree(d));
}

/* Into a block that nothing has touched before. */
static void unpack(void)
{
    CUdeviceptr from = device_block(SIZE), to = device_block(SIZE), count = device_block(SIZE);
    cuuint32_t written = 0;
    CHECK(cuMemsetD8Async(from, 3, SIZE, stream));
    CUmemDecompressParams p = {.srcNumBytes = UNIT,
                               .dstActBytes = (cuuint32_t *)count,
                               .src = (const void *)from,
                               .dst = (void *)(to + UNIT),
                               .algo = CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE};
    CHECK(cuMemBatchDecompressAsync(&p, 1, 0, NULL, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(plain, to + UNIT, UNIT));
    CHECK(cuMemcpyDtoH(&written, count, sizeof(written)));
    EXPECT(all_are(plain, 3, UNIT) && written == UNIT);
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(to));
    CHECK(cuMemFree(count));
}

/* Calls that the driver refuses in any memory. */
static void malformed(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr d = device_block(SIZE);
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {1000, 1, 1}, .srcAccessOrder = STREAM};
    op.src = (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                 .op.ptr = {(CUdeviceptr)h, 0, 0, {0}}};
    op.dst = op.src;
    op.dst.op.ptr.ptr = d;
    memset(h, 1, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    memset(h, 2, SIZE);
    SHOW(copy(d, (CUdeviceptr)h, SIZE, 0));
    SHOW(copy(d, (CUdeviceptr)h, SIZE, 4));
    SHOW(cuMemcpyWithAttributesAsync(d, (CUdeviceptr)h, SIZE, NULL, stream));
    SHOW(copy(d, (CUdeviceptr)h, SIZE + 1, STREAM));
    SHOW(cuMemcpy3DWithAttributesAsync(NULL, 0, stream));
    SHOW(cuMemcpy3DWithAttributesAsync(&op, 1, stream));
    op.srcAccessOrder = (CUmemcpySrcAccessOrder)0;
    SHOW(cuMemcpy3DWithAttributesAsync(&op, 0, stream));
    op.srcAccessOrder = STREAM;
    op.dst.type = (CUmemcpy3DOperandType)7;
    SHOW(cuMemcpy3DWithAttributesAsync(&op, 0, stream));
    CHECK(cuMemcpyDtoH(plain, d, SIZE));
    EXPECT(all_are(plain, 1, SIZE));
    CHECK(cuMemFree(d));
    free(h);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"to_device", to_device}, {"to_pageable", to_pageable}, {"source", source},
        {"boxes", boxes},         {"fabric", fabric},           {"host_function", host_function},
        {"malformed", malformed}, {"locations", locations},     {"lends", lends},
        {"unpack", unpack},
    };
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    int status = RUN_SCENARIO(all, argc, argv);
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
    return status;
}
