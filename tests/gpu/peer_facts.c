/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver, and hardware with two GPUs or more, what copies between two GPUs' contexts do with
 * mapped memory that lies in host memory (shim/vmm/access.c).  Prints one line for each, from a
 * process of its own, as some end it.
 *
 *   peer_facts                    ends with status 77 where fewer than two GPUs answer
 *   peer_facts CALL SRC DST OPEN  one of them
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)16 << 20)

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static CUcontext context[2];
static unsigned sent[BYTES / sizeof(unsigned)], seen[BYTES / sizeof(unsigned)];

static void open_to(CUdeviceptr at, CUmemLocationType type, int id)
{
    CUmemAccessDesc desc = {.location = {.type = type},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    desc.location.id = id;
    CHECK(cuMemSetAccess(at, BYTES, &desc, 1));
}

/* A block that the program takes for device `device`'s: of cuMemAlloc ("alloc"), or mapped device
 * ("device") or host memory ("host"), open to its device, and to the other one ("both"), and the
 * CPU ("cpu", "all"). */
static CUdeviceptr block(const char *kind, int device, const char *open)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CHECK(cuCtxSetCurrent(context[device]));
    if (!strcmp(kind, "alloc")) {
        CHECK(cuMemAlloc(&at, BYTES));
        return at;
    }
    bool host = !strcmp(kind, "host");
    prop.location.type = host ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = host ? 0 : device;
    CHECK(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    CHECK(cuMemCreate(&handle, BYTES, &prop, 0));
    CHECK(cuMemMap(at, BYTES, 0, handle, 0));
    open_to(at, CU_MEM_LOCATION_TYPE_DEVICE, device);
    if (!strcmp(open, "both") || !strcmp(open, "all"))
        open_to(at, CU_MEM_LOCATION_TYPE_DEVICE, !device);
    if (host && (!strcmp(open, "cpu") || !strcmp(open, "all")))
        open_to(at, CU_MEM_LOCATION_TYPE_HOST, 0);
    return at;
}

/* A copy in a graph: captured, or a node that names both sides as device or unified memory. */
static void by_graph(const char *call, CUdeviceptr dst, CUdeviceptr src)
{
    CUmemorytype type = strstr(call, "unified") ? CU_MEMORYTYPE_UNIFIED : CU_MEMORYTYPE_DEVICE;
    const CUDA_MEMCPY3D line = {.srcMemoryType = type,
                                .srcDevice = src,
                                .dstMemoryType = type,
                                .dstDevice = dst,
                                .WidthInBytes = BYTES,
                                .Height = 1,
                                .Depth = 1};
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (!strncmp(call, "captured", 8)) {
        CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(cuMemcpyPeerAsync(dst, context[1], src, context[0], BYTES, stream));
        CHECK(cuStreamEndCapture(stream, &graph));
    } else {
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &line, context[0]));
    }
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
}

static void copy(const char *call, CUdeviceptr dst, CUdeviceptr src)
{
    CUDA_MEMCPY3D_PEER p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = src,
                            .srcContext = context[0],
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = dst,
                            .dstContext = context[1],
                            .WidthInBytes = BYTES / 1024,
                            .Height = 1024,
                            .Depth = 1,
                            .srcPitch = BYTES / 1024,
                            .dstPitch = BYTES / 1024,
                            .srcHeight = 1024,
                            .dstHeight = 1024};
    if (!strcmp(call, "cuMemcpyPeer"))
        CHECK(cuMemcpyPeer(dst, context[1], src, context[0], BYTES));
    else if (!strcmp(call, "cuMemcpyPeerAsync"))
        CHECK(cuMemcpyPeerAsync(dst, context[1], src, context[0], BYTES, NULL));
    else if (!strcmp(call, "cuMemcpy3DPeer"))
        CHECK(cuMemcpy3DPeer(&p));
    else if (!strcmp(call, "cuMemcpy"))
        CHECK(cuMemcpy(dst, src, BYTES));
    else if (!strcmp(call, "cuMemcpyDtoDAsync"))
        CHECK(cuMemcpyDtoDAsync(dst, src, BYTES, NULL));
    else
        by_graph(call, dst, src);
}

/* Copies from device 0's block to device 1's with device 0's context current. */
static void one(char **argv)
{
    size_t wrong = 0;
    for (int d = 0; d < 2; d++)
        CHECK(cuDevicePrimaryCtxRetain(&context[d], d));
    CUdeviceptr src = block(argv[2], 0, argv[4]), dst = block(argv[3], 1, argv[4]);
    for (size_t i = 0; i < BYTES / sizeof(*sent); i++)
        sent[i] = (unsigned)(i * 2654435761u);
    CHECK(cuCtxSetCurrent(context[0]));
    CHECK(cuMemcpyHtoD(src, sent, BYTES));
    CHECK(cuCtxSetCurrent(context[1]));
    CHECK(cuMemsetD8(dst, 7, BYTES));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(context[0]));
    copy(argv[1], dst, src);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(context[1]));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(seen, dst, BYTES));
    for (size_t i = 0; i < BYTES / sizeof(*sent); i++)
        wrong += sent[i] != seen[i];
    printf("%zu words wrong\n", wrong);
}

/* One question, and the process that answers it. */
struct row {
    const char *call, *src, *dst, *open;
    FILE *answer;
    pid_t child;
};

static void ask(struct row *r)
{
    r->answer = tmpfile();
    r->child = r->answer ? fork() : -1;
    if (!r->child) {
        dup2(fileno(r->answer), STDOUT_FILENO);
        execl("/proc/self/exe", "peer_facts", r->call, r->src, r->dst, r->open, NULL);
        _exit(127);
    }
}

static void tell(struct row *r)
{
    char line[200] = "no answer\n";
    int status = -1;
    waitpid(r->child, &status, 0);
    printf("%s from %s to %s, open to %s: ", r->call, r->src, r->dst, r->open);
    if (WIFSIGNALED(status)) {
        printf("signal %d\n", WTERMSIG(status));
    } else {
        rewind(r->answer);
        printf("%s", fgets(line, sizeof(line), r->answer) ? line : "no answer\n");
    }
    fclose(r->answer);
}

enum { AT_ONCE = 16 };

int main(int argc, char **argv)
{
    static const char *const calls[] = {"cuMemcpyPeer",          "cuMemcpyPeerAsync",
                                        "cuMemcpy3DPeer",        "cuMemcpy",
                                        "cuMemcpyDtoDAsync",     "captured peer copy",
                                        "node of device memory", "node of unified memory"};
    static const char *const ways[][2] = {
        {"host", "alloc"}, {"alloc", "host"}, {"host", "host"}, {"device", "device"}};
    static const char *const open[] = {"own", "both", "cpu", "all"};
    struct row rows[128];
    unsigned count = 0;
    int devices = 0;
    CHECK(cuInit(0));
    if (argc == 5) {
        one(argv);
        return 0;
    }
    CHECK(cuDeviceGetCount(&devices));
    if (devices < 2)
        return 77;
    for (int c = 0; c < 8; c++)
        for (int w = 0; w < 4; w++)
            for (int o = 0; o < (w < 3 ? 4 : 2); o++)
                rows[count++] = (struct row){calls[c], ways[w][0], ways[w][1], open[o], NULL, 0};
    for (unsigned i = 0; i < count; i += AT_ONCE) {
        for (unsigned k = i; k < count && k < i + AT_ONCE; k++)
            ask(&rows[k]);
        for (unsigned k = i; k < count && k < i + AT_ONCE; k++)
            tell(&rows[k]);
    }
    return 0;
}
