/* SPDX-License-Identifier: MIT */
/*
 * Cost of a caught call: times calls of the driver and of libc one by one, through the
 * pointers that a program gets, and prints the nanoseconds of each as text, one line a call: name,
 * median, p99.  Run bare and under LD_PRELOAD by overhead.sh, which compares.
 */
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 20000
#define THREADS_MAX 16

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void require(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "overhead: %s returned %d\n", what, (int)result);
    exit(3);
}

static CUdeviceptr device, spare;
static char host[4096];
static CUfunction kernel;

/* A kernel that does nothing; the simulated driver has one of this name. */
static const char code[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                           ".visible .entry saxpy(.param .u64 x, .param .u64 y, .param .u64 z,"
                           " .param .u32 n)\n{\nret;\n}\n";

static void call_copy_pageable(void)
{
    require(cuMemcpyHtoD(device, host, 64), "cuMemcpyHtoD");
}

/* As programs hand over a result or a flag. */
static void call_copy_stack(void)
{
    long value = 1;
    require(cuMemcpyHtoD(device, &value, sizeof(value)), "cuMemcpyHtoD");
}

static void *pinned;
static void call_copy_pinned(void)
{
    require(cuMemcpyHtoD(device, pinned, 64), "cuMemcpyHtoD");
}

/* The simulated driver asks libc for its signal handler before it touches host memory, which libzc
 * catches as well; a copy within the device is caught once. */
static void call_copy_within(void)
{
    require(cuMemcpyDtoD(device, device + 2048, 64), "cuMemcpyDtoD");
}

static void call_copy_rows(void)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = pinned,
                                .srcPitch = 64,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = device,
                                .dstPitch = 64,
                                .WidthInBytes = 8,
                                .Height = 8};
    require(cuMemcpy2D(&rows), "cuMemcpy2D");
}

/* Of 4 bytes, behind nothing. */
static CUstream stream;
static void call_copy_later(void)
{
    require(cuMemcpyHtoDAsync(device, pinned, 4, stream), "cuMemcpyHtoDAsync");
}

static void wait_for_stream(void)
{
    require(cuStreamSynchronize(stream), "cuStreamSynchronize");
}

static void call_set(void)
{
    require(cuMemsetD8(device, 1, 64), "cuMemsetD8");
}

static void call_attribute(void)
{
    unsigned type;
    require(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device),
            "cuPointerGetAttribute");
}

static void call_alloc(void)
{
    require(cuMemAlloc(&spare, 4096), "cuMemAlloc");
}

static void call_free(void)
{
    require(cuMemFree(spare), "cuMemFree");
}

static void call_launch(void)
{
    require(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL,
                           (void *[]){&device, &device, &device, &(int){0}}, NULL),
            "cuLaunchKernel");
}

/* Before the driver holds launches up, because so many wait. */
static void wait_for_many(void)
{
    static unsigned launches;
    if (++launches % 256 == 0)
        require(cuCtxSynchronize(), "cuCtxSynchronize");
}

/* Many, because one is less than what the clock can tell apart. */
#define READS 100
static int zeroes = -1;
static void call_read(void)
{
    char byte;
    for (int i = 0; i < READS; i++)
        if (read(zeroes, &byte, 1) != 1)
            exit(3);
}

static void call_nothing(void)
{
}

/* A timed call, and the one that must run before each. */
static const struct {
    const char *name;
    void (*before)(void);
    void (*timed)(void);
    void (*after)(void);
} calls[] = {
    {"cuMemcpyHtoD stack 8 B", call_nothing, call_copy_stack, call_nothing},
    {"cuMemcpyHtoD pageable 64 B", call_nothing, call_copy_pageable, call_nothing},
    {"cuMemcpyHtoD pinned 64 B", call_nothing, call_copy_pinned, call_nothing},
    {"cuMemcpyDtoD 64 B", call_nothing, call_copy_within, call_nothing},
    {"cuMemcpy2D pinned 8 x 8 B", call_nothing, call_copy_rows, call_nothing},
    {"cuMemcpyHtoDAsync pinned 4 B", call_nothing, call_copy_later, wait_for_stream},
    {"cuMemsetD8 64 B", call_nothing, call_set, call_nothing},
    {"cuPointerGetAttribute", call_nothing, call_attribute, call_nothing},
    {"cuMemAlloc 4 KiB", call_nothing, call_alloc, call_free},
    {"cuMemFree 4 KiB", call_alloc, call_free, call_nothing},
    {"cuLaunchKernel", call_nothing, call_launch, wait_for_many},
    {"read of 1 byte, 100 times", call_nothing, call_read, call_nothing},
};

