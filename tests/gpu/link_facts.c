/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver, and hardware with two GPUs or more, what copies over the links of several GPUs
 * rely on (shim/copy/links.c).  Prints one line for each.
 *
 *   link_facts      ends with status 77 where fewer than two GPUs answer
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)512 << 20)
#define MIB ((size_t)1 << 20)

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "link_facts: %s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void enter(CUcontext context)
{
    CHECK(cuCtxSetCurrent(context));
}

static int attribute(CUdevice_P2PAttribute which, int from, int to)
{
    int value = -1;
    cuDeviceGetP2PAttribute(&value, which, from, to);
    return value;
}

static void pairs(int devices)
{
    for (int a = 0; a < devices; a++)
        for (int b = 0; b < devices; b++)
            if (a != b)
                printf("peers %d to %d: access %d, native atomics %d, performance rank %d\n", a, b,
                       attribute(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, a, b),
                       attribute(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, a, b),
                       attribute(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a, b));
}

extern CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

/* A context beside the primary one: its time and memory, and what is seen of it there. */
static CUcontext make_context(int device, CUcontext primary)
{
    CUcontext context, popped;
    size_t before, after, total;
    CUdeviceptr block;
    CUstream stream[3];
    enter(primary);
    CHECK(cuMemGetInfo(&before, &total));
    double start = now_ms();
    CHECK(cuCtxCreate_v2(&context, 0, device));
    double made = now_ms() - start;
    CHECK(cuMemAlloc(&block, 48 * MIB));
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    double furnished = now_ms() - start - made;
    CHECK(cuCtxPopCurrent(&popped));
    enter(primary);
    CHECK(cuMemGetInfo(&after, &total));
    printf("a second context on device %d: %.1f ms, with 48 MiB and 3 streams %.1f ms more; "
           "%zu MiB together\n",
           device, made, furnished, (before - after) / MIB);
    return context;
}

/* The best of five, in GB/s, of copies in a context's stream; `issue` is the longest call. */
static double best(CUstream stream, CUdeviceptr device, void *host, bool in, double *issue)
{
    double least = 1e9;
    *issue = 0;
    for (int i = 0; i < 5; i++) {
        double start = now_ms();
        CHECK(in ? cuMemcpyHtoDAsync(device, host, BYTES, stream)
                 : cuMemcpyDtoHAsync(host, device, BYTES, stream));
        double call = now_ms() - start;
        CHECK(cuStreamSynchronize(stream));
        double took = now_ms() - start;
        least = took < least ? took : least;
        *issue = call > *issue ? call : *issue;
    }
    return (double)BYTES / least * 1e-6;
}

static void host_memory(CUcontext home, CUcontext far)
{
    static const char *const names[] = {"cuMemHostAlloc", "cuMemHostAlloc, portable",
                                        "cuMemHostRegister", "cuMemHostRegister, portable",
                                        "pageable"};
    for (int i = 0; i < 5; i++) {
        void *host;
        CUdeviceptr device;
        CUstream stream;
        double issue_in, issue_out;
        enter(home);
        if (i < 2)
            CHECK(cuMemHostAlloc(&host, BYTES, i ? CU_MEMHOSTALLOC_PORTABLE : 0));
        else
            host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(host, 1, BYTES);
        if (i == 2 || i == 3)
            CHECK(cuMemHostRegister(host, BYTES, i == 3 ? CU_MEMHOSTREGISTER_PORTABLE : 0));
        enter(far);
        CHECK(cuMemAlloc(&device, BYTES));
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        double in = best(stream, device, host, true, &issue_in);
        double out = best(stream, device, host, false, &issue_out);
        printf("%s of device 0, copied in device 1's context: to %.1f GB/s, from %.1f; the call "
               "took %.3f and %.3f ms\n",
               names[i], in, out, issue_in, issue_out);
        CHECK(cuMemFree(device));
        CHECK(cuStreamDestroy(stream));
        enter(home);
        if (i < 2)
            CHECK(cuMemFreeHost(host));
        else if (i < 4)
            CHECK(cuMemHostUnregister(host));
        if (i >= 2)
            munmap(host, BYTES);
    }
}

