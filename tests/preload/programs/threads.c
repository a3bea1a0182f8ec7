/* SPDX-License-Identifier: MIT */
/* Threads that make, use and free blocks of all kinds at once, each checking its own bytes; or,
 * with an argument, whose first requests are the first of the process. */
#include <pthread.h>

#include "program.h"

#define THREADS 8
#define ROUNDS 60

static CUcontext context;

/* One round: a block in stream order or not, written, copied within itself, read and freed. */
static void use_block(CUstream stream, char *host, unsigned round, bool async)
{
    size_t bytes = (size_t)(1 + round % 13) * (round % 5 ? 3000 : 120000);
    int value = (int)(round * 7 % 251);
    CUdeviceptr p;
    CHECK(async ? cuMemAllocAsync(&p, bytes, stream) : cuMemAlloc(&p, bytes));
    memset(host, value, bytes);
    CHECK(cuMemcpyHtoDAsync(p, host, bytes, stream));
    memset(host, value + 1, bytes / 2);
    CHECK(cuMemcpyHtoDAsync(p, host, bytes / 2, stream));
    CHECK(cuMemcpyDtoDAsync(p + bytes / 2, p, bytes / 4, stream));
    memset(host, 0, bytes);
    CHECK(cuMemcpyDtoHAsync(host, p, bytes, stream));
    EXPECT(all_are(host, value + 1, bytes / 2 + bytes / 4));
    EXPECT(all_are(host + bytes / 2 + bytes / 4, value, bytes - bytes / 2 - bytes / 4));
    CHECK(async ? cuMemFreeAsync(p, stream) : cuMemFree(p));
}

static void *run_rounds(void *seed)
{
    char *host = malloc(13 * 120000);
    CUstream stream;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < ROUNDS; i++)
        use_block(stream, host, i + (unsigned)(size_t)seed, (i / 2) % 3 != 0);
    CHECK(cuStreamSynchronize(stream));
    free(host);
    return NULL;
}

#define AT_ONCE 24

static pthread_barrier_t begin;

/* The first request of the process for host memory, and the first for the device's. */
static void *request(void *out)
{
    CUdeviceptr *d = out;
    pthread_barrier_wait(&begin);
    char *host = malloc(2 * (size_t)1 << 20);
    memset(host, 5, 2 << 20);
    start_gpu(0);
    CHECK(cuMemAlloc(d, 2 << 20));
    CHECK(cuMemcpyHtoD(*d, host, 2 << 20));
    free(host);
    return NULL;
}

static int at_once(void)
{
    pthread_t threads[AT_ONCE];
    CUdeviceptr blocks[AT_ONCE];
    pthread_barrier_init(&begin, NULL, AT_ONCE);
    for (int i = 0; i < AT_ONCE; i++)
        CHECK(pthread_create(&threads[i], NULL, request, &blocks[i]));
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK(pthread_join(threads[i], NULL));
        CHECK(cuInit(0));
        start_gpu(0);
        CHECK(cuMemFree(blocks[i]));
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    (void)argv;
    if (argc > 1)
        return at_once();
    context = start_gpu(0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_rounds, (void *)(i * 17)));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL));
    end_gpu(0);
    return 0;
}
