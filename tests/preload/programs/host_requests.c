/* SPDX-License-Identifier: MIT */
/* A program and pinned host memory that it asks the driver for, one scenario a run:
 * the output must not depend on who made the memory. */
#include <pthread.h>
#include <sys/wait.h>

#include "ask.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static CUdeviceptr device; /* 32 MiB of the device's. */

static void start(void)
{
    context = start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&device, 32 * MIB));
}

static void *pinned(size_t bytes, unsigned flags)
{
    void *p = NULL;
    CHECK(cuMemHostAlloc(&p, bytes, flags));
    return p;
}

static unsigned long long number_of(const void *p, CUpointer_attribute attribute)
{
    unsigned long long value = 0;
    CHECK(cuPointerGetAttribute(&value, attribute, (CUdeviceptr)p));
    return value;
}

static void show_refusals(void *p, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = (CUdeviceptr)p;
    CUipcMemHandle ipc;
    int value = 0;
    SHOW(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, FIRST_DEVICE));
    SHOW(PREFETCH(at, bytes));
    SHOW(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, bytes));
    SHOW(cuStreamAttachMemAsync(stream, at, 0, CU_MEM_ATTACH_SINGLE));
    SHOW(cuMemRetainAllocationHandle(&handle, p));
    SHOW(cuIpcGetMemHandle(&ipc, at));
    SHOW(cuMemHostRegister(p, bytes, 0));
    SHOW(cuMemHostRegister((char *)p + 4096, 4096, 0));
    SHOW(cuMemHostUnregister(p));
    SHOW(cuMemFree(at));
    SHOW(cuMemFreeAsync(at, stream));
    SHOW(cuMemFreeHost((char *)p + 1));
    SHOW(cuMemFreeHost((char *)p + bytes / 2));
    SHOW(cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    value = 1;
    SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    show_attributes(at);
    value = 0;
    SHOW(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
}

static void show_pointers(void *p, size_t bytes)
{
    CUdeviceptr q = 0;
    unsigned flags = 77;
    SHOW(cuMemHostGetDevicePointer(&q, p, 0));
    relative("device pointer", q, (CUdeviceptr)p, 0);
    SHOW(cuMemHostGetDevicePointer(&q, (char *)p + bytes - 1, 0));
    relative("device pointer", q, (CUdeviceptr)p, 0);
    SHOW(cuMemHostGetDevicePointer(&q, (char *)p + bytes, 0));
    SHOW(cuMemHostGetDevicePointer(&q, p, 1));
    SHOW(cuMemHostGetDevicePointer(NULL, p, 0));
    SHOW(cuMemHostGetFlags(&flags, p));
    printf("flags %u\n", flags);
    SHOW(cuMemHostGetFlags(&flags, (char *)p + bytes / 2));
    SHOW(cuMemHostGetFlags(NULL, p));
}

/* Copies and sets to the last byte of the block, and one byte further. */
static void show_bounds(char *p, size_t bytes)
{
    CUdeviceptr at = (CUdeviceptr)p;
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = p,
                          .srcPitch = bytes / 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = device,
                          .dstPitch = bytes / 2,
                          .WidthInBytes = bytes / 2,
                          .Height = 2};
    memset(p, 5, bytes);
    SHOW(cuMemcpyHtoD(device, p, bytes));
    SHOW(cuMemcpyHtoD(device, p, bytes + 1));
    SHOW(cuMemcpyHtoD(device, p + 1, bytes));
    SHOW(cuMemcpyDtoHAsync(p, device, bytes + 1, stream));
    SHOW(cuMemcpy(device, at, bytes + 1));
    SHOW(cuMemcpyDtoD(device, at, bytes));
    SHOW(cuMemsetD8(at, 7, bytes));
    SHOW(cuMemsetD8(at, 7, bytes + 1));
    SHOW(cuMemcpy2D(&rows));
    rows.Height = 3;
    SHOW(cuMemcpy2D(&rows));
    fill(device, 9, bytes, stream);
    SHOW(cuMemcpyDtoHAsync(p, device, bytes, stream));
    SHOW(cuStreamSynchronize(stream));
    printf("arrived %d\n", all_are(p, 9, bytes));
    fill(at, 3, bytes, stream);
    SHOW(cuStreamSynchronize(stream));
    printf("written by a kernel %d\n", all_are(p, 3, bytes));
}

static void show_gone(void *p)
{
    unsigned type = 0, flags;
    CUdeviceptr base;
    size_t size;
    SHOW(cuMemFreeHost(p));
    SHOW(cuMemHostGetDevicePointer(&base, p, 0));
    SHOW(cuMemHostGetFlags(&flags, p));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p));
    SHOW(cuMemGetAddressRange(&base, &size, (CUdeviceptr)p));
    show_many_attributes((CUdeviceptr)p, (CUdeviceptr)p);
}