/* cuMemcpyPeerAsync in the far context, before and after that one alone has got peer access. */
static void relay(CUcontext home, CUcontext far)
{
    CUdeviceptr here, there;
    CUstream stream;
    enter(home);
    CHECK(cuMemAlloc(&here, BYTES));
    enter(far);
    CHECK(cuMemAlloc(&there, BYTES));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int with = 0; with < 2; with++)
        for (int in = 0; in < 2; in++) {
            double least = 1e9;
            if (with && !in) {
                printf("cuCtxEnablePeerAccess: %d, ", (int)cuCtxEnablePeerAccess(home, 0));
                double start = now_ms();
                int again = (int)cuCtxEnablePeerAccess(home, 0);
                printf("again: %d in %.1f us\n", again, (now_ms() - start) * 1e3);
            }
            for (int i = 0; i < 5; i++) {
                double start = now_ms();
                CHECK(in ? cuMemcpyPeerAsync(here, home, there, far, BYTES, stream)
                         : cuMemcpyPeerAsync(there, far, here, home, BYTES, stream));
                CHECK(cuStreamSynchronize(stream));
                double took = now_ms() - start;
                least = took < least ? took : least;
            }
            printf("cuMemcpyPeerAsync in device 1's context, %s device 0, %s peer access: %.1f "
                   "GB/s\n",
                   in ? "to" : "from", with ? "with" : "without", (double)BYTES / least * 1e-6);
        }
}

/* Milliseconds of a cuMemAlloc of 64 MiB in the current context, the best of five. */
static double allocation(void)
{
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        CUdeviceptr block;
        double start = now_ms();
        CHECK(cuMemAlloc(&block, 64 * MIB));
        double took = now_ms() - start;
        least = took < least ? took : least;
        CHECK(cuMemFree(block));
    }
    return least;
}

static void *release(void *flag)
{
    usleep(300000);
    __atomic_store_n((unsigned *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Work of the far context waits for a stream of the home context, which waits for the CPU
 * for 0.3 s: does cuMemFree in the far device's primary context wait for that? */
static void held(CUcontext home, CUcontext far, CUcontext there)
{
    CUdeviceptr block, flag_there;
    CUstream waits, stream;
    CUevent event;
    unsigned *flag;
    pthread_t thread;
    enter(there);
    CHECK(cuMemAlloc(&block, MIB));
    enter(home);
    CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    CHECK(cuMemHostGetDevicePointer(&flag_there, flag, 0));
    CHECK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamWaitValue32(waits, flag_there, 1, CU_STREAM_WAIT_VALUE_GEQ));
    CHECK(cuEventRecord(event, waits));
    enter(far);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitEvent(stream, event, 0));
    CHECK(pthread_create(&thread, NULL, release, flag));
    enter(there);
    double start = now_ms();
    CHECK(cuMemFree(block));
    double freed = now_ms() - start;
    CHECK(cuCtxSynchronize());
    printf("beside a held stream of the second context, in the primary one: cuMemFree %.1f ms, "
           "cuCtxSynchronize %.1f ms more\n",
           freed, now_ms() - start - freed);
    pthread_join(thread, NULL);
}

/* A program that enables and resets what it has there itself. */
static void beside(CUcontext home, CUcontext far)
{
    CUcontext primary;
    unsigned flags;
    int active;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 1));
    enter(primary);
    printf("the primary context beside it: cuCtxEnablePeerAccess %d\n",
           (int)cuCtxEnablePeerAccess(home, 0));
    enter(home);
    CHECK(cuDevicePrimaryCtxReset(1));
    CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    enter(far);
    printf("after the primary context's reset: active %d, cuCtxSynchronize in the other %d\n",
           active, (int)cuCtxSynchronize());
    double start = now_ms();
    CHECK(cuCtxDestroy(far));
    printf("cuCtxDestroy: %.1f ms\n", now_ms() - start);
}

/* A device that copies a part of one host block to or from its own memory. */
struct lane {
    CUcontext context;
    CUdeviceptr block;
    CUstream stream;
    CUevent from, to;
    size_t bytes;
    float ms; /* By the events. */
};

static void lane_start(struct lane *l, int device)
{
    CHECK(cuDevicePrimaryCtxRetain(&l->context, device));
    enter(l->context);
    CHECK(cuMemAlloc(&l->block, 2 * BYTES));
    CHECK(cuStreamCreate(&l->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&l->from, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&l->to, CU_EVENT_DEFAULT));
}

static void lane_end(struct lane *l, int device)
{
    enter(l->context);
    CHECK(cuMemFree(l->block));
    CHECK(cuStreamDestroy(l->stream));
    CHECK(cuEventDestroy(l->from));
    CHECK(cuEventDestroy(l->to));
    CHECK(cuDevicePrimaryCtxRelease(device));
}

/* All lanes copy at once; returns the milliseconds until the last is done. */
static double together(struct lane *lanes, int n, char *host, bool in)
{
    double start = now_ms();
    for (int i = 0; i < n; host += lanes[i++].bytes) {
        struct lane *l = &lanes[i];
        enter(l->context);
        CHECK(cuEventRecord(l->from, l->stream));
        CHECK(in ? cuMemcpyHtoDAsync(l->block, host, l->bytes, l->stream)
                 : cuMemcpyDtoHAsync(host, l->block, l->bytes, l->stream));
        CHECK(cuEventRecord(l->to, l->stream));
    }
    for (int i = 0; i < n; i++) {
        enter(lanes[i].context);
        CHECK(cuStreamSynchronize(lanes[i].stream));
    }
    double took = now_ms() - start;
    for (int i = 0; i < n; i++) {
        CHECK(cuEventElapsedTime(&lanes[i].ms, lanes[i].from, lanes[i].to));
        lanes[i].ms = lanes[i].ms > 1 ? lanes[i].ms : 1; /* A simulated one has no times. */
    }
    return took;
}

