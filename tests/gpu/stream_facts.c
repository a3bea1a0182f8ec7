/* SPDX-License-Identifier: MIT */
/*
 * Asks the CUDA driver which streams cuStreamQuery() calls busy while one of them has work: libzc
 * takes the legacy stream's word for all that it covers.  Prints one line a fact, so that the
 * simulated GPU can be compared with a real one.
 *
 *   stream_facts      ends with status 77 where no driver answers
 */
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUstream blocking, independent;
    CUdeviceptr block;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS)
        return 77;
    if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuMemAlloc(&block, (size_t)64 << 20) != CUDA_SUCCESS ||
        cuStreamCreate(&blocking, CU_STREAM_DEFAULT) != CUDA_SUCCESS ||
        cuStreamCreate(&independent, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 1;
    ask("blocking", blocking, 0);
    ask("blocking", blocking, block);
    ask("independent", independent, 0);
    ask("legacy", CU_STREAM_LEGACY, 0);
    ask("per-thread", CU_STREAM_PER_THREAD, 0);
    return 0;
}
