/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver which copies and sets of host memory it makes with the CPU, and up to which size:
 * the CPU may not touch the memory, and what the fault handler sees is the driver's doing.  Prints
 * one line for each call and kind of memory, so that the simulated GPU can be compared with a real
 * one.
 *
 *   copy_facts      ends with status 77 where no GPU answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST ((size_t)2 << 20) /* Bytes of the largest copy, and of every allocation. */
#define ROWS 4                 /* Of two-dimensional copies of at least so many bytes. */
#define PAUSE_US 2000          /* Length of the work that a call may wait for. */
#define PATIENCE 10000         /* Pauses after which a stream goes on although no call returned. */

/* When the memory was touched, and by which thread. */
enum touch { NEVER, IN_CALL, IN_WAIT, BY_THREAD, REFUSED };
static const char *const touch_names[] = {"never", "in the call", "in the wait",
                                          "by another thread", "refused"};

static char *watched;       /* MOST bytes that the CPU may not touch */
static pthread_t caller;    /* the thread that calls the driver */
static atomic_bool waiting; /* the call has returned */
static atomic_int touched;  /* enum touch */
static bool may_wait;       /* asynchronous calls with the memory may wait for their stream */

static CUdeviceptr device; /* MOST bytes */
static char *pinned;       /* the same, of the driver's */
static CUarray array;      /* MOST bytes, in rows of 64 KiB */
static CUstream stream, other;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    size_t at = (size_t)((char *)info->si_addr - watched);

    (void)context;
    if (at >= MOST) {
        struct sigaction standard = {.sa_handler = SIG_DFL};
        sigaction(signal, &standard, NULL);
        return;
    }
    touched = !pthread_equal(pthread_self(), caller) ? BY_THREAD : waiting ? IN_WAIT : IN_CALL;
    mprotect(watched, MOST, PROT_READ | PROT_WRITE);
}

/* Keeps a stream from going on until the call that is asked about has returned, however slow the
 * machine is; for a while where the call may wait for the stream. */
static void CUDA_CB hold_stream(void *unused)
{
    (void)unused;
    for (int i = 0; i < (may_wait ? 1 : PATIENCE) && !waiting; i++)
        usleep(PAUSE_US);
}

static CUresult to_device(char *host, size_t n)
{
    return cuMemcpyHtoD(device, host, n);
}

static CUresult to_device_by_address(char *host, size_t n)
{
    return cuMemcpy(device, (CUdeviceptr)host, n);
}

static CUresult to_device_from_odd(char *host, size_t n)
{
    return cuMemcpyHtoD(device + 3, host + 1, n < MOST ? n : n - 3);
}

static CUresult to_device_async(char *host, size_t n)
{
    return cuMemcpyHtoDAsync(device, host, n, stream);
}

static CUresult to_device_behind(char *host, size_t n)
{
    cuLaunchHostFunc(stream, hold_stream, NULL);
    return cuMemcpyHtoDAsync(device, host, n, stream);
}

static CUresult to_device_beside(char *host, size_t n)
{
    cuLaunchHostFunc(other, hold_stream, NULL);
    return cuMemcpyHtoDAsync(device, host, n, stream);
}

static CUDA_MEMCPY2D rows(size_t n)
{
    size_t height = n < ROWS ? 1 : ROWS;

    return (CUDA_MEMCPY2D){.srcPitch = MOST / ROWS,
                           .dstPitch = MOST / ROWS,
                           .WidthInBytes = n / height,
                           .Height = height};
}

static CUDA_MEMCPY2D rows_to_device(char *host, size_t n)
{
    CUDA_MEMCPY2D c = rows(n);

    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = host;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = device;
    return c;
}

static CUresult rows_to_device_sync(char *host, size_t n)
{
    CUDA_MEMCPY2D c = rows_to_device(host, n);

    return cuMemcpy2D(&c);
}

static CUresult rows_to_device_async(char *host, size_t n)
{
    CUDA_MEMCPY2D c = rows_to_device(host, n);

    return cuMemcpy2DAsync(&c, stream);
}

