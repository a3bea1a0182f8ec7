/* SPDX-License-Identifier: MIT */
/* Asks everything that a program can ask about blocks of each kind of device request, and prints
 * the answers with addresses made relative: the output must not depend on where the blocks really
 * are. */
#include "ask.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define NOBODYS ((CUdeviceptr)0x1234560000) /* An address that no driver has given out. */

static char host[4 * MIB];

static void show_refusals(CUdeviceptr at, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemPoolPtrExportData export;
    CUdeviceptr p;
    unsigned flags;
    int value = 0;
    SHOW(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, FIRST_DEVICE));
    SHOW(PREFETCH(at, bytes));
    SHOW(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, bytes));
    SHOW(cuStreamAttachMemAsync(stream, at, 0, CU_MEM_ATTACH_SINGLE));
    SHOW(cuMemHostGetDevicePointer(&p, (void *)at, 0));
    SHOW(cuMemHostGetFlags(&flags, (void *)at));
    SHOW(cuMemHostRegister((void *)at, bytes, 0));
    SHOW(cuMemHostUnregister((void *)at));
    SHOW(cuMemFreeHost((void *)at));
    SHOW(cuMemRetainAllocationHandle(&handle, (void *)at));
    SHOW(cuMemPoolExportPointer(&export, at));
    SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SHOW(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    CUipcMemHandle ipc;
    printf("ipc export -> %d\n", (int)cuIpcGetMemHandle(&ipc, at));
}

/* Copies and sets in a stream that was destroyed, and without a current context. */
static void show_without_stream_or_context(CUdeviceptr at)
{
    CUstream gone;
    CUdeviceptr p;
    CHECK(cuStreamCreate(&gone, 0));
    CHECK(cuStreamDestroy(gone));
    SHOW(cuMemcpyHtoDAsync(at, host, 10, gone));
    SHOW(cuMemcpyDtoHAsync(host, at, 10, gone));
    SHOW(cuMemsetD8Async(at, 7, 10, gone));
    SHOW(cuMemAllocAsync(&p, 3 * MIB, gone));
    CHECK(cuCtxSetCurrent(NULL));
    SHOW(cuMemsetD8(at, 7, 1));
    SHOW(cuMemcpyDtoH(host, at, 1));
    CHECK(cuCtxSetCurrent(context));
}

/* Copies between the block and a mapping of the program's, first without access, then to read. */
static void show_rights_of_another(CUdeviceptr at)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc reads = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr other;
    CHECK(cuCtxGetDevice(&prop.location.id));
    reads.location.id = prop.location.id;
    CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CHECK(cuMemAddressReserve(&other, 2 * MIB, 0, 0, 0));
    CHECK(cuMemMap(other, 2 * MIB, 0, handle, 0));
    for (int may_read = 0; may_read < 2; may_read++) {
        SHOW(cuMemcpyDtoD(at, other, 16));
        SHOW(cuMemcpyDtoDAsync(other, at, 16, stream));
        SHOW(cuMemcpy(other, at, 16));
        if (!may_read)
            CHECK(cuMemSetAccess(other, 2 * MIB, &reads, 1));
    }
    CHECK(cuCtxSynchronize());
    CHECK(cuMemUnmap(other, 2 * MIB));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(other, 2 * MIB));
}

