/* SPDX-License-Identifier: MIT */
/* freed SCENARIO: blocks freed while work that uses them still runs. */
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

static char host[4 * MIB];
static struct gate gate;

static CUdeviceptr make(size_t bytes)
{
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

static void has(CUdeviceptr p, int value, size_t bytes)
{
    memset(host, 0x77, bytes);
    CHECK(cuMemcpyDtoH(host, p, bytes));
    EXPECT(all_are(host, value, bytes));
}

static void *open_late(void *unused)
{
    usleep(100000);
    gate_open(&gate);
    return unused;
}

/* Closes a stream; another thread opens it after a while. */
static pthread_t hold(CUstream stream)
{
    pthread_t thread;
    gate_close_by_kernel(&gate, stream);
    CHECK(pthread_create(&thread, NULL, open_late, NULL));
    return thread;
}

/* Fills a block with 1, and behind what holds the stream, until the thread opens it, with 2. */
static pthread_t busy(CUdeviceptr p, size_t bytes, CUstream stream)
{
    fill(p, 1, bytes, NULL);
    CHECK(cuCtxSynchronize());
    pthread_t thread = hold(stream);
    fill(p, 2, bytes, stream);
    return thread;
}

/* Frees a block and says whether that waited for what holds the stream. */
static void free_and_tell(CUdeviceptr p)
{
    CHECK(cuMemFree(p));
    printf("free %s\n", atomic_load(&gate.open) ? "waited" : "returned");
    EXPECT(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
}

/* Memory freed behind a kernel is nobody else's before the kernel has ended. */
static void one(void)
{
    start_gpu(0);
    CUdeviceptr p = make(4 * MIB);
    pthread_t thread = busy(p, 4 * MIB, NULL);
    free_and_tell(p);
    CUdeviceptr q = make(4 * MIB);
    fill(q, 3, 4 * MIB, NULL);
    has(q, 3, 4 * MIB);
    CHECK(pthread_join(thread, NULL));
    CUdeviceptr r = make(4 * MIB);
    printf("made %llu\n", sim_calls("cuMemCreate"));
    CHECK(cuMemFree(r));
    CHECK(cuMemFree(q));
    end_gpu(0);
}

/* Independent streams have no event that stands for them: the free waits. */
static void free_beside(bool destroyed, bool captures)
{
    CUstream stream;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr p = make(4 * MIB);
    pthread_t thread = busy(p, 4 * MIB, stream);
    if (captures)
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (destroyed)
        CHECK(cuStreamDestroy(stream));
    free_and_tell(p);
    CHECK(pthread_join(thread, NULL));
    if (!destroyed)
        CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

static void independent(void)
{
    free_beside(false, false);
}

static void destroyed(void)
{
    free_beside(true, false);
}

static void destroyed_in_capture(void)
{
    free_beside(true, true);
}

/* A free does not wait for memory that only a stream still has which waits for the program. */
static void held_memory(void)
{
    CUstream stream;
    CUdeviceptr p, q;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAllocAsync(&p, 40 * MIB, stream));
    CHECK(cuStreamSynchronize(stream));
    gate_close_by_kernel(&gate, stream);
    CHECK(cuMemFreeAsync(p, stream));
    SHOW(cuMemAlloc(&q, 48 * MIB));
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemFree(make(48 * MIB)));
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

/* The same of a block that libzc has to give back.  A request that can't succeed is not made for
 * ever, and one that can gives back what nobody else has asked about since the work ended. */
static void held_block(void)
{
    CUstream stream;
    CUdeviceptr p, q;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    p = make(40 * MIB);
    gate_close_by_kernel(&gate, stream);
    CHECK(cuMemFreeAsync(p, stream));
    unsigned long long before = sim_calls("cuMemCreate");
    SHOW(cuMemAlloc(&q, 48 * MIB));
    EXPECT(sim_calls("cuMemCreate") - before < 4);
    gate_open(&gate);
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        usleep(1000);
    SHOW(cuMemAlloc(&q, 48 * MIB));
    CHECK(cuMemFree(q));
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

static size_t free_memory(void)
{
    size_t available, total;
    CHECK(cuMemGetInfo(&available, &total));
    return available;
}

/* Freed memory is free once the work has ended, also in the order of a stream. */
static void figures(void)
{
    CUstream stream;
    CUdeviceptr p;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    size_t before = free_memory();
    CHECK(cuMemAllocAsync(&p, 40 * MIB, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%s\n", free_memory() == before ? "free" : "used");
    CHECK(cuMemFree(make(40 * MIB)));
    CHECK(cuCtxSynchronize());
    printf("%s\n", free_memory() == before ? "free" : "used");
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

/* An array grows away from under a kernel that writes it, and its addresses are used again. */
static void growing(void)
{
    start_gpu(0);
    CUdeviceptr a = make(4 * MIB);
    pthread_t thread = busy(a, 4 * MIB, NULL);
    CUdeviceptr b = make(8 * MIB);
    CHECK(cuMemcpyDtoD(b, a, 4 * MIB));
    free_and_tell(a);
    CHECK(cuMemsetD8(b + 4 * MIB, 4, 4 * MIB));
    CUdeviceptr c = make(16 * MIB);
    CHECK(cuMemsetD8(c + 8 * MIB, 3, 8 * MIB)); /* At a's addresses, grown from nothing. */
    CUdeviceptr d = make(16 * MIB);
    CHECK(cuMemcpyDtoD(d, b, 8 * MIB));
    CHECK(cuMemFree(b));
    has(d, 2, 4 * MIB);
    has(d + 4 * MIB, 4, 4 * MIB);
    has(c + 8 * MIB, 3, 4 * MIB);
    CHECK(pthread_join(thread, NULL));
    CHECK(cuMemFree(c));
    CHECK(cuMemFree(d));
    end_gpu(0);
}

/* Half of an array is copied while a kernel writes all of it; the rest of the new one is another
 * stream's to write as soon as the old one is freed. */
static void half_grown(void)
{
    CUstream apart;
    start_gpu(0);
    CHECK(cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    CUdeviceptr a = make(4 * MIB);
    pthread_t thread = busy(a, 4 * MIB, NULL);
    CUdeviceptr b = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(b, a, 2 * MIB, NULL));
    free_and_tell(a);
    CHECK(cuMemsetD8Async(b + 2 * MIB, 3, 6 * MIB, apart));
    CHECK(pthread_join(thread, NULL));
    CHECK(cuCtxSynchronize());
    has(b, 2, 2 * MIB);
    has(b + 2 * MIB, 3, 4 * MIB);
    CHECK(cuMemFree(b));
    CHECK(cuStreamDestroy(apart));
    end_gpu(0);
}

/* A copy that another device has still to make into an array which grows meanwhile. */
static void copied_from_afar(void)
{
    CUcontext first = start_gpu(0);
    CUdeviceptr a = make(4 * MIB);
    CUstream far;
    CUevent copied;
    fill(a, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    start_gpu(1);
    CUdeviceptr source = make(4 * MIB);
    CHECK(cuMemsetD8(source, 2, 4 * MIB));
    CHECK(cuStreamCreate(&far, CU_STREAM_DEFAULT));
    CHECK(cuEventCreate(&copied, CU_EVENT_DISABLE_TIMING));
    pthread_t thread = hold(far);
    CHECK(cuMemcpyDtoDAsync(a, source, 4 * MIB, far));
    CHECK(cuEventRecord(copied, far));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuStreamWaitEvent(NULL, copied, 0));
    CUdeviceptr b = make(8 * MIB);
    CHECK(cuMemcpyDtoD(b, a, 4 * MIB));
    free_and_tell(a);
    has(b, 2, 4 * MIB);
    CHECK(pthread_join(thread, NULL));
    end_gpu(0);
    end_gpu(1);
}

/* A block is freed while a stream is captured in a way that allows it; the capture goes on. */
static void captured(unsigned flags)
{
    CUstream stream;
    CUgraph graph;
    start_gpu(0);
    CUdeviceptr p = make(4 * MIB), q = make(4 * MIB);
    CHECK(cuStreamCreate(&stream, flags));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemsetD8Async(q, 1, 4 * MIB, stream));
    CHECK(cuMemFree(p));
    CHECK(cuMemsetD8Async(q, 2, 4 * MIB, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemFree(q));
    end_gpu(0);
}

static void in_capture(void)
{
    captured(CU_STREAM_NON_BLOCKING);
    captured(CU_STREAM_DEFAULT);
}

/* An array that grew from under work is freed, with its old addresses, during a capture. */
static void spare_in_capture(void)
{
    CUstream stream;
    CUgraph graph;
    start_gpu(0);
    CUdeviceptr a = make(4 * MIB);
    pthread_t thread = busy(a, 4 * MIB, NULL);
    CUdeviceptr b = make(8 * MIB);
    CHECK(cuMemcpyDtoD(b, a, 4 * MIB));
    CHECK(cuMemFree(a));
    CHECK(pthread_join(thread, NULL));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemFree(b));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

/* A block whose free has come in its stream, and that nobody has asked about since. */
static void kept(CUstream stream)
{
    CHECK(cuMemFreeAsync(make(4 * MIB), stream));
    CHECK(cuStreamSynchronize(stream));
}

/* Calls that the driver has no memory for as long as that is not given back. */
static void given_back(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUstream stream, another;
    CUarray array;
    CUmodule module;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    kept(stream);
    sim_fail("cuArrayCreate_v2", CUDA_ERROR_OUT_OF_MEMORY, 1);
    SHOW(cuArrayCreate(&array, &shape));
    CHECK(cuArrayDestroy(array));
    kept(stream);
    sim_fail("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY, 1);
    SHOW(cuModuleLoadData(&module, ""));
    kept(stream);
    sim_fail("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY, 1);
    SHOW(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING));
    sim_fail("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY, 1);
    SHOW(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING)); /* There is nothing more. */
    end_gpu(0);
}

/* The context goes while something waits to be given back. */
static void reset(void)
{
    start_gpu(0);
    CUdeviceptr p = make(4 * MIB);
    pthread_t thread = busy(p, 4 * MIB, NULL);
    free_and_tell(p);
    CHECK(pthread_join(thread, NULL));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"one", one},
                                          {"independent", independent},
                                          {"destroyed", destroyed},
                                          {"destroyed_in_capture", destroyed_in_capture},
                                          {"held_memory", held_memory},
                                          {"held_block", held_block},
                                          {"figures", figures},
                                          {"growing", growing},
                                          {"half_grown", half_grown},
                                          {"copied_from_afar", copied_from_afar},
                                          {"in_capture", in_capture},
                                          {"spare_in_capture", spare_in_capture},
                                          {"reset", reset},
                                          {"given_back", given_back}};
    return RUN_SCENARIO(all, argc, argv);
}
