/* SPDX-License-Identifier: MIT */
/*
 * Measures what one cuMemcpyBatchAsync gains over as many cuMemcpyAsync in one stream: small blocks
 * at a stride of twice their size, as caches of keys and values have them.  A line for each size
 * and direction: microseconds a copy until all are done, and until the calls have returned, medians
 * of rounds that take turns.  "in 16s" is the same copies in batches of 16.
 *
 *   small_copies      ends with status 77 where no GPU answers
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPIES 1024
#define ROUNDS 9
#define WAYS 4

static const size_t batch_of[WAYS] = {0, COPIES, 64, 16}; /* 0: one call a copy. */
static CUdeviceptr dst[COPIES], src[COPIES];
static size_t sizes[COPIES];
static CUstream stream;

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "small_copies: %s returned %d\n", what, (int)result);
    exit(1);
}

static void batch(size_t from, size_t count)
{
    CUmemcpyAttributes attributes = {};
    size_t first = 0;

    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    check(cuMemcpyBatchAsync(dst + from, src + from, sizes + from, count, &attributes, &first, 1,
                             stream),
          "cuMemcpyBatchAsync");
}

/* Times until the calls have returned, and until the copies are done. */
static void copy_all(size_t each, double *issued, double *done)
{
    double start = now_us();

    for (size_t i = 0; i < COPIES; i += each ? each : 1) {
        if (each)
            batch(i, each);
        else
            check(cuMemcpyAsync(dst[i], src[i], sizes[i], stream), "cuMemcpyAsync");
    }
    *issued = (now_us() - start) / COPIES;
    check(cuStreamSynchronize(stream), "cuStreamSynchronize");
    *done = (now_us() - start) / COPIES;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void row(const char *direction, char *to, char *from, size_t size)
{
    static double issued[WAYS][ROUNDS + 1], done[WAYS][ROUNDS + 1];

    for (size_t i = 0; i < COPIES; i++) {
        dst[i] = (CUdeviceptr)(to + i * 2 * size);
        src[i] = (CUdeviceptr)(from + (COPIES - 1 - i) * 2 * size);
        sizes[i] = size;
    }
    for (int round = 0; round <= ROUNDS; round++) /* The first one is not counted. */
        for (int way = 0; way < WAYS; way++)
            copy_all(batch_of[way], &issued[way][round], &done[way][round]);
    printf("%s %3zu KiB:", direction, size >> 10);
    for (int way = 0; way < WAYS; way++) {
        qsort(done[way] + 1, ROUNDS, sizeof(double), by_value);
        qsort(issued[way] + 1, ROUNDS, sizeof(double), by_value);
        printf("  %s %.2f (%.2f)",
               way == 0   ? "each"
               : way == 1 ? "batch"
               : way == 2 ? "in 64s"
                          : "in 16s",
               done[way][1 + ROUNDS / 2], issued[way][1 + ROUNDS / 2]);
    }
    printf("  each/batch %.2f\n", done[0][1 + ROUNDS / 2] / done[1][1 + ROUNDS / 2]);
    fflush(stdout);
}

int main(void)
{
    const size_t most = (size_t)COPIES * 2 * (256 << 10);
    char *host, *device, *other;
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        fprintf(stderr, "small_copies: no GPU answers\n");
        return 77;
    }
    if (cudaHostAlloc((void **)&host, most, 0) != cudaSuccess ||
        cudaMalloc((void **)&device, most) != cudaSuccess ||
        cudaMalloc((void **)&other, most) != cudaSuccess) {
        fprintf(stderr, "small_copies: no memory\n");
        return 1;
    }
    memset(host, 1, most);
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    printf("microseconds a copy of %d until done (until the calls returned)\n", COPIES);
    for (size_t size = 4 << 10; size <= (size_t)256 << 10; size *= 4) {
        row("to device  ", device, host, size);
        row("from device", host, device, size);
        row("on device  ", other, device, size);
    }
    return 0;
}
