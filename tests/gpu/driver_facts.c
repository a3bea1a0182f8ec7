/* SPDX-License-Identifier: MIT */
/*
 * Asks the CUDA driver what the simulated GPU has to imitate: error codes, pointer attributes,
 * which calls wait for what, and what a stream capture allows.  Prints one line a fact, without
 * addresses and times, so that two drivers can be compared by comparing their output.
 *
 *   driver_facts      ends with status 77 where no driver answers
 *
 * The facts themselves are the rows of driver_facts.def.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pointer_facts.h"

#if CUDA_VERSION < 13000
#define cuMemPrefetchAsync cuMemPrefetchAsync_v2
#define cuMemAdvise cuMemAdvise_v2
#endif

#define MIB ((size_t)1 << 20)
#define HOST_BYTES (16 * MIB)
#define WAIT_NS 200000000L /* How long pending work lasts when a call waits for it. */

/* Device 0 and what the rows allocate on it. */
static CUdevice device;
static CUcontext context;
static CUstream stream, second, apart; /* Two blocking streams and a non-blocking one. */
static CUevent event;
static CUmemoryPool pool;
static CUdeviceptr a, b, m, p, q, v, y, z;
static void *h, *other, *nothing;
static void *hosts[6], *other_host; /* Pinned host memory. */
static CUcontext passing;           /* A context that is destroyed again. */
static char *range, *moved;         /* Pages that are registered, and where some of them went. */
static unsigned long long id;
static char *pages, *spare; /* Pageable memory, HOST_BYTES each, page-aligned. */
static size_t pitch, bytes;
static unsigned flags;
static int number;
static CUipcMemHandle ipc;
static CUmemGenericAllocationHandle handle;
static const CUmemLocation on_device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
static const CUmemAllocationProp properties = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    .allocFlags = {.gpuDirectRDMACapable = 1},
};
static const CUmemAccessDesc access_of_device = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

/* Bytes of device memory that went since the first call. */
static long long free_bytes_taken(void)
{
    static size_t first;
    size_t left = 0, total;

    cuMemGetInfo(&left, &total);
    if (first == 0)
        first = left;
    return (long long)(first - left);
}

static long long pool_bytes(CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;

    return cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? (long long)value : -1;
}

static CUresult create_pool(cuuint64_t release_threshold)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult result = cuMemPoolCreate(&pool, &props);

    return result == CUDA_SUCCESS
               ? cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &release_threshold)
               : result;
}

static CUresult set_sync_memops(CUdeviceptr pointer)
{
    int on = 1;

    return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer);
}

static CUresult record_and_wait(CUstream where)
{
    CUresult result = cuEventRecord(event, where);

    return result == CUDA_SUCCESS ? cuEventSynchronize(event) : result;
}

/* The result of cuMemHostGetFlags, -1 where it refuses. */
static long long flags_of(void *memory)
{
    unsigned value = 0;

    return cuMemHostGetFlags(&value, memory) == CUDA_SUCCESS ? (long long)value : -1;
}

static long long is_zero(const void *memory, size_t size)
{
    const char *at = memory;

    return size == 0 || (at[0] == 0 && memcmp(at, at + 1, size - 1) == 0);
}

/* Whether pinned memory is zero also where the program freed as much of it just before. */
static long long zero_again(size_t size)
{
    void *memory = NULL;
    long long zero;

    if (cuMemHostAlloc(&memory, size, 0) != CUDA_SUCCESS)
        return -1;
    memset(memory, 1, size);
    cuMemFreeHost(memory);
    if (cuMemHostAlloc(&memory, size, 0) != CUDA_SUCCESS)
        return -1;
    zero = is_zero(memory, size);
    cuMemFreeHost(memory);
    return zero;
}

static int device_attribute(CUdevice_attribute attribute)
{
    int value = -1;

    return cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : -1;
}

/* Registers new pages in which every byte is 1. */
static CUresult register_pages(int sharing)
{
    range = mmap(NULL, MIB, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return cuMemHostRegister(memset(range, 1, MIB), MIB, 0);
}

/* The first byte that a copy from there brings to the device, -1 where the copy is refused. */
static long long byte_from(const char *memory)
{
    char byte = 9;

    cuMemsetD8(z, 8, MIB);
    if (cuMemcpyHtoD(z, memory, MIB) != CUDA_SUCCESS || cuMemcpyDtoH(&byte, z, 1) != CUDA_SUCCESS)
        return -1;
    return byte;
}

/* Moves registered pages to other addresses. */
static int move_pages(void)
{
    moved = mremap(range, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, spare);
    return moved == spare ? 0 : errno;
}

static CUresult create_context(CUcontext *out)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(out, NULL, 0, device);
#else
    return cuCtxCreate(out, 0, device);
#endif
}

static void pitch_fact(const char *name, size_t width, unsigned element)
{
    CUdeviceptr block, base = 0;
    size_t size = 0;
    CUresult result = cuMemAllocPitch(&block, &pitch, width, 7, element);

    if (result == CUDA_SUCCESS && cuMemGetAddressRange(&base, &size, block) == CUDA_SUCCESS)
        cuMemFree(block);
    printf("%s: %s, pitch %zu, size %zu\n", name, code(result), pitch, size);
}