static void show_block(size_t bytes, unsigned flags)
{
    char *p = pinned(bytes, flags);
    CUdeviceptr at = (CUdeviceptr)p;
    const CUdeviceptr places[] = {at, at + bytes / 3, at + bytes - 1};
    printf("== %zu bytes, flags %u, by pages %d, zero %d\n", bytes, flags, at % 4096 == 0,
           all_are(p, 0, bytes));
    for (int i = 0; i < 3; i++) {
        printf("at %+lld\n", (long long)(places[i] - at));
        show_attributes(places[i]);
        show_pointer_attributes(places[i], at);
        show_many_attributes(places[i], at);
        show_range(places[i], at);
    }
    show_pointers(p, bytes);
    show_refusals(p, bytes);
    show_bounds(p, bytes);
    SHOW(cuMemFreeHost(p));
    show_gone(p);
}

static void answers(void)
{
    static const size_t sizes[] = {5000, 64 * KIB, 700 * KIB, 3 * MIB + 5, 16 * MIB};
    start();
    for (int i = 0; i < 5; i++)
        for (unsigned flags = 0; flags < 8; flags += i == 3 ? 1 : 3)
            show_block(sizes[i], flags);
    end_gpu(0);
}

static void odd_requests(void)
{
    void *p = &p, *q = NULL;
    start();
    SHOW(cuMemHostAlloc(&p, 0, 0));
    printf("%s\n", p ? "an address" : "NULL");
    SHOW(cuMemAllocHost(&p, 0));
    SHOW(cuMemHostAlloc(NULL, MIB, 0));
    SHOW(cuMemAllocHost(NULL, MIB));
    SHOW(cuMemHostAlloc(&p, MIB, 64));
    SHOW(cuMemHostAlloc(&p, SIZE_MAX, 0));
    SHOW(cuMemHostAlloc(&p, (size_t)1 << 50, 0));
    SHOW(cuMemFreeHost(NULL));
    SHOW(cuMemFreeHost(&p));
    SHOW(cuMemHostUnregister(&p));
    q = pinned(MIB, 0);
    SHOW(cuCtxSetCurrent(NULL));
    SHOW(cuMemHostAlloc(&p, MIB, 0));
    SHOW(cuMemHostAlloc(&p, MIB, 64));
    SHOW(cuMemFreeHost(q));
    SHOW(cuMemHostGetFlags(&(unsigned){0}, q));
    SHOW(cuMemHostGetDevicePointer(&(CUdeviceptr){0}, q, 0));
    SHOW(cuCtxSetCurrent(context));
    SHOW(cuMemFreeHost(q));
    end_gpu(0);
}

/* The runtime's calls, and numbers that tell one block from another. */
static void runtime(void)
{
    void *p, *q;
    unsigned flags = 0;
    start();
    SHOW(cudaMallocHost(&p, 2 * MIB));
    SHOW(cudaHostAlloc(&q, MIB, cudaHostAllocPortable | cudaHostAllocMapped));
    SHOW(cudaHostGetFlags(&flags, q));
    printf("flags %u\n", flags);
    unsigned long long first = number_of(p, CU_POINTER_ATTRIBUTE_BUFFER_ID);
    printf("numbers differ %d\n", first != number_of(q, CU_POINTER_ATTRIBUTE_BUFFER_ID));
    memset(p, 1, 2 * MIB);
    SHOW(cudaFreeHost(p));
    SHOW(cudaFreeHost(p));
    SHOW(cudaGetLastError());
    SHOW(cudaMallocHost(&p, 2 * MIB));
    printf("zero again %d, another number %d\n", all_are(p, 0, 2 * MIB),
           first != number_of(p, CU_POINTER_ATTRIBUTE_BUFFER_ID));
    SHOW(cudaFreeHost(p));
    SHOW(cudaFreeHost(q));
    end_gpu(0);
}

static void *open_later(void *gate)
{
    usleep(100000);
    gate_open(gate);
    return NULL;
}

/* Freeing waits for the device, asking for memory does not. */
static void waits(void)
{
    struct gate gate;
    pthread_t opener;
    void *p, *q;
    start();
    p = pinned(4 * MIB, 0);
    gate_close(&gate, stream);
    q = pinned(4 * MIB, 0);
    printf("asking waits %d\n", cuStreamQuery(stream) == CUDA_SUCCESS);
    SHOW(cuMemFreeHost((char *)p + 4096));
    printf("a refused free waits %d\n", cuStreamQuery(stream) == CUDA_SUCCESS);
    pthread_create(&opener, NULL, open_later, &gate);
    SHOW(cuMemFreeHost(p));
    printf("freeing waits %d\n", cuStreamQuery(stream) == CUDA_SUCCESS);
    pthread_join(opener, NULL);
    SHOW(cuMemFreeHost(q));
    end_gpu(0);
}

