/* SPDX-License-Identifier: MIT */
/*
 * Asks hardware what two registrations side by side do, as a block is that is registered by parts:
 * kernels across their border, what the driver says of them, and which calls take a range that
 * crosses the border, as the device's side or as the host's.  Prints one line a fact, so that the
 * simulated GPU can be compared with a real one.
 *
 *   parts_facts      ends with status 77 where no GPU answers
 */
#include "range_calls.cuh"

static CUdeviceptr range(void)
{
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    char *p =
        (char *)mmap(NULL, 2 * HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(p, 9, 2 * HALF);
    say_driver("the first half registered", cuMemHostRegister(p, HALF, flags));
    say_driver("the second half registered", cuMemHostRegister(p + HALF, HALF, flags));
    return (CUdeviceptr)p;
}

/* Facts that a block of two registrations has to hide. */
static void all_attributes(CUdeviceptr at, const char *side)
{
    char fact[80];
    CUdeviceptr start = 0, device = 0;
    size_t size = 0;
    unsigned flags = 0;
    unsigned long long id = 0;

    say_attributes(side, at);
    snprintf(fact, sizeof(fact), "start of the range %s", side);
    say_driver(fact, cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    show("bytes in front of the address", (int)(at - start));
    snprintf(fact, sizeof(fact), "size of the range %s", side);
    say_driver(fact, cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    show("MiB", (int)(size >> 20));
    snprintf(fact, sizeof(fact), "device address %s", side);
    say_driver(fact, cuMemHostGetDevicePointer(&device, (void *)at, 0));
    show("it is the same", device == at);
    snprintf(fact, sizeof(fact), "flags %s", side);
    say_driver(fact, cuMemHostGetFlags(&flags, (void *)at));
    show("flags", (int)flags);
    snprintf(fact, sizeof(fact), "buffer ID %s", side);
    say_driver(fact, cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
    show("there is one", id != 0);
}

static void two_attributes(void)
{
    CUdeviceptr base = range();
    unsigned long long ids[2] = {0, 0};
    unsigned sync = 1;
    CUipcMemHandle handle;

    all_attributes(base + HALF - 4, "before the border");
    all_attributes(base + HALF, "behind the border");
    cuPointerGetAttribute(&ids[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, base);
    cuPointerGetAttribute(&ids[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, base + HALF);
    show("both halves have one buffer ID", ids[0] == ids[1]);
    say_driver("an IPC handle", cuIpcGetMemHandle(&handle, base));
    say_driver("SYNC_MEMOPS set in the middle of the first",
               cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base + HALF / 2));
    sync = 2;
    say_driver("SYNC_MEMOPS of the second",
               cuPointerGetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, base + HALF));
    show("it is set", (int)sync);
    say_driver("both registered at once",
               cuMemHostRegister((void *)base, 2 * HALF, CU_MEMHOSTREGISTER_PORTABLE));
    say_driver("the first half unregistered", cuMemHostUnregister((void *)base));
    memory_type("memory type before the border then", number(base + HALF - 4));
    memory_type("memory type behind the border then", number(base + HALF));
    say_driver("what is left and the rest registered at once",
               cuMemHostRegister((void *)base, 2 * HALF, CU_MEMHOSTREGISTER_PORTABLE));
}

/* Copies whose host side lies across the border: `at`, `bytes` of it, to and from device memory. */
struct host_call {
    void *at;
    size_t bytes;
    CUstream stream;
};

static CUdeviceptr device_side(void)
{
    return (CUdeviceptr)out;
}

static CUresult out_of(const struct host_call *c)
{
    return cuMemcpyHtoD(device_side(), c->at, c->bytes);
}

static CUresult out_of_asynchronous(const struct host_call *c)
{
    return cuMemcpyHtoDAsync(device_side(), c->at, c->bytes, c->stream);
}

static CUresult out_of_by_addresses(const struct host_call *c)
{
    return cuMemcpyAsync(device_side(), (CUdeviceptr)c->at, c->bytes, c->stream);
}

static CUresult out_of_as_device_memory(const struct host_call *c)
{
    return cuMemcpyDtoDAsync(device_side(), (CUdeviceptr)c->at, c->bytes, c->stream);
}

static CUresult out_of_rows(const struct host_call *c)
{
    CUDA_MEMCPY2D copy = {};

    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = c->at;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device_side();
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = c->bytes / 2;
    copy.Height = 2;
    return cuMemcpy2DAsync(&copy, c->stream);
}

static CUresult out_of_batched(const struct host_call *c)
{
    CUmemcpyAttributes attributes = {};
    CUdeviceptr dst = device_side(), src = (CUdeviceptr)c->at;
    size_t bytes = c->bytes, first = 0;

    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    return cuMemcpyBatchAsync(&dst, &src, &bytes, 1, &attributes, &first, 1, c->stream);
}

static CUresult into(const struct host_call *c)
{
    return cuMemcpyDtoH(c->at, device_side(), c->bytes);
}

static CUresult into_asynchronous(const struct host_call *c)
{
    return cuMemcpyDtoHAsync(c->at, device_side(), c->bytes, c->stream);
}

static const struct {
    const char *what;
    CUresult (*make)(const struct host_call *c);
} host_calls[] = {
    {"a copy out of it", out_of},
    {"an asynchronous copy out of it", out_of_asynchronous},
    {"a copy out of it by addresses", out_of_by_addresses},
    {"a copy out of it as of device memory", out_of_as_device_memory},
    {"rows out of it", out_of_rows},
    {"a batch out of it", out_of_batched},
    {"a copy into it", into},
    {"an asynchronous copy into it", into_asynchronous},
};
#define HOST_CALLS (sizeof(host_calls) / sizeof(host_calls[0]))

/* A captured copy out of it, launched. */
static void out_of_captured(const struct host_call *c)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    say_driver("a captured copy out of it", out_of_asynchronous(c));
    say_driver("the capture ended", cuStreamEndCapture(c->stream, &graph));
    say_driver("instantiated", cuGraphInstantiate(&exec, graph, 0));
    say_driver("launched", cuGraphLaunch(exec, c->stream));
    say("it ran", cudaDeviceSynchronize());
}

static void host_side(void)
{
    CUdeviceptr base = range(), at = base + HALF - copy_bytes / 2;
    struct host_call c = {(void *)at, copy_bytes, NULL};
    char fact[120];

    cuStreamCreate(&c.stream, CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < HOST_CALLS; i++) {
        bool to_host = i >= HOST_CALLS - 2;

        memset((void *)at, to_host ? 0 : (int)i + 1, copy_bytes);
        cudaMemset(out, to_host ? (int)i + 1 : 0, copy_bytes);
        say_driver(host_calls[i].what, host_calls[i].make(&c));
        cuCtxSynchronize();
        const char *last = to_host ? (char *)at : (char *)out;
        char value = -1;
        cudaMemcpy(&value, last + copy_bytes - 1, 1, cudaMemcpyDefault);
        snprintf(fact, sizeof(fact), "%s: the last byte", host_calls[i].what);
        show(fact, value == (char)(i + 1));
    }
    out_of_captured(&c);
}

/* Nodes of graphs that copy out of it, by the memory type that they name. */
static void nodes(void)
{
    static const CUmemorytype types[] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE,
                                         CU_MEMORYTYPE_UNIFIED};
    CUdeviceptr base = range(), at = base + HALF - copy_bytes / 2;
    CUcontext context = NULL;

    cuCtxGetCurrent(&context);
    for (int i = 0; i < 3; i++) {
        CUDA_MEMCPY3D copy = {};
        CUgraph graph = NULL;
        CUgraphNode node;
        CUgraphExec exec = NULL;

        copy.srcMemoryType = types[i];
        copy.srcHost = (void *)at;
        copy.srcDevice = at;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = device_side();
        copy.WidthInBytes = copy_bytes;
        copy.Height = copy.Depth = 1;
        cuGraphCreate(&graph, 0);
        cuMemsetD8(device_side(), 0, copy_bytes);
        show("memory type", types[i]);
        say_driver("a node", cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
        say_driver("instantiated", cuGraphInstantiate(&exec, graph, 0));
        say_driver("launched", cuGraphLaunch(exec, NULL));
        say("it ran", cudaDeviceSynchronize());
        char value = -1;
        cudaMemcpy(&value, (char *)out + copy_bytes - 1, 1, cudaMemcpyDefault);
        show("the last byte", value);
    }
}

static const struct group groups[] = {
    {"attributes", two_attributes, false},
    {"host side", host_side, true},
    {"nodes", nodes, true},
    {"kernels", kernels, false},
    {"a copy of pageable memory", across, false},
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
    {"from an array", from_array, false},
    {"an array, as host memory", as_host_memory, false},
    {"a copy node launched", copy_node_launched, false},
    {"a set node launched", set_node_launched, false},
    {"a texture", texture_across, false},
};

int main(void)
{
    return run_groups("parts_facts", groups, sizeof(groups) / sizeof(groups[0]));
}
