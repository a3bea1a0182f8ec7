/* SPDX-License-Identifier: MIT */
/* requests [-a] [-f] MIB...: asks for device blocks of so many MiB each, in stream order with -a,
 * writes and reads each, prints the code of each request, and frees them at the end, with -f each
 * at once.  hMIB asks for pinned host memory, and frees it at once; `?` prints how many MiB
 * cudaMemGetInfo says are free and there are; =FILE makes FILE.here, and waits for FILE.
 * requests -t THREADS: so many threads ask for a block of 1 MiB at the same time, 200 times over;
 * all blocks of a round are alive at once. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "program.h"

#define BLOCKS_MAX 256

static CUstream stream;
static bool async, at_once;

static CUresult request(CUdeviceptr *block, size_t bytes)
{
    return async ? cuMemAllocAsync(block, bytes, stream) : cuMemAlloc(block, bytes);
}

static void give_back(CUdeviceptr block)
{
    CHECK(async ? cuMemFreeAsync(block, stream) : cuMemFree(block));
    CHECK(cuStreamSynchronize(stream));
}

static CUcontext context;
static atomic_uint arrived; /* Threads that came to the meeting, in all rounds together. */

/* Threads that spin leave it closer together than those that are woken. */
static void meet(unsigned count)
{
    unsigned here = atomic_fetch_add(&arrived, 1), all = (here / count + 1) * count;
    while (atomic_load(&arrived) < all)
        sched_yield();
}

static void *ask_at_once(void *count)
{
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < 200; round++) {
        CUdeviceptr block;
        meet(*(unsigned *)count);
        CHECK(cuMemAlloc(&block, 2 << 20));
        meet(*(unsigned *)count);
        CHECK(cuMemFree(block));
    }
    return NULL;
}

static int threads_main(unsigned count)
{
    pthread_t threads[BLOCKS_MAX];
    context = start_gpu(0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, ask_at_once, &count));
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL));
    end_gpu(0);
    return 0;
}

static CUresult request_host(size_t bytes)
{
    void *p;
    CUresult result = cuMemAllocHost(&p, bytes);
    if (result == CUDA_SUCCESS)
        CHECK(cuMemFreeHost(p));
    return result;
}

static void say_free(void)
{
    size_t left, total;
    CHECK(cuMemGetInfo(&left, &total));
    printf("%zu of %zu\n", left >> 20, total >> 20);
}

static void wait_for(const char *file)
{
    char here[4096];
    snprintf(here, sizeof(here), "%s.here", file);
    EXPECT(close(creat(here, 0600)) == 0);
    while (access(file, F_OK) != 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    static char host[4096];
    CUdeviceptr blocks[BLOCKS_MAX];
    int count = 0;
    if (argc == 3 && !strcmp(argv[1], "-t"))
        return threads_main((unsigned)atoi(argv[2]));
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 1; i < argc && count < BLOCKS_MAX; i++) {
        size_t bytes = (size_t)(atof(argv[i]) * 1024 * 1024);
        async |= !strcmp(argv[i], "-a");
        at_once |= !strcmp(argv[i], "-f");
        if (argv[i][0] == 'h')
            printf("%d\n", (int)request_host((size_t)atoi(argv[i] + 1) << 20));
        if (argv[i][0] == '?')
            say_free();
        if (argv[i][0] == '=')
            wait_for(argv[i] + 1);
        if (strchr("-h?=", argv[i][0]))
            continue;
        CUresult result = request(&blocks[count], bytes);
        printf("%d\n", (int)result);
        if (result != CUDA_SUCCESS)
            continue;
        fill(blocks[count], i, bytes, stream);
        CHECK(cuMemcpyDtoHAsync(host, blocks[count] + bytes - sizeof(host), sizeof(host), stream));
        EXPECT(all_are(host, i, sizeof(host)));
        if (at_once)
            give_back(blocks[count]);
        else
            count++;
    }
    while (count)
        give_back(blocks[--count]);
    end_gpu(0);
    return 0;
}
