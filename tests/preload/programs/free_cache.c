/* SPDX-License-Identifier: MIT */
/* free_cache SCENARIO: blocks that come and go, and what stays behind.  On a device of 256 MiB,
 * with a rule for requests up to 32 MiB. */
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)

static CUdeviceptr make(size_t bytes)
{
    CUdeviceptr p = 0;
    CHECK(cuMemAlloc(&p, bytes));
    return p;
}

static void again(void)
{
    char host[64];
    start_gpu(0);
    for (int i = 0; i < 5; i++) {
        CUdeviceptr p = make(3 * MIB);
        fill(p, i, 3 * MIB, NULL);
        CHECK(cuMemcpyDtoH(host, p + 3 * MIB - sizeof(host), sizeof(host)));
        EXPECT(all_are(host, i, sizeof(host)));
        CHECK(cuMemFree(p));
        EXPECT(cuMemsetD8(p, 1, 1) == CUDA_ERROR_INVALID_VALUE);
        EXPECT(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
    }
    printf("created %llu\n", sim_calls("cuMemCreate"));
    end_gpu(0);
}

static void many(void)
{
    CUdeviceptr p[8];
    start_gpu(0);
    for (int i = 0; i < 8; i++)
        p[i] = make(4 * MIB);
    for (int i = 0; i < 8; i++)
        CHECK(cuMemFree(p[i]));
    printf("kept %zu\n", sim_leaks(SIM_LEAK_HANDLE));
    end_gpu(0);
}

/* Three blocks of 18 MiB in all, of which 16 may be kept. */
static void oldest(void)
{
    CUdeviceptr p[3];
    start_gpu(0);
    for (size_t i = 0; i < 3; i++)
        p[i] = make((size_t[]){5, 7, 3}[i] * MIB);
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(p[i]));
    p[1] = make(7 * MIB);
    p[2] = make(3 * MIB);
    printf("created %llu", sim_calls("cuMemCreate"));
    p[0] = make(5 * MIB);
    printf(", %llu\n", sim_calls("cuMemCreate"));
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(p[i]));
    end_gpu(0);
}

/* Everything that the device has can be had, by any call. */
static void all_of_it(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUDA_ARRAY_DESCRIPTOR flat = {16384, 15360, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray array;
    CUdeviceptr large;
    size_t before, after, total;
    start_gpu(0);
    CHECK(cuMemGetInfo(&before, &total));
    CHECK(cuMemFree(make(16 * MIB)));
    CHECK(cuMemGetInfo(&after, &total));
    EXPECT(before == after);
    CHECK(cuMemAlloc(&large, 250 * MIB));
    CHECK(cuMemFree(large));
    CHECK(cuMemFree(make(16 * MIB)));
    CHECK(cuMemCreate(&handle, 250 * MIB, &prop, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemFree(make(16 * MIB)));
    CHECK(cuMemAllocManaged(&large, 250 * MIB, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemFree(large));
    CHECK(cuMemFree(make(16 * MIB)));
    CHECK(cuArrayCreate(&array, &flat));
    CHECK(cuArrayDestroy(array));
    end_gpu(0);
}

/* A large block that is attached lazily can be had although a freed one is kept. */
static void lazy_beside_kept(void)
{
    size_t available, total;
    start_gpu(0);
    CHECK(cuMemFree(make(16 * MIB)));
    CHECK(cuMemGetInfo(&available, &total));
    CUdeviceptr p = make(available);
    fill(p, 5, available, NULL);
    CHECK(cuMemFree(p));
    end_gpu(0);
}

/* Handles whose memory may leave the process have a file of their own in the simulated driver. */
static void exportable(void)
{
    char path[64], target[64];
    unsigned files = 0;
    start_gpu(0);
    CUdeviceptr p = make(3 * MIB);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        files += strstr(target, "simulated-gpu-shared") != NULL;
    }
    printf("exportable %u\n", files);
    CHECK(cuMemFree(p));
    end_gpu(0);
}

static void *churn(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 400000; i++)
        CHECK(cuMemFree(make(2 * MIB)));
    return NULL;
}

/* What one thread frees is the next one's at once. */
static void threads(void)
{
    CUcontext context = start_gpu(0);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, context));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"again", again},
                                          {"many", many},
                                          {"oldest", oldest},
                                          {"all_of_it", all_of_it},
                                          {"lazy_beside_kept", lazy_beside_kept},
                                          {"exportable", exportable},
                                          {"threads", threads}};
    return RUN_SCENARIO(all, argc, argv);
}