/* Pending work that ends when the call under test has returned, or else after WAIT_NS: then the
 * call was waiting for it.  So a call that does not wait may take its time on a busy machine. */
static struct {
    sem_t returned; /* Posted once the call has returned. */
    int waited;     /* Whether the time was up first. */
} pending;

static void CUDA_CB pending_work(void *unused)
{
    struct timespec end;

    (void)unused;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += WAIT_NS;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    while (sem_timedwait(&pending.returned, &end) != 0)
        if (errno == ETIMEDOUT) {
            pending.waited = 1;
            return;
        }
}

/* Keeps a stream busy until release_stream(), or for WAIT_NS. */
static CUresult hold_stream(CUstream busy)
{
    sem_init(&pending.returned, 0, 0);
    return cuLaunchHostFunc(busy, pending_work, NULL);
}

static CUresult release_stream(CUstream busy)
{
    sem_post(&pending.returned);
    return cuStreamSynchronize(busy);
}

static void wait_fact(const char *name, CUstream busy, long long (*call)(void))
{
    long long result;

    cuCtxSynchronize();
    sem_init(&pending.returned, 0, 0);
    pending.waited = 0;
    cuLaunchHostFunc(busy, pending_work, NULL);
    result = call();
    sem_post(&pending.returned);
    cuCtxSynchronize();
    printf("%s: %s, %s\n", name, pending.waited ? "waits" : "does not wait", code(result));
}

static void capture_fact(const char *name, int mode, long long (*call)(void))
{
    CUgraph graph = NULL;
    long long result;

    cuStreamBeginCapture(apart, (CUstreamCaptureMode)mode);
    result = call();
    printf("%s: %s, ", name, code(result));
    printf("end of capture: %s\n", code(cuStreamEndCapture(apart, &graph)));
    if (graph != NULL)
        cuGraphDestroy(graph);
}

static void child_fact(const char *name, long long (*call)(void))
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        printf("%s: %s\n", name, code(call()));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static sigjmp_buf before_the_call;
static pthread_t caller;

/* A thread of the driver's can't go on from here, and neither can the facts. */
static void on_fault(int signal)
{
    static const char text[] = "SIGSEGV in a thread of the driver's\n";

    if (pthread_equal(pthread_self(), caller))
        siglongjmp(before_the_call, signal);
    _exit(write(STDOUT_FILENO, text, sizeof(text) - 1) < 0);
}

/* The result of a call that may end with a fault in the driver. */
static long long guarded(long long (*call)(void))
{
    const struct sigaction fault = {.sa_handler = on_fault};
    struct sigaction before;
    volatile long long result = FAULTED;

    fflush(stdout);
    caller = pthread_self();
    sigaction(SIGSEGV, &fault, &before);
    if (sigsetjmp(before_the_call, 1) == 0)
        result = call();
    sigaction(SIGSEGV, &before, NULL);
    return result;
}

/* Every row's call as a function, then every row's line in the order of the table. */
#define ROW(name, expression)                                                                      \
    static long long call_##name(void)                                                             \
    {                                                                                              \
        return (long long)(expression);                                                            \
    }
#define FACT(name, call) ROW(name, call)
#define NUMBER(name, expression) ROW(number_##name, expression)
#define SHOW(name, pointer) ROW(show_##name, pointer)
#define PITCH(name, width, element)
#define WAIT(name, busy, call) ROW(name, call)
#define CAPTURE(name, mode, call) ROW(name, call)
#define CHILD(name, call) ROW(name, call)
#define GUARDED(name, call) ROW(name, call)
#include "driver_facts.def"
#undef FACT
#undef NUMBER
#undef SHOW
#undef PITCH
#undef WAIT
#undef CAPTURE
#undef CHILD
#undef GUARDED

static void print_facts(void)
{
#define FACT(name, call) printf("%s: %s\n", #name, code(call_##name()));
#define NUMBER(name, expression) printf("%s: %lld\n", #name, call_number_##name());
#define SHOW(name, pointer) show(#name, (CUdeviceptr)call_show_##name());
#define PITCH(name, width, element) pitch_fact(#name, width, element);
#define WAIT(name, busy, call) wait_fact(#name, busy, call_##name);
#define CAPTURE(name, mode, call) capture_fact(#name, mode, call_##name);
#define CHILD(name, call) child_fact(#name, call_##name);
#define GUARDED(name, call)                                                                        \
    printf("%s: ", #name);                                                                         \
    puts(code(guarded(call_##name)));
#include "driver_facts.def"
}

static char *host_memory(void)
{
    char *memory =
        mmap(NULL, HOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memset(memory, 1, HOST_BYTES);
}

int main(void)
{
    int count = 0;

    pages = host_memory();
    spare = host_memory();
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0) {
        fputs("driver_facts: no GPU answers\n", stderr);
        return 77;
    }
    print_facts();
    return fflush(stdout) == 0 ? 0 : 1;
}
