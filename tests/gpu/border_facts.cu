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

/* Copies and sets of a range, by each call; then what they have left at its end. */
static void transfers(CUdeviceptr at, CUdeviceptr other, const char *where)
{
    static char pageable[ACROSS];
    char fact[120];
    void *pinned = NULL;
    CUstream stream;

    cudaHostAlloc(&pinned, ACROSS, 0);
    cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    memset(pageable, 1, ACROSS);
    memset(pinned, 2, ACROSS);
#define ASK(what, call, expected)                                                                  \
    do {                                                                                           \
        snprintf(fact, sizeof(fact), "%s %s", what, where);                                        \
        say_driver(fact, call);                                                                    \
        cuCtxSynchronize();                                                                        \
        snprintf(fact, sizeof(fact), "%s %s: the last number", what, where);                       \
        show(fact, read_back(at + ACROSS - 4) == (expected));                                      \
    } while (0)
    ASK("a copy of pageable memory", cuMemcpyHtoD(at, pageable, ACROSS), 0x01010101);
    ASK("a copy of pinned memory", cuMemcpyHtoD(at, pinned, ACROSS), 0x02020202);
    ASK("a copy by addresses", cuMemcpy(at, (CUdeviceptr)pageable, ACROSS), 0x01010101);
    ASK("an asynchronous copy", cuMemcpyHtoDAsync(at, pinned, ACROSS, stream), 0x02020202);
    ASK("a set", cuMemsetD8(at, 3, ACROSS), 0x03030303);
    ASK("an asynchronous set", cuMemsetD32Async(at, 4, ACROSS / 4, stream), 4);
    cuMemsetD8(other, 5, ACROSS);
    ASK("a copy within the device", cuMemcpyDtoD(at, other, ACROSS), 0x05050505);
    ASK("a copy to pageable memory", cuMemcpyDtoH(pageable, at, ACROSS), 0x05050505);
    ASK("a copy to pinned memory", cuMemcpyDtoHAsync(pinned, at, ACROSS, stream), 0x05050505);
    snprintf(fact, sizeof(fact), "the copies to host memory %s are right", where);
    show(fact, pageable[ACROSS - 1] == 5 && ((char *)pinned)[ACROSS - 1] == 5);
}

static void before(void)
{
    CUdeviceptr base = range();

    transfers(base, base + 2 * ACROSS, "before the border");
}

static void behind(void)
{
    CUdeviceptr base = range();

    transfers(base + HALF, base, "behind the border");
}

static void across(void)
{
    CUdeviceptr base = range();

    transfers(base + HALF - ACROSS / 2, base, "across the border");
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

static const struct group groups[] = {
    {"kernels", kernels, false},
    {"attributes", attributes, false},
    {"before the border", before, false},
    {"behind the border", behind, false},
    {"across the border", across, false},
    {"graphs", graphs, false},
    {"undone", undone, false},
};

int main(void)
{
    return run_groups("border_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