/* Copies between the block and one of managed memory, which ends before they do. */
static void show_bounds_of_another(CUdeviceptr at)
{
    CUdeviceptr other;
    CHECK(cuMemAllocManaged(&other, 4 * KIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemcpyDtoD(at, other, 4 * KIB + 1));
    SHOW(cuMemcpyDtoDAsync(other + 1, at, 4 * KIB, stream));
    CHECK(cuMemFree(other));
}

/* Copies and sets that end at the block's end, and one byte behind it. */
static void show_bounds(CUdeviceptr at, size_t bytes)
{
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = bytes / 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = at,
                          .dstPitch = bytes / 2,
                          .WidthInBytes = bytes / 2,
                          .Height = 2};
    memset(host, 5, sizeof(host));
    SHOW(cuMemcpyHtoD(at, host, bytes));
    SHOW(cuMemcpyHtoD(at, host, bytes + 1));
    SHOW(cuMemcpyHtoD(at + 1, host, bytes));
    SHOW(cuMemcpyHtoDAsync(at, host, bytes + 1, stream));
    SHOW(cuMemcpyDtoH(host, at, bytes + 1));
    SHOW(cuMemcpyDtoHAsync(host, at, bytes + 1, stream));
    SHOW(cuMemcpy(at, (CUdeviceptr)host, bytes + 1));
    SHOW(cuMemcpyDtoD(at, at + bytes / 2, bytes / 2 + 1));
    SHOW(cuMemsetD8(at, 7, bytes));
    SHOW(cuMemsetD8(at, 7, bytes + 1));
    SHOW(cuMemsetD8Async(at + bytes - 1, 7, 2, stream));
    SHOW(cuMemsetD32(at, 7, bytes / 4 + 1));
    SHOW(cuMemsetD32(at, 7, SIZE_MAX / 4 + 2)); /* More than numbers can tell. */
    SHOW(cuMemsetD2D8(at, SIZE_MAX / 4 + 1, 7, 16, 5));
    SHOW(cuMemsetD2D32(at, SIZE_MAX / 4 + 2, 7, 1, 5));
    SHOW(cuMemsetD32(at + 1, 7, 1));
    SHOW(cuMemsetD2D16(at, 6, 7, 4, 2));
    SHOW(cuMemcpy2D(&rows));
    rows.Height = 3;
    SHOW(cuMemcpy2D(&rows));
    SHOW(cuMemcpy3D(&(CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                                     .srcHost = host,
                                     .srcPitch = 8,
                                     .srcHeight = 1,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = at,
                                     .dstPitch = 8,
                                     .dstHeight = 1,
                                     .WidthInBytes = 9,
                                     .Height = 1,
                                     .Depth = 2}));
    SHOW(cuMemcpyHtoD(at, host, 0));
    SHOW(cuMemcpyHtoD(at, NULL, 10));
    SHOW(cuMemcpyDtoH(NULL, at, 10));
    SHOW(cuMemcpyHtoDAsync(at, NULL, 10, stream));
    SHOW(cuMemcpyDtoHAsync(NULL, at, 10, stream));
    SHOW(cuMemcpy(at, 0, 10));
    SHOW(cuMemcpy(0, at, 10));
    SHOW(cuMemcpyDtoD(at, 0, 10));
    SHOW(cuMemcpyDtoD(at, NOBODYS, 10));
    SHOW(cuMemcpyDtoDAsync(NOBODYS, at, 10, stream));
    rows.Height = 1;
    rows.srcHost = NULL;
    SHOW(cuMemcpy2D(&rows));
    show_without_stream_or_context(at);
    SHOW(cuStreamSynchronize(stream));
    SHOW(cuMemcpyDtoH(host, at, bytes));
    printf("first %d last %d\n", host[0], host[bytes - 1]);
}

/* A batch of two copies, of which one reads from nowhere. */
static void show_batch(CUdeviceptr at)
{
#if CUDA_VERSION >= 13000
    CUdeviceptr to[] = {at, at + 16}, from[] = {(CUdeviceptr)host, 0};
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t sizes[] = {16, 16}, first = 0;
    SHOW(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, stream));
#else
    (void)at;
#endif
}

/* The same for the pinned host block at the other side. */
static void show_pinned_bounds(CUdeviceptr at, size_t bytes)
{
    char *small;
    CHECK(cuMemAllocHost((void **)&small, bytes - 1));
    memset(small, 6, bytes - 1);
    SHOW(cuMemcpyHtoD(at, small, bytes - 1));
    SHOW(cuMemcpyHtoD(at, small, bytes));
    SHOW(cuMemcpyHtoDAsync(at, small + 1, bytes - 1, stream));
    SHOW(cuMemcpyDtoH(small + 1, at, bytes - 1));
    SHOW(cuMemFreeHost(small));
}

/* Access of another device than the block's, if there is one. */
static void show_access_elsewhere(CUdeviceptr at)
{
    int devices, own, flags = 77;
    CUcontext other;
    CHECK(cuDeviceGetCount(&devices));
    CHECK(cuCtxGetDevice(&own));
    if (devices < 2)
        return;
    CHECK(cuDevicePrimaryCtxRetain(&other, 1 - own));
    CHECK(cuCtxPushCurrent(other));
    SHOW(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, at));
    printf("another device may: %d\n", flags);
    CHECK(cuCtxPopCurrent(&other));
}

