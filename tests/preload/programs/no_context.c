/* SPDX-License-Identifier: MIT */
/* A program that frees in threads without a current context, as finalisers and workers do:
 * no_context SCENE.  It prints what it finds; the tests compare that with and without libzc. */
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (6 * MIB)

static CUresult code;

/* The thread of a free: it has never had a context. */
static void *free_device(void *p)
{
    code = cuMemFree(*(CUdeviceptr *)p);
    return NULL;
}

static void *free_host(void *p)
{
    code = cuMemFreeHost(p);
    return NULL;
}

static CUresult in_a_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, body, argument) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    return code;
}

/* The rest of a block once it was freed.  Nothing is read there: a thread of `shared` may have had
 * its addresses since, for a block of malloc's that it registers for reading. */
static void must_be_gone(CUdeviceptr d)
{
    char byte = 0;
    SHOW(cuMemcpyHtoD(d, &byte, 1));
    SHOW(cuMemsetD8(d, 1, 1));
    SHOW(cuMemFree(d));
    CHECK(cuCtxSynchronize());
}

/* A block that was written, and freed by another thread. */
static void by_a_thread(size_t size, CUdeviceptr d)
{
    char *h = malloc(size);
    printf("%zu bytes\n", size);
    memset(h, 5, size);
    CHECK(cuMemcpyHtoD(d, h, size));
    CHECK(cuCtxSynchronize());
    SHOW(in_a_thread(free_device, &d));
    must_be_gone(d);
    EXPECT(all_are(h, 5, size));
    free(h);
}

static void device(void)
{
    static const size_t sizes[] = {256, 4096, MIB, SIZE, 40 * MIB};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        CUdeviceptr d;
        CHECK(cuMemAlloc(&d, sizes[i / 2]));
        by_a_thread(sizes[i / 2], d);
    }
}

/* The main thread frees without its context, and goes on with it. */
static void popped(void)
{
    CUdeviceptr d, untouched;
    CUcontext context;
    char *h = malloc(SIZE);
    CHECK(cuMemAlloc(&d, SIZE));
    CHECK(cuMemAlloc(&untouched, SIZE));
    memset(h, 7, SIZE);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuCtxPopCurrent(&context));
    SHOW(cuMemFree(d));
    SHOW(cuMemFree(untouched));
    SHOW(cuMemFree(d));
    CUcontext current = context;
    CHECK(cuCtxGetCurrent(&current));
    EXPECT(!current);
    CHECK(cuCtxPushCurrent(context));
    must_be_gone(d);
    EXPECT(all_are(h, 7, SIZE));
    free(h);
}

/* Blocks of a pool, of which nothing is waited for. */
static void pool(void)
{
    CUdeviceptr d;
    CHECK(cuMemAllocAsync(&d, SIZE, NULL));
    by_a_thread(SIZE, d);
    CHECK(cuMemAllocAsync(&d, SIZE, NULL));
    by_a_thread(SIZE, d);
}

static CUstream stream;

static void *free_in_order(void *p)
{
    code = cuMemFreeAsync(*(CUdeviceptr *)p, stream);
    return NULL;
}

/* A stream names its context, which a driver may go by or not; NULL names none. */
static void ordered(void)
{
    CUdeviceptr d;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&d, SIZE, stream));
    if (in_a_thread(free_in_order, &d) != CUDA_SUCCESS)
        CHECK(cuMemFreeAsync(d, stream));
    CHECK(cuStreamSynchronize(stream));
    must_be_gone(d);
    CHECK(cuMemAllocAsync(&d, SIZE, NULL));
    stream = NULL;
    SHOW(in_a_thread(free_in_order, &d));
    SHOW(cuMemFree(d));
    must_be_gone(d);
}

/* A free that waits for nothing leaves the memory to a later one, which may have no context. */
static void left_over(void)
{
    CUdeviceptr d, other;
    CHECK(cuMemAlloc(&other, SIZE));
    CHECK(cuMemAllocAsync(&d, SIZE, NULL));
    CHECK(cuMemsetD8(d, 5, SIZE));
    CHECK(cuMemFreeAsync(d, NULL));
    CHECK(cuCtxSynchronize());
    by_a_thread(SIZE, other);
    must_be_gone(d);
}

static void host(void)
{
    static const size_t sizes[] = {4096, MIB, SIZE};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *p;
        CHECK(cuMemHostAlloc(&p, sizes[i / 2], 0));
        memset(p, 3, sizes[i / 2]);
        SHOW(in_a_thread(free_host, p));
        SHOW(cuMemFreeHost(p));
    }
}

/* Memory that is one with a device block, or was asked for as pinned: the context is missed first.
 */
static void registering(void)
{
    CUdeviceptr d;
    CUcontext context;
    void *pinned, *h = malloc(SIZE);
    memset(h, 7, SIZE);
    CHECK(cuMemAlloc(&d, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemHostAlloc(&pinned, SIZE, 0));
    CUstream gone;
    CHECK(cuStreamCreate(&gone, 0));
    CHECK(cuStreamDestroy(gone));
    SHOW(cuMemcpyHtoDAsync(d, h, SIZE, gone)); /* Nothing has changed, but the stream is missed. */
    CHECK(cuCtxPopCurrent(&context));
    SHOW(cuMemHostRegister(h, SIZE, 0));
    SHOW(cuMemHostRegister(pinned, SIZE, 0));
    CHECK(cuCtxPushCurrent(context));
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree(d));
    free(h);
}

