/* SPDX-License-Identifier: MIT */
/*
 * Calls on a range of two halves whose border they cross, for the programs that ask hardware what a
 * range does whose halves are of different memory.  A file that includes this one defines range(),
 * which prints what makes a range.
 */
#ifndef RANGE_CALLS_CUH
#define RANGE_CALLS_CUH

#include "facts.cuh"

#include <cuda.h>

#define HALF (16 * PAGE)
#define ACROSS ((size_t)1 << 20) /* Bytes of a range that crosses the border in its middle. */

static CUdeviceptr range(void);

static void say_driver(const char *fact, CUresult result)
{
    say(fact, (cudaError_t)result);
}

static volatile int *number(CUdeviceptr at)
{
    return (volatile int *)at;
}

static int read_back(CUdeviceptr at)
{
    int value = -1;

    load_number<<<1, 1>>>((const int *)at, out);
    cudaMemcpy(&value, out, sizeof(value), cudaMemcpyDeviceToHost);
    return value;
}

static void kernels(void)
{
    CUdeviceptr base = range(), border = base + HALF;

    store_numbers<<<1, 256>>>((int *)(border - ACROSS / 2), ACROSS / sizeof(int), 7);
    say("a kernel writes across the border", cudaDeviceSynchronize());
    kernel_reads("a kernel reads before the border", number(border - 4));
    kernel_reads("a kernel reads behind the border", number(border));
    show("the CPU reads behind the border", *number(border));
    *number(border) = 8;
    kernel_reads("a kernel reads there what the CPU wrote", number(border));
    kernel_writes("a kernel clears a number before the border", number(border - 4), 0);
    kernel_writes("a kernel clears a number behind the border", number(border), 0);
    add_together<<<64, 64>>>((int *)(border - 4));
    add_together<<<64, 64>>>((int *)border);
    say("kernels add on both sides", cudaDeviceSynchronize());
    show("4096 additions before the border", read_back(border - 4));
    show("4096 additions behind the border", read_back(border));
}

