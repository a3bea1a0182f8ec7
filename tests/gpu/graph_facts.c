/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver what it says of graph nodes, stream values and textures that name memory wrongly,
 * and of which kinds of memory it takes them: at once, at the launch or when that ran.  Prints one
 * line a question, so that the simulated GPU can be compared with a real one.  Each question has a
 * process of its own, because some errors stay.
 *
 *   graph_facts      ends with status 77 where no GPU answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)3 << 20) /* Bytes of every block: a page and a half of the driver's. */

static CUcontext context;
static CUdeviceptr alloc, host, managed, mapping, pooled, freed;
static char memory[64];

static void start(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    void *p = NULL;

    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
        exit(77);
    cuMemAlloc(&alloc, SIZE);
    cuMemHostAlloc(&p, SIZE, CU_MEMHOSTALLOC_DEVICEMAP);
    host = (CUdeviceptr)p;
    cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL);
    cuMemAddressReserve(&mapping, 2 * SIZE, 0, 0, 0);
    cuMemCreate(&handle, 2 * SIZE, &prop, 0);
    cuMemMap(mapping, 2 * SIZE, 0, handle, 0);
    cuMemSetAccess(mapping, 2 * SIZE, &access, 1);
    cuMemAllocAsync(&pooled, SIZE, NULL);
    cuMemAlloc(&freed, 16 * SIZE);
    cuMemFree(freed);
    cuCtxSynchronize();
}

static CUDA_MEMCPY3D line(CUdeviceptr dst, CUdeviceptr src, CUmemorytype from, size_t n)
{
    return (CUDA_MEMCPY3D){.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = dst,
                           .srcMemoryType = from,
                           .srcHost = (void *)src,
                           .srcDevice = src,
                           .WidthInBytes = n,
                           .Height = 1,
                           .Depth = 1};
}

/* The result of a graph with one node, from its making on. */
static void run_graph(CUgraph graph, CUresult made)
{
    CUgraphExec exec;
    CUresult result;

    printf("%d", (int)made);
    if (made != CUDA_SUCCESS)
        return;
    result = cuGraphInstantiate(&exec, graph, 0);
    printf(", instantiated %d", (int)result);
    if (result != CUDA_SUCCESS)
        return;
    result = cuGraphLaunch(exec, NULL);
    printf(", launched %d", (int)result);
    printf(", ran %d", (int)cuCtxSynchronize());
}

static void copy_node(CUdeviceptr dst, CUdeviceptr src, CUmemorytype from, size_t n)
{
    CUDA_MEMCPY3D copy = line(dst, src, from, n);
    CUgraph graph;
    CUgraphNode node;

    cuGraphCreate(&graph, 0);
    run_graph(graph, cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
}

static void set_node(CUdeviceptr dst, unsigned element, size_t width)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = dst, .elementSize = element, .width = width, .height = 1};
    CUgraph graph;
    CUgraphNode node;

    cuGraphCreate(&graph, 0);
    run_graph(graph, cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
}

/* A good node that is changed, in its graph or in the executable one. */
static void changed_node(CUdeviceptr dst, size_t n, int executable)
{
    CUDA_MEMCPY3D good = line(alloc, (CUdeviceptr)memory, CU_MEMORYTYPE_HOST, 8);
    CUDA_MEMCPY3D bad = line(dst, (CUdeviceptr)memory, CU_MEMORYTYPE_HOST, n);
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;

    cuGraphCreate(&graph, 0);
    cuGraphAddMemcpyNode(&node, graph, NULL, 0, &good, context);
    cuGraphInstantiate(&exec, graph, 0);
    if (!executable) {
        run_graph(graph, cuGraphMemcpyNodeSetParams(node, &bad));
        return;
    }
    printf("%d", (int)cuGraphExecMemcpyNodeSetParams(exec, node, &bad, context));
    printf(", launched %d", (int)cuGraphLaunch(exec, NULL));
    printf(", ran %d", (int)cuCtxSynchronize());
}