static CUresult rows_to_host(char *host, size_t n)
{
    CUDA_MEMCPY2D c = rows(n);

    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = device;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = host;
    return cuMemcpy2D(&c);
}

static CUresult to_array(char *host, size_t n)
{
    return n > 65536 ? CUDA_ERROR_INVALID_VALUE : cuMemcpyHtoA(array, 0, host, n);
}

static CUresult from_array(char *host, size_t n)
{
    return n > 65536 ? CUDA_ERROR_INVALID_VALUE : cuMemcpyAtoH(host, array, 0, n);
}

static CUresult to_host(char *host, size_t n)
{
    return cuMemcpyDtoH(host, device, n);
}

static CUresult to_host_async(char *host, size_t n)
{
    return cuMemcpyDtoHAsync(host, device, n, stream);
}

static CUresult to_host_behind(char *host, size_t n)
{
    cuLaunchHostFunc(stream, hold_stream, NULL);
    return cuMemcpyDtoHAsync(host, device, n, stream);
}

static CUresult to_pinned(char *host, size_t n)
{
    return cuMemcpy((CUdeviceptr)pinned, (CUdeviceptr)host, n);
}

static CUresult to_pinned_async(char *host, size_t n)
{
    return cuMemcpyAsync((CUdeviceptr)pinned, (CUdeviceptr)host, n, stream);
}

static CUresult from_pinned(char *host, size_t n)
{
    return cuMemcpy((CUdeviceptr)host, (CUdeviceptr)pinned, n);
}

static CUresult from_pinned_async(char *host, size_t n)
{
    return cuMemcpyAsync((CUdeviceptr)host, (CUdeviceptr)pinned, n, stream);
}

static CUresult set(char *host, size_t n)
{
    return cuMemsetD8((CUdeviceptr)host, 1, n);
}

static CUresult set_async(char *host, size_t n)
{
    return cuMemsetD8Async((CUdeviceptr)host, 1, n, stream);
}

/* A graph of one copy to the device. */
static CUresult capture(char *host, size_t n, CUgraphExec *exec)
{
    CUgraph graph;
    CUresult r;

    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    cuMemcpyHtoDAsync(device, host, n, stream);
    r = cuStreamEndCapture(stream, &graph);
    if (r != CUDA_SUCCESS)
        return r;
    r = cuGraphInstantiate(exec, graph, 0);
    cuGraphDestroy(graph);
    return r;
}

static CUresult captured(char *host, size_t n)
{
    CUgraphExec exec;
    CUresult r = capture(host, n, &exec);

    return r == CUDA_SUCCESS ? cuGraphExecDestroy(exec) : r;
}

/* Only the launch is looked at. */
static CUresult launch(char *host, size_t n, bool behind)
{
    CUgraphExec exec;
    CUresult r;

    mprotect(watched, MOST, PROT_READ | PROT_WRITE);
    r = capture(host, n, &exec);
    touched = NEVER;
    mprotect(watched, MOST, PROT_NONE);
    if (r != CUDA_SUCCESS)
        return r;
    if (behind)
        cuLaunchHostFunc(stream, hold_stream, NULL);
    r = cuGraphLaunch(exec, stream);
    waiting = 1;
    cuStreamSynchronize(stream);
    cuGraphExecDestroy(exec);
    return r;
}

static CUresult launched(char *host, size_t n)
{
    return launch(host, n, false);
}

static CUresult launched_behind(char *host, size_t n)
{
    return launch(host, n, true);
}