static void show_after_free(CUdeviceptr at)
{
    CUdeviceptr base;
    size_t size;
    unsigned type = 0;
    SHOW(cuMemFree(at));
    SHOW(cuMemFreeAsync(at, stream));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    SHOW(cuMemGetAddressRange(&base, &size, at));
    SHOW(cuMemcpyHtoD(at, host, 16));
    SHOW(cuMemsetD8(at, 0, 16));
    show_many_attributes(at, at);
}

static void show_block(const char *name, CUdeviceptr at, size_t bytes, bool async)
{
    printf("== %s of %zu bytes, aligned %d\n", name, bytes, at % 256 == 0);
    const CUdeviceptr places[] = {at, at + bytes / 3, at + bytes - 1};
    for (int i = 0; i < 3; i++) {
        printf("at %+lld\n", (long long)(places[i] - at));
        show_attributes(places[i]);
        show_pointer_attributes(places[i], at);
        show_many_attributes(places[i], at);
        show_range(places[i], at);
    }
    show_access_elsewhere(at);
    show_refusals(at, bytes);
    show_bounds(at, bytes);
    show_bounds_of_another(at);
    show_rights_of_another(at);
    show_batch(at);
    show_pinned_bounds(at, bytes);
    SHOW(cuMemFree(at + 1));
    SHOW(cuMemFree(at + bytes / 2));
    SHOW(cuMemFreeAsync(at + 256, stream));
    if (async)
        SHOW(cuMemFreeAsync(at, stream));
    else
        SHOW(cuMemFree(at));
    SHOW(cuStreamSynchronize(stream));
    show_after_free(at);
}

static void show_odd_requests(void)
{
    CUdeviceptr p = 0;
    size_t pitch = 0;
    void *zero = host;
    printf("== odd requests\n");
    SHOW(cuMemAlloc(&p, 0));
    SHOW(cuMemAlloc(NULL, 16));
    SHOW(cuMemAlloc(&p, (size_t)1 << 41));
    SHOW(cuMemAlloc(&p, SIZE_MAX));
    for (size_t n = SIZE_MAX - 8 * MIB; n < SIZE_MAX - MIB; n += MIB) {
        SHOW(cuMemAlloc(&p, n));
        SHOW(cuMemAllocAsync(&p, n, stream));
    }
    SHOW(cuMemAllocAsync(&p, 0, stream));
    SHOW(cuMemAllocAsync(&p, (size_t)1 << 41, stream));
    SHOW(cuMemAllocPitch(&p, &pitch, 0, 4, 4));
    SHOW(cuMemAllocPitch(&p, &pitch, 4, 0, 4));
    SHOW(cuMemAllocPitch(&p, &pitch, 4, 4, 3));
    SHOW(cuMemAllocPitch(&p, &pitch, SIZE_MAX / 2, 4, 4));
    SHOW(cuMemFree(0));
    SHOW(cuMemFreeAsync(0, stream));
    SHOW(cuMemFree((CUdeviceptr)host));
    SHOW(cuMemFree(NOBODYS));
    SHOW(cuMemFreeHost(NULL));
    SHOW(cuMemFreeHost(host));
    SHOW(cuMemHostUnregister(NULL));
    SHOW(cuMemHostUnregister(host));
    SHOW(cuMemHostRegister(NULL, 4096, 0));
    SHOW(cuMemHostGetDevicePointer(&p, NULL, 0));
    SHOW(cuMemHostGetDevicePointer(&p, host, 0));
    SHOW(cudaMalloc(&zero, 0));
    printf("of zero bytes: %s\n", zero ? "an address" : "NULL");
    SHOW(cudaMalloc(&zero, (size_t)1 << 41));
    SHOW(cudaGetLastError());
    SHOW(cudaFree(NULL));
    SHOW(cudaFree(host));
    SHOW(cudaGetLastError());
}

static void show_pitches(void)
{
    static const size_t widths[] = {1, 364, 1093, 9841};
    printf("== pitch\n");
    for (int i = 0; i < 4; i++) {
        CUdeviceptr p, base;
        size_t pitch = 0, size = 0;
        CHECK(cuMemAllocPitch(&p, &pitch, widths[i], 7, 4));
        CHECK(cuMemGetAddressRange(&base, &size, p));
        printf("width %zu: pitch %zu size %zu\n", widths[i], pitch, size);
        SHOW(cuMemFree(p));
    }
}