static void say_attributes(const char *side, CUdeviceptr at)
{
    char fact[80];
    CUdeviceptr base = 0;
    size_t size = 0;
    void *host = NULL;

    snprintf(fact, sizeof(fact), "memory type %s", side);
    memory_type(fact, number(at));
    snprintf(fact, sizeof(fact), "host address %s", side);
    say_driver(fact, cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    snprintf(fact, sizeof(fact), "range %s", side);
    say_driver(fact, cuMemGetAddressRange(&base, &size, at));
    snprintf(fact, sizeof(fact), "MiB of it %s", side);
    show(fact, (int)(size >> 20));
}

/* Calls that copy and set a range. */
struct range_call {
    CUdeviceptr at, other; /* The range, and as many bytes of device memory. */
    char *pageable, *pinned;
    CUstream stream;
};

static CUresult from_pageable(const struct range_call *c)
{
    return cuMemcpyHtoD(c->at, c->pageable, ACROSS);
}

static CUresult from_pinned(const struct range_call *c)
{
    return cuMemcpyHtoD(c->at, c->pinned, ACROSS);
}

static CUresult by_addresses(const struct range_call *c)
{
    return cuMemcpy(c->at, (CUdeviceptr)c->pageable, ACROSS);
}

static CUresult asynchronous(const struct range_call *c)
{
    return cuMemcpyHtoDAsync(c->at, c->pinned, ACROSS, c->stream);
}

static CUresult set(const struct range_call *c)
{
    return cuMemsetD8(c->at, 3, ACROSS);
}

static CUresult set_asynchronous(const struct range_call *c)
{
    return cuMemsetD32Async(c->at, 4, ACROSS / 4, c->stream);
}

static CUresult within_device(const struct range_call *c)
{
    cuMemsetD8(c->other, 5, ACROSS);
    return cuMemcpyDtoD(c->at, c->other, ACROSS);
}

static CUresult to_pageable(const struct range_call *c)
{
    return cuMemcpyDtoH(c->pageable, c->at, ACROSS);
}

static CUresult to_pinned(const struct range_call *c)
{
    return cuMemcpyDtoHAsync(c->pinned, c->at, ACROSS, c->stream);
}

static const struct {
    const char *what;
    CUresult (*make)(const struct range_call *c);
    int expected; /* The last number of the range behind it. */
} calls[] = {
    {"a copy of pageable memory", from_pageable, 0x01010101},
    {"a copy of pinned memory", from_pinned, 0x02020202},
    {"a copy by addresses", by_addresses, 0x01010101},
    {"an asynchronous copy", asynchronous, 0x02020202},
    {"a set", set, 0x03030303},
    {"an asynchronous set", set_asynchronous, 4},
    {"a copy within the device", within_device, 0x05050505},
    {"a copy to pageable memory", to_pageable, 0x05050505},
    {"a copy to pinned memory", to_pinned, 0x05050505},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* Makes the calls [first, end) with a range, and tells what each has left at its end. */
static struct range_call transfers(CUdeviceptr at, CUdeviceptr other, const char *where,
                                   size_t first, size_t end)
{
    static char pageable[ACROSS];
    struct range_call c = {at, other, pageable, NULL, NULL};
    char fact[120];

    cudaHostAlloc((void **)&c.pinned, ACROSS, 0);
    cuStreamCreate(&c.stream, CU_STREAM_DEFAULT);
    memset(c.pageable, 1, ACROSS);
    memset(c.pinned, 2, ACROSS);
    for (size_t i = first; i < end; i++) {
        snprintf(fact, sizeof(fact), "%s %s", calls[i].what, where);
        say_driver(fact, calls[i].make(&c));
        cuCtxSynchronize();
        snprintf(fact, sizeof(fact), "%s %s: the last number", calls[i].what, where);
        show(fact, read_back(at + ACROSS - 4) == calls[i].expected);
    }
    return c;
}

static void call_across(size_t i)
{
    CUdeviceptr base = range(), at = base + HALF - ACROSS / 2;

    if (i > 6) /* The source of the copy to host memory. */
        store_numbers<<<1, 256>>>((int *)at, ACROSS / sizeof(int), 0x05050505);
    cudaDeviceSynchronize();
    struct range_call c = transfers(at, base, "across the border", i, i + 1);
    if (i > 6)
        show("it is right", (i == 7 ? c.pageable : c.pinned)[ACROSS - 1] == 5);
}

/* Each call in a process of its own: the first one was the process's last. */
static void across(void)
{
    call_across(0);
}
#define CALL_ACROSS(i)                                                                             \
    static void across_##i(void)                                                                   \
    {                                                                                              \
        call_across(i);                                                                            \
    }
CALL_ACROSS(1)
CALL_ACROSS(2)
CALL_ACROSS(3)
CALL_ACROSS(4)
CALL_ACROSS(5)
CALL_ACROSS(6)
CALL_ACROSS(7)
CALL_ACROSS(8)

/* Rows of which one begins before the border and ends behind it. */
static void rows_across(void)
{
    CUdeviceptr base = range();
    static char pageable[ACROSS];
    CUDA_MEMCPY2D copy = {};

    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pageable;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = base + HALF - 6000;
    copy.srcPitch = copy.WidthInBytes = 4000;
    copy.dstPitch = 5000;
    copy.Height = 4;
    memset(pageable, 1, ACROSS);
    say_driver("rows across the border", cuMemcpy2D(&copy));
    show("their last number", read_back(base + HALF - 6000 + 3 * 5000 + 3996) == 0x01010101);
}

static CUarray array_of_16_kib(void)
{
    CUDA_ARRAY_DESCRIPTOR shape = {4096, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4};
    CUarray array = NULL;

    say_driver("an array made", cuArrayCreate(&array, &shape));
    return array;
}

static void array_across(void)
{
    CUdeviceptr base = range();
    CUarray array = array_of_16_kib();

    cuMemsetD8(base + HALF - 8192, 6, 8192);
    cuMemsetD8(base + HALF, 7, 8192);
    say_driver("a copy to an array across the border",
               cuMemcpyDtoA(array, 0, base + HALF - 8192, 16384));
    say_driver("a copy from it", cuMemcpyAtoD(base, array, 0, 16384));
    show("its first number", read_back(base) == 0x06060606);
    show("its last number", read_back(base + 16380) == 0x07070707);
}

/* Launches a graph of one node. */
static void launch(CUgraph graph, CUdeviceptr last, int expected)
{
    CUgraphExec exec = NULL;

    say_driver("instantiated", cuGraphInstantiate(&exec, graph, 0));
    say_driver("launched", cuGraphLaunch(exec, NULL));
    say("it ran", cudaDeviceSynchronize());
    show("the last number", read_back(last) == expected);
}

static void copy_node_launched(void)
{
    CUdeviceptr base = range(), at = base + HALF - ACROSS / 2;
    void *pinned = NULL;
    CUDA_MEMCPY3D copy = {};
    CUgraph graph = NULL;
    CUgraphNode node;
    CUcontext context = NULL;

    cudaHostAlloc(&pinned, ACROSS, 0);
    memset(pinned, 2, ACROSS);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pinned;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = at;
    copy.WidthInBytes = ACROSS;
    copy.Height = copy.Depth = 1;
    cuCtxGetCurrent(&context);
    cuGraphCreate(&graph, 0);
    say_driver("a node that copies pinned memory across the border",
               cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    launch(graph, at + ACROSS - 4, 0x02020202);
}

static void set_node_launched(void)
{
    CUdeviceptr base = range(), at = base + HALF - ACROSS / 2;
    CUDA_MEMSET_NODE_PARAMS set = {};
    CUgraph graph = NULL;
    CUgraphNode node;
    CUcontext context = NULL;

    set.dst = at;
    set.value = 4;
    set.elementSize = 4;
    set.width = ACROSS / 4;
    set.height = 1;
    cuCtxGetCurrent(&context);
    cuGraphCreate(&graph, 0);
    say_driver("a node that sets across the border",
               cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    launch(graph, at + ACROSS - 4, 4);
}

static __global__ void fetch(cudaTextureObject_t texture, int i, int *result)
{
    *result = tex1Dfetch<int>(texture, i);
}

/* Textures are not simulated: what is asked of them and behind them is not compared. */
static void texture_across(void)
{
    CUdeviceptr base = range(), at = base + HALF - ACROSS / 2;
    CUDA_RESOURCE_DESC resource = {};
    CUDA_TEXTURE_DESC texture = {};
    CUtexObject object = 0;

    store_numbers<<<1, 256>>>((int *)at, ACROSS / sizeof(int), 9);
    cudaDeviceSynchronize();
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = at;
    resource.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = ACROSS;
    texture.flags = CU_TRSF_READ_AS_INTEGER;
    say_driver("a texture across the border",
               cuTexObjectCreate(&object, &resource, &texture, NULL));
    for (int i = 0; object && i < 2; i++) {
        fetch<<<1, 1>>>(object, i ? ACROSS / sizeof(int) - 1 : 0, out);
        say(i ? "fetched behind the border" : "fetched before the border", cudaDeviceSynchronize());
        show("the number there", read_back((CUdeviceptr)out));
    }
}

static void from_array(void)
{
    CUdeviceptr base = range(), at = base + HALF - 8192;
    CUarray array = array_of_16_kib();

    cuMemsetD8(base, 6, 16384);
    cuMemcpyDtoA(array, 0, base, 16384);
    say_driver("a copy from an array across the border", cuMemcpyAtoD(at, array, 0, 16384));
    show("its first number", read_back(at) == 0x06060606);
    show("its last number", read_back(at + 16380) == 0x06060606);
}

static void as_host_memory(void)
{
    CUdeviceptr base = range(), at = base + HALF - 8192;
    CUarray array = array_of_16_kib();

    cuMemsetD8(base + HALF, 7, 8192);
    say_driver("a copy to an array across the border, as of host memory",
               cuMemcpyHtoA(array, 0, (void *)at, 16384));
    say_driver("a copy from it", cuMemcpyAtoD(base, array, 0, 16384));
    show("its last number", read_back(base + 16380) == 0x07070707);
}

#endif
