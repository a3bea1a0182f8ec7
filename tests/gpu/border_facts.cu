/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware what a range of addresses does of which the first half is a device handle and the
 * second one a handle of host memory, as a block with `spill = host` is: kernels and atomics on
 * both sides and across the border, what the driver says of an address, and which calls take a
 * range that crosses the border.  Prints one line a fact, so that the simulated GPU can be compared
 * with a real one.
 *
 *   border_facts      ends with status 77 where no GPU answers
 */
#include "facts.cuh"

#include <cuda.h>

#define HALF (16 * PAGE)
#define ACROSS ((size_t)1 << 20) /* Bytes of a range that crosses the border in its middle. */

static void say_driver(const char *fact, CUresult result)
{
    say(fact, (cudaError_t)result);
}

static CUmemAccessDesc right_of(CUmemLocationType type)
{
    CUmemAccessDesc access = {};

    access.location.type = type;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return access;
}

/* Creates a handle and maps it.  Only memory of a NUMA node can be exported, so libzc asks for
 * that. */
static void map_half(const char *fact, CUdeviceptr at, CUmemLocationType type)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp properties = {};
    CUresult result;

    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = type;
    result = cuMemCreate(&handle, HALF, &properties, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemMap(at, HALF, 0, handle, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemRelease(handle);
    say_driver(fact, result);
}

/* Device memory and then host memory, opened in one call for the device and in another for the CPU.
 */
static CUdeviceptr range(void)
{
    CUmemAccessDesc device = right_of(CU_MEM_LOCATION_TYPE_DEVICE);
    CUmemAccessDesc host = right_of(CU_MEM_LOCATION_TYPE_HOST);
    CUdeviceptr base = 0;

    say_driver("addresses reserved", cuMemAddressReserve(&base, 2 * HALF, 0, 0, 0));
    map_half("device memory mapped", base, CU_MEM_LOCATION_TYPE_DEVICE);
    map_half("host memory mapped behind it", base + HALF, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    say_driver("both opened to the device at once", cuMemSetAccess(base, 2 * HALF, &device, 1));
    say_driver("the host memory opened to the CPU", cuMemSetAccess(base + HALF, HALF, &host, 1));
    return base;
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

static void attributes(void)
{
    CUdeviceptr base = range();

    say_attributes("before the border", base + HALF - 4);
    say_attributes("behind the border", base + HALF);
}

/* What copies and sets a range. */
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

static void all_transfers(CUdeviceptr at, CUdeviceptr other, const char *where)
{
    struct range_call c = transfers(at, other, where, 0, CALLS);
    char fact[120];

    snprintf(fact, sizeof(fact), "the copies to host memory %s are right", where);
    show(fact, c.pageable[ACROSS - 1] == 5 && c.pinned[ACROSS - 1] == 5);
}

static void before(void)
{
    CUdeviceptr base = range();

    all_transfers(base, base + 2 * ACROSS, "before the border");
}

static void behind(void)
{
    CUdeviceptr base = range();

    all_transfers(base + HALF, base, "behind the border");
}

static void call_across(size_t i)
{
    CUdeviceptr base = range(), at = base + HALF - ACROSS / 2;

    if (i > 6) /* What is to be copied to host memory. */
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

static void graphs(void)
{
    CUdeviceptr base = range();
    static char pageable[ACROSS];
    CUDA_MEMCPY3D copy = {};
    CUgraph graph = NULL;
    CUgraphNode node;
    CUcontext context = NULL;

    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pageable;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = base + HALF - ACROSS / 2;
    copy.WidthInBytes = ACROSS;
    copy.Height = copy.Depth = 1;
    cuCtxGetCurrent(&context);
    cuGraphCreate(&graph, 0);
    say_driver("a node that copies across the border",
               cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    copy.dstDevice = base + HALF;
    say_driver("a node that copies behind it",
               cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
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

static void undone(void)
{
    CUmemAccessDesc node = right_of(CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CUdeviceptr base = range();

    say_driver("opened to the CPU by its node", cuMemSetAccess(base + HALF, HALF, &node, 1));

    say_driver("both unmapped at once", cuMemUnmap(base, 2 * HALF));
    say_driver("addresses freed", cuMemAddressFree(base, 2 * HALF));
}

/* Host memory and then host memory of another handle. */
static CUdeviceptr hosted(void)
{
    CUmemAccessDesc device = right_of(CU_MEM_LOCATION_TYPE_DEVICE);
    CUmemAccessDesc host = right_of(CU_MEM_LOCATION_TYPE_HOST);
    CUdeviceptr base = 0;

    say_driver("addresses reserved", cuMemAddressReserve(&base, 2 * HALF, 0, 0, 0));
    map_half("host memory mapped", base, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    map_half("host memory mapped behind it", base + HALF, CU_MEM_LOCATION_TYPE_HOST_NUMA);
    say_driver("both opened to the device at once", cuMemSetAccess(base, 2 * HALF, &device, 1));
    say_driver("both opened to the CPU at once", cuMemSetAccess(base, 2 * HALF, &host, 1));
    return base;
}

static void call_hosted(size_t i)
{
    CUdeviceptr base = hosted();

    if (i == 7) /* What is to be copied to host memory. */
        memset((char *)base + HALF - ACROSS / 2, 5, ACROSS);
    transfers(base + HALF - ACROSS / 2, base, "across two host handles", i, i + 1);
}
#define CALL_HOSTED(i)                                                                             \
    static void hosted_##i(void)                                                                   \
    {                                                                                              \
        call_hosted(i);                                                                            \
    }
CALL_HOSTED(0)
CALL_HOSTED(3)
CALL_HOSTED(5)
CALL_HOSTED(6)
CALL_HOSTED(7)

static volatile int opened, passed;

static void CUDA_CB gate(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300 && !opened; i++)
        usleep(1000);
    passed = 1;
}

/* Whether a call that copies or sets host memory of a handle waits for what its stream does. */
static void waits(size_t i, CUdeviceptr at, CUdeviceptr other, const char *where)
{
    static char pageable[ACROSS];
    struct range_call c = {at, other, pageable, NULL, NULL};
    char fact[120];

    cudaHostAlloc((void **)&c.pinned, ACROSS, 0);
    cuStreamCreate(&c.stream, CU_STREAM_NON_BLOCKING);
    opened = passed = 0;
    cuLaunchHostFunc(c.stream, gate, NULL);
    snprintf(fact, sizeof(fact), "%s %s", calls[i].what, where);
    say_driver(fact, i == 6 ? cuMemcpyDtoDAsync(at, other, ACROSS, c.stream) : calls[i].make(&c));
    show("it returns before what is in front of it is done", !passed);
    opened = 1;
    cuCtxSynchronize();
}

static void behind_work(void)
{
    CUdeviceptr base = range(), host = base + HALF;

    waits(3, host, base, "behind the border");
    waits(5, host, base, "behind the border");
    waits(8, host, base, "behind the border");
    waits(6, host, base, "from before to behind the border");
    waits(6, host, host + ACROSS, "behind the border");
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

static const struct group groups[] = {
    {"kernels", kernels, false},
    {"attributes", attributes, false},
    {"before the border", before, false},
    {"behind the border", behind, false},
    {"across the border", across, false},
    {"graphs", graphs, false},
    {"undone", undone, false},
    {"a copy of pinned memory", across_1, false},
    {"a copy by addresses", across_2, false},
    {"an asynchronous copy", across_3, false},
    {"a set", across_4, false},
    {"an asynchronous set", across_5, false},
    {"a copy within the device", across_6, false},
    {"a copy to pageable memory", across_7, false},
    {"a copy to pinned memory", across_8, false},
    {"rows", rows_across, false},
    {"an array", array_across, false},
    {"a copy node launched", copy_node_launched, false},
    {"a set node launched", set_node_launched, false},
    {"host handles, a copy of pageable memory", hosted_0, false},
    {"host handles, an asynchronous copy", hosted_3, false},
    {"host handles, an asynchronous set", hosted_5, false},
    {"host handles, a copy within the device", hosted_6, false},
    {"host handles, a copy to pageable memory", hosted_7, false},
    {"behind other work", behind_work, false},
    {"a texture", texture_across, false},
    {"from an array", from_array, false},
    {"an array, as host memory", as_host_memory, false},
};

int main(void)
{
    return run_groups("border_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