static void time_calls(void)
{
    static uint32_t ns[ROUNDS];
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (calls[i].timed == call_launch && !kernel)
            continue;
        for (int r = 0; r < ROUNDS; r++) {
            calls[i].before();
            uint64_t start = now_ns();
            calls[i].timed();
            ns[r] = (uint32_t)(now_ns() - start);
            calls[i].after();
        }
        qsort(ns, ROUNDS, sizeof(ns[0]), by_value);
        printf("call\t%s\t%u\t%u\n", calls[i].name, ns[ROUNDS / 2], ns[ROUNDS * 99 / 100]);
    }
}

static CUcontext context;

static void *copy_loop(void *arg)
{
    CUdeviceptr mine;
    char bytes[64] = {0};
    require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    require(cuMemAlloc(&mine, 4096), "cuMemAlloc");
    for (int i = 0; i < *(const int *)arg; i++)
        require(cuMemcpyHtoD(mine, bytes, sizeof(bytes)), "cuMemcpyHtoD");
    require(cuMemFree(mine), "cuMemFree");
    return NULL;
}

/* Copies per second of all threads together. */
static void time_threads(int count, int rounds)
{
    pthread_t threads[THREADS_MAX];
    uint64_t start = now_ns();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, copy_loop, &rounds);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("threads\t%d\t%.0f\n", count, count * (double)rounds / seconds);
}

/* Resident KiB, as /proc/self/statm counts pages. */
static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        exit(3);
    fclose(f);
    return resident * 4;
}

/* Memory of many live blocks; overhead.sh subtracts the bare run. */
static void measure_memory(int blocks)
{
    CUdeviceptr *all = calloc((size_t)blocks, sizeof(*all));
    long before = resident_kib();
    for (int i = 0; i < blocks; i++)
        require(cuMemAlloc(&all[i], 512), "cuMemAlloc");
    printf("blocks\t%d\t%ld\n", blocks, resident_kib() - before);
    for (int i = 0; i < blocks; i++)
        require(cuMemFree(all[i]), "cuMemFree");
    free(all);
}

/* The first hundred thousand pairs bring every table to its working size. */
static void measure_growth(long pairs)
{
    for (int i = 0; i < 100000; i++) {
        call_alloc();
        call_free();
    }
    long before = resident_kib();
    for (long i = 0; i < pairs; i++) {
        call_alloc();
        call_free();
    }
    printf("growth\t%ld\t%ld\n", pairs, resident_kib() - before);
}

/* Fills and copies 8 MiB so many times, never the same bytes. */
static void copy_large(long count)
{
    const size_t bytes = (size_t)8 << 20;
    char *memory = malloc(bytes);
    CUdeviceptr to;
    require(cuMemAlloc(&to, bytes), "cuMemAlloc");
    for (long i = 0; memory && i < count; i++) {
        memset(memory, (int)i, bytes);
        require(cuMemcpyHtoD(to, memory, bytes), "cuMemcpyHtoD");
    }
    free(memory);
}

int main(int argc, char **argv)
{
    CUdevice first;
    CUmodule module;
    const char *mode = argc > 1 ? argv[1] : "calls";
    long count = argc > 2 ? atol(argv[2]) : 0;
    require(cuInit(0), "cuInit");
    if (!strcmp(mode, "start"))
        return 0;
    require(cuDeviceGet(&first, 0), "cuDeviceGet");
    require(cuDevicePrimaryCtxRetain(&context, first), "cuDevicePrimaryCtxRetain");
    require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    require(cuMemAlloc(&device, 4096), "cuMemAlloc");
    require(cuMemAllocHost(&pinned, 4096), "cuMemAllocHost");
    require(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    zeroes = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (cuModuleLoadData(&module, code) == CUDA_SUCCESS)
        (void)(cuModuleGetFunction(&kernel, module, "saxpy") == CUDA_SUCCESS ||
               cuModuleGetFunction(&kernel, module, "_Z6vecaddPKfS0_Pfi") == CUDA_SUCCESS);
    if (!strcmp(mode, "threads"))
        time_threads((int)count, 20000);
    else if (!strcmp(mode, "memory"))
        measure_memory((int)count);
    else if (!strcmp(mode, "growth"))
        measure_growth(count);
    else if (!strcmp(mode, "large"))
        copy_large(count);
    else
        time_calls();
    return 0;
}
