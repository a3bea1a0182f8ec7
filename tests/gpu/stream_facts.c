/* SPDX-License-Identifier: MIT */
/*
 * Asks the CUDA driver which streams cuStreamQuery() calls busy while one of them has work: libzc
 * takes the legacy stream's word for all that it covers; and what an event of the whole context
 * (cuCtxRecordEvent) says then.  Prints one line a fact, so that the simulated GPU can be compared
 * with a real one; with an argument how long such an event takes, too.
 *
 *   stream_facts [time]      ends with status 77 where no driver answers
 */
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 256 /* Most for which the time of an event is asked. */

static atomic_bool released; /* The work may end. */

static void hold(void *unused)
{
    (void)unused;
    while (!released)
        usleep(50);
}

static void ask(const char *of, CUstream stream, CUdeviceptr block)
{
    released = false;
    if (cuLaunchHostFunc(stream, hold, NULL) != CUDA_SUCCESS ||
        (block && cuMemsetD8Async(block, 1, (size_t)64 << 20, stream) != CUDA_SUCCESS))
        exit(1);
    printf("%s%s: legacy %d, null %d, per-thread %d, its own %d\n", of, block ? ", set behind" : "",
           cuStreamQuery(CU_STREAM_LEGACY), cuStreamQuery(NULL),
           cuStreamQuery(CU_STREAM_PER_THREAD), cuStreamQuery(stream));
    released = true;
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        exit(1);
}

/* The first answer of an event's query that is not "not ready", for 20 ms. */
static int answer_of(CUevent event)
{
    int result = CUDA_ERROR_NOT_READY;
    for (int i = 0; i < 400 && result == CUDA_ERROR_NOT_READY; i++) {
        usleep(50);
        result = cuEventQuery(event);
    }
    return result;
}

/* `ends`: the stream is destroyed while it has work.  `other` gets work behind the record. */
static void ask_context(const char *of, CUcontext context, CUstream stream, CUstream other,
                        CUdeviceptr block, bool ends)
{
    CUevent event, behind;
    released = false;
    if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        cuLaunchHostFunc(stream, hold, NULL) != CUDA_SUCCESS ||
        (ends && cuStreamDestroy(stream) != CUDA_SUCCESS))
        exit(1);
    int recorded = cuCtxRecordEvent(context, event), waits = answer_of(event);
    if (cuMemsetD8Async(block, 1, 4096, other) != CUDA_SUCCESS ||
        cuEventRecord(behind, other) != CUDA_SUCCESS)
        exit(1);
    int passes = answer_of(behind);
    released = true;
    if (cuCtxSynchronize() != CUDA_SUCCESS)
        exit(1);
    printf("context with work of %s: record %d, then %d, work behind it elsewhere %d, at the end "
           "%d\n",
           of, recorded, waits, passes, cuEventQuery(event));
    cuEventDestroy(event);
    cuEventDestroy(behind);
}

/* A stream of a green context, which has half of the device's processors. */
static CUstream green_stream(CUdevice device)
{
    CUdevResource all, half;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUstream stream;
    unsigned groups = 1;
    bool made =
        cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
        cuDevSmResourceSplitByCount(&half, &groups, &all, NULL, 0, all.sm.smCount / 2) ==
            CUDA_SUCCESS &&
        cuDevResourceGenerateDesc(&desc, &half, 1) == CUDA_SUCCESS &&
        cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS &&
        cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS;
    return made ? stream : NULL;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median times of 101 records in an idle context, and until their queries say so; or behind a small
 * set that nobody has waited for. */
static void time_context(CUcontext context, int streams, CUdeviceptr block)
{
    double call[101], all[101];
    CUevent event;
    if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        exit(1);
    for (int i = 0; i < 101; i++) {
        if (block ? cuMemsetD8Async(block, 1, 4096, NULL) != CUDA_SUCCESS || usleep(500)
                  : cuCtxSynchronize() != CUDA_SUCCESS)
            exit(1);
        double start = now_us();
        if (cuCtxRecordEvent(context, event) != CUDA_SUCCESS)
            exit(1);
        call[i] = now_us() - start;
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            ;
        all[i] = now_us() - start;
    }
    qsort(call, 101, sizeof(*call), compare);
    qsort(all, 101, sizeof(*all), compare);
    printf("%s context of %d streams: record %.1f us, known after %.1f us\n",
           block ? "no longer busy" : "idle", streams, call[50], all[50]);
    cuEventDestroy(event);
}

int main(int argc, char **argv)
{
    (void)argv;
    CUdevice device;
    CUcontext context;
    CUstream blocking, independent, gone[2];
    CUdeviceptr block;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS)
        return 77;
    if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuMemAlloc(&block, (size_t)64 << 20) != CUDA_SUCCESS ||
        cuStreamCreate(&blocking, CU_STREAM_DEFAULT) != CUDA_SUCCESS ||
        cuStreamCreate(&independent, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&gone[0], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&gone[1], CU_STREAM_DEFAULT) != CUDA_SUCCESS)
        return 1;
    ask("blocking", blocking, 0);
    ask("blocking", blocking, block);
    ask("independent", independent, 0);
    ask("legacy", CU_STREAM_LEGACY, 0);
    ask("per-thread", CU_STREAM_PER_THREAD, 0);
    ask_context("a blocking stream", context, blocking, independent, block, false);
    ask_context("an independent one", context, independent, blocking, block, false);
    ask_context("the legacy one", context, CU_STREAM_LEGACY, independent, block, false);
    ask_context("the per-thread one", context, CU_STREAM_PER_THREAD, independent, block, false);
    ask_context("an independent one that is gone", context, gone[0], blocking, block, true);
    ask_context("a blocking one that is gone", context, gone[1], independent, block, true);
    CUstream green = green_stream(device);
    if (green)
        ask_context("one of a green context", context, green, independent, block, false);
    for (int streams = 2; argc > 1 && streams <= STREAMS; streams++) {
        if ((streams & (streams - 1)) == 0)
            time_context(context, streams, 0), time_context(context, streams, block);
        if (cuStreamCreate(&blocking, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
            cuMemsetD8Async(block, 1, 4096, blocking) != CUDA_SUCCESS)
            return 1;
    }
    return 0;
}
