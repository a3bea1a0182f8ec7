/* SPDX-License-Identifier: MIT */
/* Calls of CUDA that meet a pair: copies and sets in all shapes, streams, graphs, queries, the end
 * of a context. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* Calls that no memory takes: elements and rows that overlap, and addresses of nobody's. */
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

/* Rows of another device block, and a copy that is refused, go to a host block that is one: the
 * other bytes stay as they are. */
static void rows_into_h(void)
{
    struct pair p = filled_pair(SIZE, 1), other = {p.h, device_block(SIZE)};
    put(other.d, SIZE, 2);
    CUDA_MEMCPY2D rows = box(other, false, 100, 0, 500, SIZE / 4096);
    CHECK(cuMemcpy2D(&rows));
    for (size_t i = 0; i < SIZE; i++)
        EXPECT(p.h[i] == pattern(i, i % 4096 >= 100 && i % 4096 < 600 ? 2 : 1));
    paint(p.h, SIZE, 3);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    SHOW(cuMemcpyDtoH(p.h, 4096, SIZE));
    EXPECT(shows(p.h, SIZE, 3) && sees(p.d, 0, SIZE, 3));
    CHECK(cuMemFree(other.d));
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

/* Copies of other streams while one captures.  It is not for them to end the capture. */
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

/* The program registers its host block first: then it is its own. */
static void registered(void)
{
    struct pair p = {host_block(SIZE), 0};
    CHECK(cuMemHostRegister(p.h, SIZE, 0));
    p.d = device_block(SIZE);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemHostUnregister(p.h));
    give_back(p);
}

/* It registers it while both are one: kernels see what the CPU writes, at the address for h. */
static void registers(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr at;
    p.h[UNIT] ^= 255;
    CHECK(cuMemHostRegister(p.h, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, p.h, 0));
    paint(p.h, SIZE, 2);
    EXPECT(gpu_sees(at, 0, SIZE, 2) && sees(p.d, 0, SIZE, 1));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    paint(p.h, SIZE, 3);
    EXPECT(gpu_sees(at, 0, SIZE, 3) && sees(p.d, 0, SIZE, 2));
    gpu_paint(at, 0, SIZE, 4); /* It may write its own memory. */
    CHECK(cuCtxSynchronize());
    EXPECT(shows(p.h, SIZE, 4) && sees(p.d, 0, SIZE, 2));
    CHECK(cuMemHostUnregister(p.h));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    EXPECT(sees(p.d, 0, SIZE, 4));
    give_back(p);
}

/* The device goes on seeing what a fork or a change of rights could make a private view of. */
static void registered_changed(void)
{
    unsigned char *h = host_block(SIZE);
    CUdeviceptr at;
    paint(h, SIZE / 2, 1);
    CHECK(cuMemHostRegister(h, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, h, 0));
    for (unsigned change = 0; change < 3; change++) {
        void *page = (void *)((uintptr_t)h & ~(uintptr_t)4095);
        pid_t child = change == 0 ? fork() : 0;
        int status = 0;
        if (change == 0 && child == 0)
            _exit(!shows(h, SIZE / 2, 1));
        EXPECT(change != 0 || (waitpid(child, &status, 0) == child && status == 0));
        EXPECT(change != 1 || (mprotect(page, SIZE, PROT_READ) == 0 &&
                               mprotect(page, SIZE, PROT_READ | PROT_WRITE) == 0));
        EXPECT(change != 2 || madvise(page, SIZE, MADV_DONTDUMP) == 0);
        paint(h, SIZE, 2 + change);
        EXPECT(gpu_sees(at, 0, SIZE, 2 + change));
        gpu_paint(at, 0, SIZE, 5 + change);
        CHECK(cuCtxSynchronize());
        EXPECT(shows(h, SIZE, 5 + change));
    }
    CHECK(cuMemHostUnregister(h));
    free(h);
}

static int attribute(CUdeviceptr at, CUpointer_attribute which)
{
    int value = -1;
    return cuPointerGetAttribute(&value, which, at) == CUDA_SUCCESS ? value : -1;
}