/* The most that a pool had in use at once: a small block and a large one, one after the other. */
static void show_peak(void)
{
    cuuint64_t high = 0;
    CUdeviceptr p;
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemAllocFromPoolAsync(&p, i ? 3 * MIB : 5000, pool, stream));
        CHECK(cuMemFreeAsync(p, stream));
        CHECK(cuStreamSynchronize(stream));
    }
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    printf("pool: at once %zu\n", (size_t)high);
}

static cuuint64_t most_reserved(void)
{
    cuuint64_t high = 0;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
    return high;
}

/* Each of a pool's two marks is set back alone. */
static void show_marks(void)
{
    CUdeviceptr p;
    cuuint64_t zero = 0;
    CHECK(cuMemAllocFromPoolAsync(&p, 200 * MIB, pool, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    cuuint64_t high = most_reserved();
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    printf("pool: most reserved %s", most_reserved() == high ? "kept" : "lost");
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    printf(", %s\n", most_reserved() < high ? "set back" : "not set back");
}

/* How much a block of 8 MiB takes of the free memory, in MiB rounded up, and what a pool counts. */
static void show_figures(void)
{
    size_t before = 0, after = 0, total = 0, again = 0;
    CUdeviceptr p, q;
    cuuint64_t used = 0, high = 0, reserved = 0;
    printf("== figures\n");
    SHOW(cuMemGetInfo(NULL, &total));
    SHOW(cuMemGetInfo(&before, &total));
    CHECK(cuMemAlloc(&p, 8 * MIB));
    SHOW(cuMemGetInfo(&after, &again));
    printf("taken %zu MiB, total %s\n", (before - after) / MIB,
           total == again ? "kept" : "changed");
    CHECK(cuMemFree(p));
    SHOW(cuMemGetInfo(&after, NULL));
    CHECK(cuMemGetInfo(&after, &total));
    printf("not given back %zu\n", before - after);
    CHECK(cuMemAllocFromPoolAsync(&p, 5000, pool, stream));
    CHECK(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, stream));
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    printf("pool: used %zu reserved enough %d\n", (size_t)used, reserved >= used);
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuMemFreeAsync(q, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    printf("pool: used %zu high %zu\n", (size_t)used, (size_t)high);
    show_peak();
    show_marks();
}

/* A pool that was destroyed gives nothing, also while a block of it lives; its handle may come
 * back. */
static void show_destroyed_pool(const CUmemPoolProps *props)
{
    CUdeviceptr p, q = 0;
    printf("== destroyed pool\n");
    CHECK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, stream));
    CHECK(cuMemPoolDestroy(pool));
    SHOW(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, stream));
    SHOW(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    SHOW(cuMemAllocFromPoolAsync(&q, 3 * MIB, pool, stream));
    CHECK(cuMemPoolCreate(&pool, props));
    CHECK(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, stream));
    SHOW(cuMemsetD8(p, 1, 3 * MIB));
    SHOW(cuMemFreeAsync(p, stream));
}

/* answers [DEVICE] */
int main(int argc, char **argv)
{
    int device = argc > 1 ? atoi(argv[1]) : 0;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUdeviceptr p;
    size_t pitch;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaSetDevice(device));
    context = start_gpu(device);
    props.location.id = device;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemAlloc(&p, MIB + 1000)); /* The smallest that `vmm` takes. */
    show_block("cuMemAlloc", p, MIB + 1000, false);
    CHECK(cuMemAlloc(&p, 3 * MIB));
    show_block("cuMemAlloc", p, 3 * MIB, false);
    CHECK(cudaMalloc((void **)&p, 2 * MIB + 64 * KIB));
    show_block("cudaMalloc", p, 2 * MIB + 64 * KIB, true);
    CHECK(cuMemAllocPitch(&p, &pitch, 100, 4000, 4));
    show_block("cuMemAllocPitch", p, pitch * 4000, false);
    CHECK(cuMemAllocAsync(&p, 1000, stream));
    show_block("cuMemAllocAsync", p, 1000, true);
    CHECK(cuMemAllocFromPoolAsync(&p, 2 * MIB, pool, stream));
    show_block("cuMemAllocFromPoolAsync", p, 2 * MIB, false);
    show_odd_requests();
    show_pitches();
    show_figures();
    show_destroyed_pool(&props);
    return 0;
}
