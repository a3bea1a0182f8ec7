/* SPDX-License-Identifier: MIT */
/* hints SCENARIO: device blocks that libzc puts into managed memory, and where their pages were
 * sent: prints a device's number, or -2 for nowhere. */
#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (4 * MIB)

static char host[SIZE];
static CUdeviceptr block;

static void show(const char *when)
{
    int device = -9;
    CHECK(sim_range_attribute(&device, sizeof(device),
                              CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, block, SIZE));
    printf("%s: %d\n", when, device);
}

static void start(void)
{
    start_gpu(0);
    CHECK(cuMemAlloc(&block, SIZE));
    show("made");
}

static void finish(void)
{
    CHECK(cuMemcpyDtoH(host, block + SIZE - MIB, MIB));
    EXPECT(all_are(host, 3, MIB));
    CHECK(cuMemFree(block));
    end_gpu(0);
}

static void copied_whole(void)
{
    start();
    memset(host, 1, SIZE);
    CHECK(cuMemcpyHtoD(block, host, SIZE));
    show("copied");
    fill(block, 3, SIZE, NULL);
    show("launched");
    finish();
}

static void copied_part(void)
{
    start();
    CHECK(cuMemcpyHtoD(block, host, MIB));
    show("copied");
    fill(block, 3, SIZE, NULL);
    show("launched");
    finish();
}

static void launched(void)
{
    start();
    fill(block, 3, SIZE, NULL);
    show("launched");
    finish();
}

/* Three launches and three copies need no more than one prefetch. */
static void again(void)
{
    start_gpu(0);
    CHECK(cuMemAlloc(&block, SIZE));
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemcpyHtoD(block, host, SIZE));
        fill(block, 3, SIZE, NULL);
    }
    printf("prefetches %llu\n",
           sim_calls("cuMemPrefetchAsync_v2") + sim_calls("cuMemPrefetchAsync"));
    finish();
}

static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    CHECK(cuMemAlloc(&block, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyHtoDAsync(block, host, SIZE, stream));
    fill(block, 3, SIZE, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    show("captured");
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    show("launched");
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    finish();
}

/* The prefetch goes into the stream of the launch, behind what that has to do. */
static void in_its_stream(void)
{
    struct gate gate;
    CUstream stream;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&block, SIZE));
    gate_close(&gate, stream);
    fill(block, 3, SIZE, stream);
    EXPECT(cuStreamQuery(NULL) == CUDA_SUCCESS);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    show("launched");
    finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"copied_whole", copied_whole}, {"copied_part", copied_part},
        {"launched", launched},         {"again", again},
        {"captured", captured},         {"in_its_stream", in_its_stream},
    };
    return RUN_SCENARIO(all, argc, argv);
}
