/* SPDX-License-Identifier: MIT */
/* tables TIMES [ROUNDS]: copies two tables of 2 MiB to the device so many times. One is the same
 * each time; the other is written anew, so that there is nothing to share. All of that in so many
 * rounds, with memory of their own. Prints a byte of each table. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)2 << 20)

static int copy_tables(int times, char last[2])
{
    char *from_same = malloc(BYTES), *from_other = malloc(BYTES);
    CUdeviceptr same, other;

    if (from_same == NULL || from_other == NULL || cuMemAlloc(&same, BYTES) != CUDA_SUCCESS ||
        cuMemAlloc(&other, BYTES) != CUDA_SUCCESS)
        return 1;
    memset(from_same, 7, BYTES);
    for (int i = 0; i < times; i++) {
        memset(from_other, i, BYTES);
        if (cuMemcpyHtoD(same, from_same, BYTES) != CUDA_SUCCESS ||
            cuMemcpyHtoD(other, from_other, BYTES) != CUDA_SUCCESS)
            return 1;
    }
    if (cuMemcpyDtoH(&last[0], same, 1) != CUDA_SUCCESS ||
        cuMemcpyDtoH(&last[1], other, 1) != CUDA_SUCCESS || cuMemFree(same) != CUDA_SUCCESS ||
        cuMemFree(other) != CUDA_SUCCESS)
        return 1;
    free(from_same);
    free(from_other);
    return 0;
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 1;
    CUcontext context;
    char last[2] = {0, 0};

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 1;
    for (int i = 0; i < rounds; i++) {
        if (copy_tables(times, last) != 0)
            return 1;
    }
    printf("%d %d\n", last[0], last[1]);
    return 0;
}