static const struct {
    const char *name;
    CUresult (*run)(char *host, size_t n); /* makes one copy or set of n bytes; need not wait */
} calls[] = {
    {"cuMemcpyHtoD", to_device},
    {"cuMemcpy to the device", to_device_by_address},
    {"cuMemcpyHtoD between odd addresses", to_device_from_odd},
    {"cuMemcpyHtoDAsync", to_device_async},
    {"cuMemcpyHtoDAsync behind other work", to_device_behind},
    {"cuMemcpyHtoDAsync beside other work", to_device_beside},
    {"cuMemcpy2D to the device", rows_to_device_sync},
    {"cuMemcpy2DAsync to the device", rows_to_device_async},
    {"cuMemcpyHtoA", to_array},
    {"cuMemcpyDtoH", to_host},
    {"cuMemcpyDtoHAsync", to_host_async},
    {"cuMemcpyDtoHAsync behind other work", to_host_behind},
    {"cuMemcpy2D from the device", rows_to_host},
    {"cuMemcpyAtoH", from_array},
    {"cuMemcpy to pinned", to_pinned},
    {"cuMemcpyAsync to pinned", to_pinned_async},
    {"cuMemcpy from pinned", from_pinned},
    {"cuMemcpyAsync from pinned", from_pinned_async},
    {"cuMemsetD8", set},
    {"cuMemsetD8Async", set_async},
    {"cuMemcpyHtoDAsync captured", captured},
    {"cuMemcpyHtoDAsync in a graph", launched},
    {"cuMemcpyHtoDAsync in a graph behind other work", launched_behind},
};

static enum touch ask(size_t call, char *host, size_t n)
{
    CUresult r;

    watched = host;
    touched = NEVER;
    waiting = 0;
    mprotect(host, MOST, PROT_NONE);
    r = calls[call].run(host, n);
    waiting = 1;
    cuStreamSynchronize(stream);
    cuCtxSynchronize();
    mprotect(host, MOST, PROT_READ | PROT_WRITE);
    return r == CUDA_SUCCESS ? (enum touch)touched : REFUSED;
}

/* The largest size that answers as `low` does, where `high` answers otherwise. */
static size_t last_of(size_t call, char *host, size_t low, size_t high, enum touch answer)
{
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (ask(call, host, middle) == answer)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void print_call(size_t call, const char *memory, char *host)
{
    enum touch answer = ask(call, host, 1);

    printf("%s, %s:", calls[call].name, memory);
    for (size_t n = 2; n <= MOST; n *= 2) {
        enum touch next = ask(call, host, n);

        if (next != answer)
            printf(" %s up to %zu,", touch_names[answer], last_of(call, host, n / 2, n, answer));
        answer = next;
    }
    printf(" %s\n", touch_names[answer]);
    fflush(stdout);
}

static char *pages(void)
{
    char *p = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    memset(p, 1, MOST);
    return p;
}

static char *registered(unsigned flags)
{
    char *p = pages();

    if (cuMemHostRegister(p, MOST, flags) != CUDA_SUCCESS)
        exit(1);
    return p;
}

static char *allocated(unsigned flags)
{
    void *p = NULL;

    if (cuMemHostAlloc(&p, MOST, flags) != CUDA_SUCCESS)
        exit(1);
    memset(p, 1, MOST);
    return p;
}

/* 77 where there is no GPU, 1 where something is refused that must not be. */
static int start(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {65536, MOST / 65536, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CUcontext context;
    CUdevice gpu;

    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&gpu, 0) != CUDA_SUCCESS)
        return 77;
    if (cuDevicePrimaryCtxRetain(&context, gpu) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuMemAlloc(&device, MOST + 16) != CUDA_SUCCESS ||
        cuArrayCreate(&array, &shape) != CUDA_SUCCESS ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return 1;
    pinned = allocated(0);
    caller = pthread_self();
    return sigaction(SIGSEGV, &action, NULL) == 0 ? 0 : 1;
}

int main(void)
{
    int status = start();

    if (status == 77)
        fputs("copy_facts: no GPU answers\n", stderr);
    if (status != 0)
        return status;
    struct {
        const char *name;
        char *bytes;
    } memory[] = {
        {"registered", registered(0)},
        {"registered for reading", registered(CU_MEMHOSTREGISTER_READ_ONLY)},
        {"from the driver", allocated(0)},
        {"from the driver, write-combined", allocated(CU_MEMHOSTALLOC_WRITECOMBINED)},
        {"pageable", pages()},
    };
    for (size_t m = 0; m < sizeof(memory) / sizeof(memory[0]); m++) {
        may_wait = !strcmp(memory[m].name, "pageable");
        for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
            print_call(c, memory[m].name, memory[m].bytes);
    }
    return 0;
}