/* Says what the driver answers about an address. */
static void say(const char *what, CUdeviceptr at)
{
    CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    CUdeviceptr base = 0;
    int type = -1;
    void *data = &type;
    size_t span = 0;
    printf("%s: type %d, managed %d, ordinal %d, mapped %d", what, attribute(at, which),
           attribute(at, CU_POINTER_ATTRIBUTE_IS_MANAGED),
           attribute(at, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
           attribute(at, CU_POINTER_ATTRIBUTE_MAPPED));
    printf(", again %d", cuPointerGetAttributes(1, &which, &data, at));
    printf(" %d", type);
    printf(", range %d", cuMemGetAddressRange(&base, &span, at));
    printf(" %d %zu\n", base == at, span);
}

/* Libraries that copy a buffer by what its address is: d is device memory, and h is pageable. */
static void answers(void)
{
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    size_t before, after, total;
    CHECK(cuMemGetInfo(&before, &total));
    struct pair p = new_pair(SIZE);
    say("d before", p.d);
    say("h before", (CUdeviceptr)p.h);
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuMemGetInfo(&after, &total));
    printf("free memory %zu\n", before - after);
    say("d", p.d);
    say("h", (CUdeviceptr)p.h);
#if CUDA_VERSION >= 13000
    SHOW(cuMemPrefetchAsync(p.d, SIZE, here, 0, NULL));
    SHOW(cuMemAdvise(p.d, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
#else
    (void)here;
    SHOW(cuMemPrefetchAsync(p.d, SIZE, 0, NULL));
    SHOW(cuMemAdvise(p.d, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
#endif
    p.h[5] ^= 255;
    say("d apart", p.d);
    say("h apart", (CUdeviceptr)p.h);
    CHECK(cuMemsetD8(p.d, 1, SIZE));
    say("d set", p.d);
    say("h behind", (CUdeviceptr)p.h);
    CHECK(cuMemFree(p.d));
    say("d freed", p.d);
    free(p.h);
}

/* Copies that name addresses only. */
static void by_address(void)
{
    struct pair p = new_pair(SIZE);
    CUdeviceptr other;
    CHECK(cuMemAlloc(&other, UNIT / 4));
    paint(p.h, SIZE, 1);
    CHECK(cuMemcpy(p.d, (CUdeviceptr)p.h, SIZE));
    paint(p.h, SIZE / 2, 2);
    EXPECT(sees(p.d, 0, SIZE, 1));
    CHECK(cuMemcpy((CUdeviceptr)plain, p.d, SIZE)); /* Both differ now. */
    EXPECT(shows(plain, SIZE, 1));
    CHECK(cuMemcpy((CUdeviceptr)plain, (CUdeviceptr)p.h, SIZE));
    EXPECT(shows(plain, SIZE / 2, 2) && shows_part(plain, SIZE / 2, SIZE / 2, 1));
    CHECK(cuMemcpy(other, (CUdeviceptr)p.h, UNIT / 4));
    EXPECT(copy_sees(other, 0, UNIT / 4, 2));
    CHECK(cuMemcpyAsync((CUdeviceptr)p.h, p.d, SIZE, NULL));
    CHECK(cuStreamSynchronize(NULL));
    EXPECT(shows(p.h, SIZE, 1));
    CHECK(cuMemcpy(p.d, other, UNIT / 4)); /* From elsewhere. */
    EXPECT(shows(p.h, SIZE, 1) && sees(p.d, 0, UNIT / 4, 2));
    CHECK(cuMemcpy((CUdeviceptr)p.h, other, UNIT / 4));
    EXPECT(shows(p.h, UNIT / 4, 2) && sees(p.d, UNIT / 4, SIZE - UNIT / 4, 1));
    CHECK(cuMemFree(other));
    give_back(p);
}

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

/* Memory that the driver reads and writes by itself lies in h, in pages that both sides show. */
static void driver_in_h(void)
{
    struct parameters {
        CUdeviceptr d;
        size_t from, n;
        unsigned seed;
        int *result;
        void *list[5];
        size_t bytes;
        void *extra[5];
        size_t free, total;
        int type;
    };
    struct pair p = new_pair(SIZE);
    struct parameters *a = (struct parameters *)(p.h + SIZE - sizeof(*a));
    const size_t n = SIZE - UNIT;
    int seen = -1;
    CUfunction f = kernel_of(SHOWS);
    paint(p.h, SIZE, 1);
    *a = (struct parameters){.d = p.d, .n = n, .seed = 1, .result = &seen, .bytes = sizeof(*a)};
    memcpy(a->list, ((void *[]){&a->d, &a->from, &a->n, &a->seed, &a->result}), sizeof(a->list));
    memcpy(a->extra,
           ((void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, a, CU_LAUNCH_PARAM_BUFFER_SIZE, &a->bytes,
                       CU_LAUNCH_PARAM_END}),
           sizeof(a->extra));
    for (int packed = 0; packed < 2; packed++) {
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, packed ? NULL : a->list,
                             packed ? a->extra : NULL));
        CHECK(cuCtxSynchronize());
        EXPECT(seen == 1);
        seen = -1;
    }
    CHECK(cuMemGetInfo(&a->free, &a->total));
    CHECK(cuPointerGetAttribute(&a->type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p.d));
    printf("type %d\n", a->type);
    EXPECT(a->total > 0 && shows(p.h, n, 1) && sees(p.d, 0, n, 1));
    struct parameters was;
    CHECK(cuMemcpyDtoH(&was, p.d + SIZE - sizeof(was), sizeof(was)));
    EXPECT(was.total == 0 && was.type == 0);
    give_back(p);
}

/* Operations of a stream write d. */
static void operations(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUstreamBatchMemOpParams list[2];
    memset(list, 0, sizeof(list));
    for (int i = 0; i < 2; i++)
        list[i].writeValue =
            (struct CUstreamMemOpWriteValueParams_st){.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                      .address = p.d + 4 * (size_t)i,
                                                      .value = 0x01010101};
    CHECK(cuStreamBatchMemOp(NULL, 2, list, 0));
    CHECK(cuStreamWriteValue32(NULL, p.d + 8, 0x01010101, 0));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(plain, p.d, SIZE));
    EXPECT(all_are(plain, 1, 12) && shows_part(plain, 12, SIZE - 12, 1) && shows(p.h, SIZE, 1));
    give_back(p);
}

/* A stream waits for a value that the CPU writes when it has issued other work. */
static void waiting_stream(void)
{
    struct pair p = filled_pair(SIZE, 1);
    unsigned *flag;
    int result = -1;
    CUstream waits, other;
    CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(waits, (CUdeviceptr)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(try_kernel(SHOWS, p.d, UNIT, UNIT, 1, &result, waits));
    CHECK(cuMemsetD8Async(p.d, 7, UNIT, other));
    CHECK(cuStreamSynchronize(other));
    struct pair late = filled_pair(SIZE, 2); /* No longer one: that would wait for the device. */
    EXPECT(result == -1);
    *(volatile unsigned *)flag = 1;
    CHECK(cuStreamSynchronize(waits));
    EXPECT(result == 1 && shows(p.h, SIZE, 1) && sees(p.d, UNIT, SIZE - UNIT, 1));
    EXPECT(sees(late.d, 0, SIZE, 2));
    CHECK(cuStreamDestroy(waits));
    CHECK(cuStreamDestroy(other));
    CHECK(cuMemFreeHost(flag));
    give_back(late);
    give_back(p);
}

/* Arrays are copied from either side, and into both. */
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
    CHECK(array_copy(array, false, p.h, 0)); /* d's pattern comes to h. */
    EXPECT(shows(p.h, UNIT, 1) && shows_part(p.h, UNIT, SIZE - UNIT, 2));
    paint(seen, UNIT, 3);
    CHECK(array_copy(array, true, seen, 0));
    CHECK(array_copy(array, false, NULL, p.d));
    EXPECT(sees(p.d, 0, UNIT, 3) && sees(p.d, UNIT, SIZE - UNIT, 1));
    EXPECT(shows(p.h, UNIT, 1) && shows_part(p.h, UNIT, SIZE - UNIT, 2));
    CHECK(cuArrayDestroy(array));
    give_back(p);
}

/* Many copies in one call. */
static void batch(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUdeviceptr dst[2] = {p.d, (CUdeviceptr)p.h + UNIT}, src[2] = {(CUdeviceptr)plain, p.d + UNIT};
    size_t n[2] = {4096, 8192}, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    paint(plain, 4096, 2);
    paint_part(p.h, UNIT, UNIT, 3);
#if CUDA_VERSION >= 13000
    CHECK(cuMemcpyBatchAsync(dst, src, n, 2, &how, &first, 1, s));
#else
    size_t failed;
    CHECK(cuMemcpyBatchAsync(dst, src, n, 2, &how, &first, 1, &failed, s));
#endif
    CHECK(cuStreamSynchronize(s));
    EXPECT(sees(p.d, 0, 4096, 2) && sees(p.d, 4096, SIZE - 4096, 1));
    EXPECT(shows(p.h, UNIT, 1) && shows_part(p.h, UNIT, 8192, 1));
    EXPECT(shows_part(p.h, UNIT + 8192, UNIT - 8192, 3));
    CHECK(cuStreamDestroy(s));
    give_back(p);
}

/* A handle for other processes. */
static void ipc(void)
{
    struct pair p = filled_pair(SIZE, 1);
    CUipcMemHandle handle;
    SHOW(cuIpcGetMemHandle(&handle, p.d));
    paint(p.h, SIZE, 2);
    EXPECT(sees(p.d, 0, SIZE, 1));
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
        {"rows_into_h", rows_into_h},
        {"busy", busy},
        {"waiting_set", waiting_set},
        {"beside_a_capture", beside_a_capture},
        {"registered", registered},
        {"registers", registers},
        {"registered_changed", registered_changed},
        {"answers", answers},
        {"by_address", by_address},
        {"driver_in_h", driver_in_h},
        {"operations", operations},
        {"waiting_stream", waiting_stream},
        {"arrays", arrays},
        {"batch", batch},
        {"ipc", ipc},
        {"given_h", given_h},
        {"reached", reached},
        {"leaves", leaves},
    };
    return RUN_SCENES(all, argc, argv);
}