static void free_node(CUdeviceptr block)
{
    CUgraph graph;
    CUgraphNode node;

    cuGraphCreate(&graph, 0);
    printf("%d", (int)cuGraphAddMemFreeNode(&node, graph, NULL, 0, block));
}

static void value(CUdeviceptr at, unsigned flags)
{
    printf("%d", (int)cuStreamWriteValue32(NULL, at, 1, flags));
    printf(", ran %d", (int)cuCtxSynchronize());
}

static void value_64(CUdeviceptr at)
{
    printf("%d", (int)cuStreamWriteValue64(NULL, at, 1, 0));
    printf(", ran %d", (int)cuCtxSynchronize());
}

static void texture(CUdeviceptr at, size_t bytes, size_t pitch)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
                                   .res.linear = {.devPtr = at,
                                                  .format = CU_AD_FORMAT_UNSIGNED_INT8,
                                                  .numChannels = 1,
                                                  .sizeInBytes = bytes}};
    CUDA_TEXTURE_DESC desc = {.flags = CU_TRSF_READ_AS_INTEGER};
    CUtexObject object;

    if (pitch) {
        resource.resType = CU_RESOURCE_TYPE_PITCH2D;
        resource.res.pitch2D.devPtr = at;
        resource.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
        resource.res.pitch2D.numChannels = 1;
        resource.res.pitch2D.width = pitch;
        resource.res.pitch2D.height = bytes / pitch;
        resource.res.pitch2D.pitchInBytes = pitch;
    }
    printf("%d", (int)cuTexObjectCreate(&object, &resource, &desc, NULL));
}

/* A value that is captured, and the capture's end. */
static void captured_value(CUdeviceptr at)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstream stream;
    CUgraph graph;

    cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    printf("%d", (int)cuStreamWriteValue32(stream, at, 1, 0));
    printf(", legacy stream %d", (int)cuStreamIsCapturing(CU_STREAM_LEGACY, &status));
    printf(", end %d", (int)cuStreamEndCapture(stream, &graph));
}

/* Pool memory after the primary context's last release, seen from a context of its own. */
static void pool_after_release(int with_other)
{
    CUcontext other;
    unsigned flags;
    int active = -1;

#if CUDA_VERSION >= 13000
    printf("%d", (int)cuCtxCreate(&other, NULL, 0, 0));
#else
    printf("%d", (int)cuCtxCreate(&other, 0, 0));
#endif
    if (with_other)
        printf(", allocated %d", (int)cuMemAllocAsync(&pooled, SIZE, NULL));
    cuCtxSynchronize();
    printf(", released %d", (int)cuDevicePrimaryCtxRelease(0));
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    printf(", active %d, copied %d", active, (int)cuMemcpyDtoH(memory, pooled, 8));
}

#define ASK(name, call)                                                                            \
    do {                                                                                           \
        fflush(stdout);                                                                            \
        child = fork();                                                                            \
        if (child == 0) {                                                                          \
            alarm(60);                                                                             \
            start();                                                                               \
            printf("%s: ", name);                                                                  \
            call;                                                                                  \
            printf("\n");                                                                          \
            fflush(stdout);                                                                        \
            _exit(0);                                                                              \
        }                                                                                          \
        waitpid(child, &status, 0);                                                                \
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)                                        \
            return 77;                                                                             \
        if (WIFSIGNALED(status))                                                                   \
            printf("%s: signal %d\n", name, WTERMSIG(status));                                     \
    } while (0)

