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
#include "range_calls.cuh"

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

static void attributes(void)
{
    CUdeviceptr base = range();

    say_attributes("before the border", base + HALF - 4);
    say_attributes("behind the border", base + HALF);
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

    if (i == 7) /* The source of the copy to host memory. */
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