static void captured(const char *what, void *p)
{
    CUgraph graph = NULL;
    void *q = NULL;
    printf("== %s\n", what);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (!strcmp(what, "ask"))
        SHOW(cuMemHostAlloc(&q, 4 * MIB, 0));
    else if (!strcmp(what, "free"))
        SHOW(cuMemFreeHost(p));
    else
        SHOW(cuMemcpyHtoDAsync(device, p, 4 * MIB, stream));
    SHOW(cuStreamEndCapture(stream, &graph));
    if (!graph)
        return;
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    memset(p, 6, 4 * MIB);
    SHOW(cuGraphLaunch(exec, stream));
    SHOW(cuStreamSynchronize(stream));
    memset(p, 0, 4 * MIB);
    SHOW(cuMemcpyDtoH(p, device, 4 * MIB));
    printf("copied at the launch %d\n", all_are(p, 6, 4 * MIB));
}

/* In relaxed mode a thread may ask and free, and the capture goes on. */
static void captured_relaxed(void)
{
    CUgraph graph = NULL;
    char *p = pinned(4 * MIB, 0);
    void *q = NULL;
    printf("== relaxed\n");
    memset(p, 1, 4 * MIB);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuMemHostAlloc(&q, 4 * MIB, 0));
    SHOW(cuMemFreeHost(p));
    SHOW(cuMemFreeHost(p));
    SHOW(cuMemHostGetFlags(&(unsigned){0}, p));
    SHOW(cuMemcpyHtoDAsync(device, q, MIB, stream));
    SHOW(cuStreamEndCapture(stream, &graph));
    printf("captured %d\n", graph != NULL);
    SHOW(cuMemFreeHost(q));
    q = pinned(4 * MIB, 0);
    printf("zero %d\n", all_are(q, 0, 4 * MIB));
    SHOW(cuMemFreeHost(q));
}

static void capture(void)
{
    start();
    captured_relaxed();
    void *p = pinned(4 * MIB, 0);
    captured("ask", p);
    captured("free", p);
    captured("copy", p);
    SHOW(cuMemFreeHost(p));
    end_gpu(0);
}

/* A context takes its blocks along, and leaves those of others. */
static void contexts(void)
{
    start();
    void *p = pinned(4 * MIB, 0), *small = pinned(128 * KIB, 0);
    memset(p, 1, 4 * MIB);
    memset(small, 2, 128 * KIB);
    CUcontext other = another_context();
    void *q = pinned(4 * MIB, 0), *later = pinned(128 * KIB, 0);
    CHECK(cuMemFreeHost(p));
    void *r = pinned(4 * MIB, 0);
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(context));
    show_gone(q);
    show_gone(later);
    show_gone(r);
    printf("kept %d\n", all_are(small, 2, 128 * KIB));
    SHOW(cuMemcpyHtoD(device, small, 128 * KIB));
    p = pinned(4 * MIB, 0);
    printf("type %llu\n", number_of(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
    SHOW(cuMemcpyHtoD(device, p, 4 * MIB));
    end_gpu(0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    show_gone(small);
    p = pinned(4 * MIB, 0);
    CHECK(cuMemAlloc(&device, 4 * MIB));
    SHOW(cuMemcpyHtoD(device, p, 4 * MIB));
    end_gpu(0);
}

/* Pinned memory and libc's may be neighbours; each keeps its meaning. */
static void neighbours(void)
{
    unsigned type = 0;
    start();
    void *a = malloc(128 * KIB), *p = pinned(128 * KIB, 0), *b = malloc(128 * KIB);
    SHOW(cuMemcpyHtoD(device, a, 128 * KIB));
    show_many_attributes((CUdeviceptr)a + 5, (CUdeviceptr)a);
    SHOW(cuMemHostRegister(a, 128 * KIB, 0));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)a));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)b));
    SHOW(cuMemHostUnregister(a));
    SHOW(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p));
    SHOW(cuMemcpyDtoH(p, device, 128 * KIB));
    SHOW(cuMemFreeHost(a));
    SHOW(cuMemFreeHost(p));
    free(a);
    free(b);
    for (int i = 0; i < 100; i++) {
        void *m = malloc((size_t)(i % 7 + 1) * 100 * KIB);
        void *h = pinned((size_t)(i % 5 + 1) * MIB, 0);
        EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)m) != 0);
        EXPECT(all_are(h, 0, MIB));
        memset(m, 1, 100 * KIB);
        memset(h, 2, MIB);
        CHECK(cuMemcpyHtoD(device, m, 100 * KIB));
        CHECK(cuMemFreeHost(h));
        free(m);
    }
    end_gpu(0);
}

