/* SPDX-License-Identifier: MIT */
/* Calls that are the first to tell of a kernel that wrote a block which kernels may only read.
 * Usage: shared_told CALL; without an argument it prints the calls that it knows. */
#include "shared_scene.h"

static CUstream stream;
static CUevent event, other_event;
static CUmodule module;
static CUfunction kernel;
static CUgraphExec exec;
static CUdeviceptr device;
static void *pinned;
static char *pages;
static char bytes[4096];

/* Output of calls that nobody wants. */
static union {
    float ms;
    size_t size;
    void *pointer;
    CUdeviceptr address;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    unsigned flags;
} out;

static struct pair shared;

static void CUDA_CB told(void *unused)
{
    (void)unused;
}

/* As the runtime waits for the device. */
static CUresult ctx_synchronize_v2(void)
{
    CUresult (*wait)(CUcontext);
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGetProcAddress("cuCtxSynchronize", (void **)&wait, 13000, 0, NULL));
    return wait(context);
}

/* Name and call. What pointers and flags are is answered all the same (measured on an H200). */
#define CALLS(CALL)                                                                                \
    CALL(cuMemAlloc, cuMemAlloc(&out.address, 4096))                                               \
    CALL(cuMemAllocPitch, cuMemAllocPitch(&out.address, &out.size, 4096, 4, 4))                    \
    CALL(cuMemAllocManaged, cuMemAllocManaged(&out.address, 4096, CU_MEM_ATTACH_GLOBAL))           \
    CALL(cuMemAllocAsync, cuMemAllocAsync(&out.address, 4096, NULL))                               \
    CALL(cuMemFree, cuMemFree(device))                                                             \
    CALL(cuMemFree_shared, cuMemFree(shared.d))                                                    \
    CALL(cuMemFreeAsync, cuMemFreeAsync(device, NULL))                                             \
    CALL(cuMemAllocHost, cuMemAllocHost(&out.pointer, 4096))                                       \
    CALL(cuMemHostAlloc, cuMemHostAlloc(&out.pointer, 4096, 0))                                    \
    CALL(cuMemFreeHost, cuMemFreeHost(pinned))                                                     \
    CALL(cuMemHostRegister, cuMemHostRegister(pages + 4096, 4096, 0))                              \
    CALL(cuMemHostUnregister, cuMemHostUnregister(pages))                                          \
    CALL(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer(&out.address, pinned, 0))            \
    CALL(cuMemGetInfo, cuMemGetInfo(&out.size, &out.size))                                         \
    CALL(cuMemcpyHtoD, cuMemcpyHtoD(device, bytes, sizeof(bytes)))                                 \
    CALL(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync(pinned, device, 4096, stream))                       \
    CALL(cuMemsetD8Async, cuMemsetD8Async(device, 1, 4096, stream))                                \
    CALL(cuStreamCreate, cuStreamCreate(&out.stream, 0))                                           \
    CALL(cuStreamDestroy, cuStreamDestroy(stream))                                                 \
    CALL(cuStreamSynchronize, cuStreamSynchronize(stream))                                         \
    CALL(cuStreamQuery, cuStreamQuery(stream))                                                     \
    CALL(cuStreamWaitEvent, cuStreamWaitEvent(stream, event, 0))                                   \
    CALL(cuStreamIsCapturing, cuStreamIsCapturing(stream, &out.status))                            \
    CALL(cuStreamGetFlags, cuStreamGetFlags(stream, &out.flags))                                   \
    CALL(cuStreamBeginCapture, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED))       \
    CALL(cuLaunchHostFunc, cuLaunchHostFunc(stream, told, NULL))                                   \
    CALL(cuEventCreate, cuEventCreate(&out.event, 0))                                              \
    CALL(cuEventDestroy, cuEventDestroy(event))                                                    \
    CALL(cuEventRecord, cuEventRecord(event, stream))                                              \
    CALL(cuEventRecordWithFlags, cuEventRecordWithFlags(event, stream, 0))                         \
    CALL(cuEventQuery, cuEventQuery(event))                                                        \
    CALL(cuEventSynchronize, cuEventSynchronize(event))                                            \
    CALL(cuEventElapsedTime, cuEventElapsedTime(&out.ms, event, other_event))                      \
    CALL(cuCtxSynchronize, cuCtxSynchronize())                                                     \
    CALL(cuCtxSynchronize_v2, ctx_synchronize_v2())                                                \
    CALL(cuModuleLoadData, cuModuleLoadData(&out.module, ""))                                      \
    CALL(cuModuleUnload, cuModuleUnload(module))                                                   \
    CALL(cuModuleGetGlobal, cuModuleGetGlobal(&out.address, NULL, module, "none"))                 \
    CALL(cuGraphLaunch, cuGraphLaunch(exec, stream))                                               \
    CALL(cuLaunchKernel, cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL))

#define CALL(name, call)                                                                           \
    static CUresult call_##name(void)                                                              \
    {                                                                                              \
        return call;                                                                               \
    }
CALLS(CALL)
#undef CALL

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {
#define CALL(name, call) {#name, call_##name},
    CALLS(CALL)
#undef CALL
};

static int nothing_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args, (void)launch;
    return 0;
}

static void make_objects(void)
{
    CUgraph graph;
    sim_kernel_register("nothing", nothing_grid, 0, NULL);
    CHECK(cuModuleLoadData(&module, ""));
    CHECK(cuModuleGetFunction(&kernel, module, "nothing"));
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventCreate(&other_event, 0));
    CHECK(cuEventRecord(event, stream));
    CHECK(cuEventRecord(other_event, stream));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuMemAlloc(&device, 4096));
    CHECK(cuMemHostAlloc(&pinned, 4096, 0));
    pages = aligned_alloc(4096, 8192);
    EXPECT(pages);
    CHECK(cuMemHostRegister(pages, 4096, 0));
}

/* The kernel has failed when this returns, and no call has told of it. */
static void fail(void)
{
    size_t from = 0, n = SIZE;
    unsigned seed = 2;
    int *result = NULL;
    void *args[] = {&shared.d, &from, &n, &seed, &result};
    CUfunction writer = kernel_of(PAINT);
    CHECK(cuLaunchKernel(writer, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    wait_for_error();
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (argc < 2)
            puts(calls[i].name);
        if (argc < 2 || strcmp(argv[1], calls[i].name))
            continue;
        start_gpu(0);
        make_objects();
        shared = new_pair(SIZE);
        paint(shared.h, SIZE, 1);
        CHECK(cuMemcpyHtoD(shared.d, shared.h, SIZE));
        CHECK(cuCtxSynchronize());
        fail();
        printf("%s -> %d\n", calls[i].name, (int)calls[i].call());
        return 0;
    }
    return argc < 2 ? 0 : 2;
}