/* The best of five, in GB/s; with shares, each follows ten rounds before of what every lane got
 * through. */
static double best_together(struct lane *lanes, int n, char *host, bool in, bool shares)
{
    double least = 1e9, sum = 0;
    for (int i = 0; i < n; i++)
        lanes[i].bytes = BYTES;
    for (int round = shares ? -10 : 0; round < 5; round++) {
        double took = together(lanes, n, host, in);
        least = round >= 0 && took < least ? took : least;
        sum = 0;
        for (int i = 0; i < n; i++)
            sum += (double)lanes[i].bytes / lanes[i].ms;
        for (int i = 0; i < n && shares && round < 0; i++)
            lanes[i].bytes =
                (size_t)((double)lanes[i].bytes / lanes[i].ms / sum * BYTES * n) / MIB * MIB;
    }
    double all = 0;
    for (int i = 0; i < n; i++)
        all += (double)lanes[i].bytes;
    return all / least * 1e-6;
}

/* The rate of the host's memory and the links of as many devices, in equal parts and in those
 * by which all end at the same time.  Nothing goes from device to device. */
static void at_once(int devices)
{
    struct lane lanes[8];
    char *host;
    devices = devices < 8 ? devices : 8;
    for (int i = 0; i < devices; i++)
        lane_start(&lanes[i], i);
    CHECK(cuMemHostAlloc((void **)&host, BYTES * (size_t)devices, CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 1, BYTES * (size_t)devices);
    for (int n = 1; n <= devices; n++)
        for (int in = 1; in >= 0; in--)
            for (int shares = 0; shares < 2; shares++) {
                printf("%d devices at once, %s their own memory, %s parts: %.1f GB/s together;", n,
                       in ? "to" : "from", shares ? "timed" : "equal",
                       best_together(lanes, n, host, in, shares));
                for (int i = 0; i < n; i++)
                    printf(" %zu MiB in %.2f ms", lanes[i].bytes / MIB, (double)lanes[i].ms);
                printf("\n");
            }
    CHECK(cuMemFreeHost(host));
    for (int i = 0; i < devices; i++)
        lane_end(&lanes[i], i);
}

/* The effect of another process's context and memory on a device on cuMemGetInfo there. */
static void strangers(const char *program, int device)
{
    CUcontext context;
    size_t left[2], total;
    char command[4200];
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuMemGetInfo(&left[0], &total));
    double start = now_ms();
    CHECK(cuMemGetInfo(&left[0], &total));
    double took = now_ms() - start;
    snprintf(command, sizeof(command), "exec '%s' %d", program, device);
    FILE *other = popen(command, "w");
    for (int i = 0; i < 100 && cuMemGetInfo(&left[1], &total) == CUDA_SUCCESS; i++) {
        if (left[0] - left[1] > 64 * MIB)
            break;
        usleep(100000);
    }
    usleep(500000);
    start = now_ms();
    CHECK(cuMemGetInfo(&left[1], &total));
    printf("cuMemGetInfo in a context on device %d: %zu of %zu MiB are taken, asked in %.3f ms; "
           "with a context of another process %zu MiB more, asked in %.3f ms\n",
           device, (total - left[0]) / MIB, total / MIB, took, (left[0] - left[1]) / MIB,
           now_ms() - start);
    if (other) {
        fputs("over\n", other);
        pclose(other);
    }
    CHECK(cuCtxDestroy(context));
}

/* The other process, until it is told to end. */
static int stay(int device)
{
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    return getchar() == EOF;
}

int main(int argc, char **argv)
{
    int devices = 0;
    if (argc > 1)
        return stay(atoi(argv[1]));
    CUcontext home, there;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < 2) {
        fprintf(stderr, "link_facts: needs two GPUs\n");
        return 77;
    }
    pairs(devices);
    at_once(devices);
    CHECK(cuDevicePrimaryCtxRetain(&home, 0));
    CHECK(cuDevicePrimaryCtxRetain(&there, 1));
    CUcontext far = make_context(1, there);
    host_memory(home, far);
    enter(home);
    printf("cuMemAlloc of 64 MiB on device 0: %.3f ms\n", allocation());
    relay(home, far);
    enter(home);
    printf("cuMemAlloc of 64 MiB on device 0, which device 1's context reaches: %.3f ms\n",
           allocation());
    held(home, far, there);
    beside(home, far);
    strangers(argv[0], devices - 1);
    return 0;
}