/* Registered by the program: watched, and left to the driver. */
static void registered(void)
{
    static char pages[8 * MIB] __attribute__((aligned(4096)));
    unsigned flags = 0;
    start();
    SHOW(cuMemHostRegister(pages, 4 * MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
    show_attributes((CUdeviceptr)pages);
    SHOW(cuMemHostGetFlags(&flags, pages));
    SHOW(cuMemcpyHtoD(device, pages, 4 * MIB));
    SHOW(cuMemHostUnregister(pages));
    SHOW(cuMemHostUnregister(pages));
    end_gpu(0);
}

/* Parent and child see what the other one writes. */
static void forked(void)
{
    start();
    char *p = pinned(4 * MIB, 0);
    int told[2], status = 0;
    char none;
    memset(p, 4, 4 * MIB);
    fflush(stdout);
    pid_t child = pipe(told) == 0 ? fork() : -1;
    if (child == 0) {
        close(told[1]);
        (void)!read(told[0], &none, 1);
        printf("child sees %d\n", all_are(p, 4, 3 * MIB) && all_are(p + 3 * MIB, 6, MIB));
        memset(p, 5, MIB);
        SHOW(cuMemFreeHost(p));
        void *q = NULL;
        SHOW(cuMemHostAlloc(&q, MIB, 0));
        _exit(0);
    }
    memset(p + 3 * MIB, 6, MIB);
    close(told[1]);
    waitpid(child, &status, 0);
    printf("child ended with %d, parent sees %d\n", status, all_are(p, 5, MIB));
    SHOW(cuMemFreeHost(p));
    end_gpu(0);
}

/* free(3) of what the driver gave ends a process in libc. */
static void wrong_free(void)
{
    start();
    void *p = pinned(4 * MIB, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        free(p);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("ended by a signal %d\n", WIFSIGNALED(status));
    SHOW(cuMemFreeHost(p));
    end_gpu(0);
}

static void words(void)
{
    start();
    unsigned *p = pinned(MIB, 0);
    SHOW(cuStreamWriteValue32(stream, (CUdeviceptr)p, 7, 0));
    SHOW(cuStreamSynchronize(stream));
    printf("word %u\n", *p);
    SHOW(cuMemFreeHost(p));
    end_gpu(0);
}

/* The share of the device's free memory that host memory takes is never counted twice. */
static void figures(void)
{
    size_t before, after, total;
    start();
    CHECK(cuMemGetInfo(&before, &total));
    void *p = pinned(16 * MIB, 0);
    CHECK(cuMemGetInfo(&after, &total));
    printf("at most once %d\n", before <= after + 16 * MIB);
    CHECK(cuMemFreeHost(p));
    CHECK(cuMemGetInfo(&after, &total));
    printf("given back %d\n", before == after);
    end_gpu(0);
}

/* Eight threads ask, write, copy and free. */
static void *churn(void *arg)
{
    size_t seed = (size_t)(uintptr_t)arg;
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 60; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = (seed >> 33) % (4 * MIB) + 1;
        char *p = pinned(bytes, 0);
        memset(p, (int)(seed >> 40), bytes);
        CHECK(cuMemcpyHtoD(device + ((uintptr_t)arg - 1) * 4 * MIB, p, bytes));
        EXPECT(all_are(p, (int)(seed >> 40), bytes));
        CHECK(cuMemFreeHost(p));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[8];
    start();
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    printf("done\n");
    end_gpu(0);
}

/* Blocks of 1, 2, 3 ... MiB, all live at once, then freed: for limits and failures. */
static void many(void)
{
    char *p[12];
    start();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 12; i++) {
            p[i] = pinned((i + 1) * MIB, i % 4);
            memset(p[i], (int)i, (i + 1) * MIB);
        }
        for (size_t i = 0; i < 12; i++) {
            CHECK(cuMemcpyHtoD(device, p[i], (i + 1) * MIB));
            memset(p[i], 77, (i + 1) * MIB);
            CHECK(cuMemcpyDtoH(p[i], device, (i + 1) * MIB));
            printf("%zu MiB: %d\n", i + 1, all_are(p[i], (int)i, (i + 1) * MIB));
            CHECK(cuMemFreeHost(p[i]));
        }
    }
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"answers", answers},
                                          {"odd", odd_requests},
                                          {"runtime", runtime},
                                          {"waits", waits},
                                          {"capture", capture},
                                          {"contexts", contexts},
                                          {"neighbours", neighbours},
                                          {"registered", registered},
                                          {"forked", forked},
                                          {"wrong_free", wrong_free},
                                          {"words", words},
                                          {"threads", threads},
                                          {"many", many},
                                          {"figures", figures}};
    return RUN_SCENARIO(all, argc, argv);
}