static int ask_nodes(void)
{
    const CUmemorytype cpu = CU_MEMORYTYPE_HOST, device = CU_MEMORYTYPE_DEVICE;
    const CUdeviceptr here = (CUdeviceptr)memory;
    int status;
    pid_t child;

    ASK("copy node to the end of a block", copy_node(alloc + SIZE - 8, here, cpu, 8));
    ASK("copy node over the end by a byte", copy_node(alloc + SIZE - 7, here, cpu, 8));
    ASK("copy node behind a block", copy_node(alloc + SIZE, here, cpu, 8));
    ASK("copy node before a block", copy_node(alloc - 8, here, cpu, 8));
    ASK("copy node from behind a block", copy_node(alloc, alloc + SIZE, device, 8));
    ASK("copy node from over the end", copy_node(alloc, alloc + SIZE - 7, device, 8));
    ASK("copy node from over a pinned block's end", copy_node(alloc, host + SIZE - 7, cpu, 8));
    ASK("copy node to a freed block", copy_node(freed, here, cpu, 8));
    ASK("copy node from NULL", copy_node(alloc, 0, cpu, 8));
    ASK("copy node to NULL", copy_node(0, here, cpu, 8));
    ASK("copy node of nothing behind a block", copy_node(alloc + SIZE, here, cpu, 0));
    ASK("copy node to pageable memory as the device's", copy_node(here + 8, here, cpu, 8));
    ASK("set node over the end by a byte", set_node(alloc + SIZE - 7, 1, 8));
    ASK("set node behind a block", set_node(alloc + SIZE, 1, 8));
    ASK("set node before a block", set_node(alloc - 8, 1, 8));
    ASK("set node of elements of 3", set_node(alloc, 3, 8));
    ASK("set node of elements of 0", set_node(alloc, 0, 8));
    ASK("set node misaligned", set_node(alloc + 1, 4, 8));
    ASK("changed node over the end", changed_node(alloc + SIZE - 7, 8, 0));
    ASK("changed executable node over the end", changed_node(alloc + SIZE - 7, 8, 1));
    ASK("changed executable node behind a block", changed_node(alloc + SIZE, 8, 1));
    ASK("free node of a block", free_node(alloc));
    ASK("free node of a pool's block", free_node(pooled));
    return 0;
}

static int ask_values(void)
{
    int status;
    pid_t child;

    ASK("value to a block", value(alloc, 0));
    ASK("value to pinned memory", value(host, 0));
    ASK("value to managed memory", value(managed, 0));
    ASK("value to a mapping", value(mapping, 0));
    ASK("value to a pool's block", value(pooled, 0));
    ASK("value misaligned", value(alloc + 1, 0));
    ASK("value of 8 bytes misaligned by 4", value_64(alloc + 4));
    ASK("value with flags that there are not", value(alloc, 0x70));
    ASK("value behind a block", value(alloc + SIZE, 0));
    ASK("value before a block", value(alloc - 8, 0));
    ASK("value over the end", value_64(alloc + SIZE - 4));
    ASK("value to a freed block", value(freed, 0));
    ASK("value captured", captured_value(alloc));
    ASK("texture of a block", texture(alloc, SIZE, 0));
    ASK("texture of pinned memory", texture(host, SIZE, 0));
    ASK("texture of managed memory", texture(managed, SIZE, 0));
    ASK("texture of a mapping", texture(mapping, SIZE, 0));
    ASK("texture of a pool's block", texture(pooled, SIZE, 0));
    ASK("texture with rows of a block", texture(alloc, SIZE, 512));
    ASK("texture with rows of pinned memory", texture(host, SIZE, 512));
    ASK("texture with rows of managed memory", texture(managed, SIZE, 512));
    ASK("texture with rows of a mapping", texture(mapping, SIZE, 512));
    ASK("texture misaligned by a byte", texture(alloc + 1, 16, 0));
    ASK("texture misaligned by 256", texture(alloc + 256, 16, 0));
    ASK("texture with rows misaligned", texture(alloc, SIZE, 500));
    ASK("texture over the end", texture(alloc, SIZE + 1, 0));
    ASK("texture behind a block", texture(alloc + SIZE, 16, 0));
    ASK("free of a reservation of nobody's", printf("%d", (int)cuMemAddressFree(alloc, SIZE)));
    ASK("pool's block of the primary context after its release", pool_after_release(0));
    ASK("pool's block of another context after its release", pool_after_release(1));
    return 0;
}

int main(void)
{
    int status = ask_nodes();

    return status ? status : ask_values();
}
