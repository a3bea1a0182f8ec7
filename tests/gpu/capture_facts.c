/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver which calls wait for earlier work while a stream of the context captures, for a
 * thread in relaxed capture mode: what the call returns, whether the work was done then, and what
 * the end of the capture returns.  The work is a host function that ends once the call has
 * returned, or after a while.  Prints one line a question.  Each question has a process of its own,
 * because some errors stay.
 *
 *   capture_facts    ends with status 77 where no GPU answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE ((size_t)2 << 20)

static CUcontext context;
static CUdeviceptr small_block, large_block, other_block;
static CUevent before; /* Recorded behind the work, before the capture begins. */
static CUevent event;
static CUstream slow;  /* The stream that the work is in. */
static CUstream fresh; /* Not blocking, and idle. */
static void *registered, *pinned;
static volatile int asked; /* The call has returned. */
static volatile int done;  /* The work has ended. */

static void CUDA_CB take_a_while(void *data)
{
    (void)data;
    for (int i = 0; i < 250 && !asked; i++)
        usleep(1000);
    done = 1;
}

static void start(void)
{
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        exit(77);
    cuMemAlloc(&small_block, 4096);
    cuMemAlloc(&large_block, LARGE);
    cuMemAlloc(&other_block, LARGE);
    cuMemHostAlloc(&pinned, LARGE, 0);
    registered = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cuMemHostRegister(registered, LARGE, 0);
    cuEventCreate(&before, CU_EVENT_DISABLE_TIMING);
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING);
}

static CUresult wait_context(void)
{
    return cuCtxSynchronize();
}
static CUresult wait_stream(void)
{
    return cuStreamSynchronize(slow);
}
static CUresult wait_legacy(void)
{
    return cuStreamSynchronize(CU_STREAM_LEGACY);
}
static CUresult query_stream(void)
{
    return cuStreamQuery(slow);
}
static CUresult wait_event_before(void)
{
    return cuEventSynchronize(before);
}

static CUresult wait_event(void)
{
    CUresult result = cuEventRecord(event, slow);
    return result == CUDA_SUCCESS ? cuEventSynchronize(event) : result;
}

static CUresult free_small(void)
{
    return cuMemFree(small_block);
}
static CUresult free_large(void)
{
    return cuMemFree(large_block);
}
static CUresult unregister(void)
{
    return cuMemHostUnregister(registered);
}
static CUresult free_pinned(void)
{
    return cuMemFreeHost(pinned);
}
static CUresult copy_waiting(void)
{
    return cuMemcpyDtoD(large_block, other_block, 4096);
}
static CUresult set_waiting(void)
{
    return cuMemsetD8(large_block, 1, 4096);
}
static CUresult read_waiting(void)
{
    return cuMemcpyDtoH(pinned, other_block, 4096);
}

static CUresult copy_fresh(void)
{
    CUresult result = cuMemcpyDtoHAsync(pinned, other_block, 4096, fresh);
    return result == CUDA_SUCCESS ? cuStreamSynchronize(fresh) : result;
}

static CUresult record_context(void)
{
    CUresult result = cuCtxRecordEvent(context, event);
    return result == CUDA_SUCCESS ? cuEventSynchronize(event) : result;
}

static CUresult register_page(void)
{
    void *page = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return cuMemHostRegister(page, LARGE, 0);
}

static const struct question {
    const char *name;
    CUresult (*ask)(void);
} questions[] = {
    {"context synchronised", wait_context},
    {"its stream synchronised", wait_stream},
    {"legacy stream synchronised", wait_legacy},
    {"its stream queried", query_stream},
    {"event from before synchronised", wait_event_before},
    {"event recorded and synchronised", wait_event},
    {"event of the context", record_context},
    {"block of 4 KiB freed", free_small},
    {"block of 2 MiB freed", free_large},
    {"memory unregistered", unregister},
    {"memory registered", register_page},
    {"pinned memory freed", free_pinned},
    {"copy on the device", copy_waiting},
    {"copy to the host", read_waiting},
    {"set", set_waiting},
    {"copy in a stream of its own", copy_fresh},
};

static void answer(const struct question *q, const char *where, unsigned kind, unsigned capturing)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec;

    start();
    slow = CU_STREAM_LEGACY;
    if (kind != 2)
        cuStreamCreate(&slow, kind);
    cuStreamCreate(&stream, capturing);
    cuLaunchHostFunc(slow, take_a_while, NULL);
    cuEventRecord(before, slow);
    CUresult begun = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = q->ask();
    int was_done = done;
    asked = 1;
    cuThreadExchangeStreamCaptureMode(&mode);
    cuMemsetD8Async(other_block, 7, 4096, stream);
    CUresult end = cuStreamEndCapture(stream, &graph);
    printf("%s stream's work, %s stream captures, %s: %d, %s, begun %d, end %d", where,
           capturing ? "independent" : "blocking", q->name, (int)result,
           was_done ? "done" : "pending", (int)begun, (int)end);
    if (end == CUDA_SUCCESS) {
        result = cuGraphInstantiate(&exec, graph, 0);
        printf(", launched %d", (int)(result ? result : cuGraphLaunch(exec, fresh)));
        printf(", ran %d", (int)cuStreamSynchronize(fresh));
    }
    printf("\n");
}

static void in_child(const struct question *q, const char *where, unsigned kind, unsigned capturing)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        answer(q, where, kind, capturing);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        exit(77);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        printf("%s stream's work, %s: ended by %d\n", where, q->name, status);
}

int main(void)
{
    static const char *const where[] = {"blocking", "independent", "legacy"};
    for (unsigned capturing = 0; capturing < 2; capturing++)
        for (unsigned kind = 0; kind < 3; kind++)
            for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++)
                in_child(&questions[i], where[kind], kind, capturing);
    return 0;
}
