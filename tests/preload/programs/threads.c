/* SPDX-License-Identifier: MIT */
/* Threads that make, use and free blocks of all kinds at once, each checking its own bytes. */
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

int main(void)
{
    pthread_t threads[THREADS];
    context = start_gpu(0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_rounds, (void *)(i * 17)));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL));
    end_gpu(0);
    return 0;
}