/* The driver refuses the release that sim_fail() names: the block is the program's still. */
static void refused(void)
{
    static const char *const calls[] = {"cuMemHostUnregister", "cuMemFreeHost", "cuMemFree_v2"};
    static char seen[SIZE];
    for (size_t i = 0; i < 2 * sizeof(calls) / sizeof(calls[0]); i++) {
        size_t size = i % 2 ? 4096 : SIZE;
        CUdeviceptr d;
        CHECK(cuMemAlloc(&d, size));
        CHECK(cuMemsetD8(d, 5, size));
        /* Of cuMemFree_v2 the first one frees NULL, which tells of errors. */
        sim_fail(calls[i / 2], CUDA_ERROR_UNKNOWN, i / 2 == 2 ? 2 : 1);
        CUresult result = cuMemFree(d);
        sim_fail(NULL, CUDA_SUCCESS, 0);
        if (result == CUDA_SUCCESS)
            continue;
        fprintf(stderr, "refused by %s\n", calls[i / 2]);
        EXPECT(result == CUDA_ERROR_UNKNOWN);
        CHECK(cuMemcpyDtoH(seen, d, size));
        EXPECT(all_are(seen, 5, size));
        CHECK(cuMemFree(d));
        EXPECT(cuMemcpyDtoH(seen, d, 1) == CUDA_ERROR_INVALID_VALUE);
    }
}

/* A free in another context than the block's, which can't be waited for. */
static void refused_wait(void)
{
    static const char *const calls[] = {"cuCtxPushCurrent_v2", "cuEventSynchronize"};
    CUcontext home = start_gpu(0), other = start_gpu(1);
    for (int i = 0; i < 2; i++) {
        CUdeviceptr d;
        CHECK(cuCtxSetCurrent(home));
        CHECK(cuMemAlloc(&d, SIZE));
        CHECK(cuCtxSetCurrent(other));
        sim_fail(calls[i], CUDA_ERROR_UNKNOWN, 0);
        EXPECT(cuMemFree(d) == CUDA_ERROR_UNKNOWN);
        sim_fail(NULL, CUDA_SUCCESS, 0);
        CHECK(cuMemFree(d));
    }
    CHECK(cuCtxSetCurrent(home));
    end_gpu(1);
    end_gpu(0);
}

/* Releasing a context that others have retained, too, destroys nothing. */
static void released(void)
{
    CUcontext again;
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, SIZE));
    CHECK(cuDevicePrimaryCtxRetain(&again, 0));
    SHOW(cuDevicePrimaryCtxRelease(0));
    by_a_thread(SIZE, d);
}

/* Questions, while a stream captures and the driver's errors can't be asked for. */
static void asked(void)
{
    CUdeviceptr d, base;
    CUcontext home;
    CUgraph graph;
    size_t bytes;
    CHECK(cuMemAlloc(&d, SIZE));
    CHECK(cuCtxGetCurrent(&home));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(cuMemGetAddressRange(&base, &bytes, d));
    CHECK(cuCtxSetCurrent(NULL));
    SHOW(cuMemGetAddressRange(&base, &bytes, d));
    CHECK(cuCtxSetCurrent(home));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemFree(d));
}

static void show_wrong(CUdeviceptr d, CUdeviceptr gone)
{
    void *const at[] = {NULL,
                        (void *)(d - 1),
                        (void *)d,
                        (void *)(d + 1),
                        (void *)(d + SIZE - 1),
                        (void *)(d + SIZE),
                        (void *)gone};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        printf("address %zu\n", i);
        SHOW(cuMemHostUnregister(at[i]));
        SHOW(cuMemFreeHost(at[i]));
        if (at[i] != (void *)d)
            SHOW(cuMemFree((CUdeviceptr)at[i]));
    }
}

/* A driver tells what it knows and can't give up from what it does not know. */
static void wrong(void)
{
    CUdeviceptr d, gone;
    CUcontext context;
    CHECK(cuMemAlloc(&gone, SIZE));
    CHECK(cuMemAlloc(&d, SIZE));
    CHECK(cuMemFree(gone));
    show_wrong(d, gone);
    CHECK(cuCtxPopCurrent(&context));
    show_wrong(d, gone);
    CHECK(cuCtxPushCurrent(context));
    CHECK(cuMemFree(d));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"device", device},
                                          {"popped", popped},
                                          {"pool", pool},
                                          {"ordered", ordered},
                                          {"host", host},
                                          {"registering", registering},
                                          {"left_over", left_over},
                                          {"asked", asked},
                                          {"released", released},
                                          {"refused", refused},
                                          {"refused_wait", refused_wait},
                                          {"wrong", wrong}};
    start_gpu(0);
    int status = RUN_SCENARIO(all, argc, argv);
    end_gpu(0);
    return status;
}
