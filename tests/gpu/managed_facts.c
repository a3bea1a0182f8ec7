/* SPDX-License-Identifier: MIT */
/*
 * Asks a driver what becomes of lines between host memory and device or managed memory in
 * executable graphs: launched as they are, and after cuGraphExecMemcpyNodeSetParams ("set") or
 * cuGraphExecUpdate ("updated") has given them other host memory of the same or another kind, each
 * in a process of its own.  Prints one line a question, so that the simulated GPU can be compared
 * with a real one.
 *
 *   managed_facts     ends with status 77 where no GPU answers
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((size_t)4 << 20)

enum { PINNED, REGISTERED, PAGEABLE, HOSTS };
static const char *const host_names[] = {"pinned", "registered", "pageable"};
static CUcontext context;
static CUstream stream;
static CUdeviceptr device[2], managed[2], host[HOSTS][2];

static void check(const char *what, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s returned %d\n", what, (int)result);
    exit(1);
}
#define CHECK(call) check(#call, call)

static CUdeviceptr pages(void)
{
    void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    return (CUdeviceptr)memset(p, 1, SIZE);
}

static void start(void)
{
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        exit(77);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) {
        CHECK(cuMemAlloc(&device[i], SIZE));
        CHECK(cuMemAllocManaged(&managed[i], SIZE, CU_MEM_ATTACH_GLOBAL));
        CHECK(cuMemHostAlloc((void **)&host[PINNED][i], SIZE, 0));
        host[REGISTERED][i] = pages();
        CHECK(cuMemHostRegister((void *)host[REGISTERED][i], SIZE, 0));
        host[PAGEABLE][i] = pages();
    }
}

static CUDA_MEMCPY3D line(CUdeviceptr near, CUdeviceptr far, int to)
{
    CUmemorytype host_type = CU_MEMORYTYPE_HOST, device_type = CU_MEMORYTYPE_DEVICE;

    return (CUDA_MEMCPY3D){.dstMemoryType = to ? host_type : device_type,
                           .dstHost = (void *)(to ? far : near),
                           .dstDevice = to ? far : near,
                           .srcMemoryType = to ? device_type : host_type,
                           .srcHost = (void *)(to ? near : far),
                           .srcDevice = to ? near : far,
                           .WidthInBytes = 512,
                           .Height = 1,
                           .Depth = 1};
}

static CUgraph graph_of(const CUDA_MEMCPY3D *copy, CUgraphNode *node, CUresult *result)
{
    CUgraph graph;

    CHECK(cuGraphCreate(&graph, 0));
    *result = cuGraphAddMemcpyNode(node, graph, NULL, 0, copy, context);
    return graph;
}

/* A line from or to the first host memory, changed to one of the second; -1: not changed. */
static void ask(const CUdeviceptr *near, int to, int first, int second, int update)
{
    CUDA_MEMCPY3D before = line(near[0], host[first][0], to), after = before;
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node, other;
    CUgraphExec exec;
    CUresult result;
    CUgraph graph = graph_of(&before, &node, &result);

    printf("%d ", (int)result);
    printf("%d", (int)cuGraphInstantiate(&exec, graph, 0));
    if (second >= 0)
        after = line(near[1], host[second][1], to);
    if (second >= 0 && !update)
        printf(" set %d", (int)cuGraphExecMemcpyNodeSetParams(exec, node, &after, context));
    if (second >= 0 && update)
        printf(" updated %d",
               (int)cuGraphExecUpdate(exec, graph_of(&after, &other, &result), &info));
    printf(" launch %d", (int)cuGraphLaunch(exec, stream));
    printf(" ran %d\n", (int)cuStreamSynchronize(stream));
}

static int ask_apart(int of_managed, int to, int first, int second, int update)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        start();
        printf("%s %s %s, ", of_managed ? "managed" : "device", to ? "to" : "from",
               host_names[first]);
        printf("%s %s: ",
               second < 0 ? "launched"
               : update   ? "updated to"
                          : "set to",
               second < 0 ? "so" : host_names[second]);
        ask(of_managed ? managed : device, to, first, second, update);
        exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    int worst = 0;

    for (int way = 0; way < 4; way++)
        for (int first = 0; first < HOSTS; first++)
            for (int second = -1; second < HOSTS; second++)
                for (int update = 0; update < (second < 0 ? 1 : 2); update++) {
                    int status = ask_apart(way / 2, way % 2, first, second, update);

                    if (status != 0)
                        worst = status;
                }
    return worst;
}
