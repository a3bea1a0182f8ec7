/* SPDX-License-Identifier: MIT */
/* Kernels read blocks that are fetched to the device (spill = fetch); the program fills them. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include "moved_look.h"

/* Each sweep needs two blocks more than there is room for. */
static void cycle(void)
{
    start(6);
    show("made");
    look_through(0, 6, 8);
    finish();
}

/* Many sweeps, of which each needs eight blocks more than there is room for. */
static void sweeps(void)
{
    start(24);
    look_through(0, 24, 20);
    finish();
}

/* Kernels run long enough that their blocks leave as soon as they have ended. */
static void running(void)
{
    CUstream s[2];
    start(6);
    for (unsigned i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&s[i], i ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    for (unsigned t = 0; t < 48; t++)
        CHECK(try_look(t % 6, t % 3 == 2 ? NULL : s[t % 3], 3000));
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < 2; i++)
        CHECK(cuStreamDestroy(s[i]));
    finish();
}

/* A block comes while a kernel of another one runs, and another one while none does. */
static void hidden(void)
{
    unsigned near = 0, far = 0;
    sweep_six(3);
    CHECK(cuCtxSynchronize());
    while (hosted(blocks[near]))
        near++;
    while (!hosted(blocks[far]))
        far++;
    held = true;
    CHECK(try_look(near, NULL, HELD));
    look(far, NULL);
    held = false;
    CHECK(cuCtxSynchronize());
    for (far = 0; !hosted(blocks[far]);)
        far++;
    look(far, NULL);
    finish();
}

/* The program uses the block that the next launch will name, and that may be on its way. */
static void ahead(void)
{
    start(6);
    for (unsigned t = 0, j = 1; t < 90; j = (++t + 1) % 6) {
        CHECK(cuCtxSynchronize());
        look(t % 6, NULL);
        if (t % 5 == 2)
            CHECK(cuMemFree(blocks[j])), CHECK(cuMemAlloc(&blocks[j], BLOCK));
        if (t % 5 == 0 || t % 5 == 2)
            bring(j);
        else if (t % 5 == 1)
            CHECK(cuMemcpyDtoH(out, blocks[j], BLOCK)), EXPECT(all_are(out, value[j], BLOCK));
    }
    finish();
}

static unsigned long long other_calls(void)
{
    return sim_calls("cuStreamCreate") + sim_calls("cuMemCreate") + sim_calls("cuMemRelease") +
           sim_calls("cuStreamQuery") + sim_calls("cuMemAddressReserve");
}

/* Once all blocks have left the device a first time, one that comes takes a copy, an unmap, and the
 * map of its memory, which may be due: no memory and no addresses are made, guards stay mapped. */
static void calls(void)
{
    start(6);
    look_through(0, 6, 40);
    CHECK(cuCtxSynchronize());
    sim_reset_counts();
    look_through(0, 6, 4);
    unsigned long long copies = sim_calls("cuMemcpyDtoDAsync_v2"), maps = sim_calls("cuMemMap");
    printf("a copy each: %d\n", copies > 4 && maps - copies + 1 <= 2 &&
                                    sim_calls("cuMemUnmap") - copies + 1 <= 2 &&
                                    sim_calls("cuMemSetAccess") == maps && !other_calls());
    finish();
}

/* A block leaves for another one while a launch uses it that was not looked at. */
static void unseen(void)
{
    CUstream s;
    start(4);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    look_through(0, 4, 20);
    CHECK(cuCtxSynchronize());
    sim_reset_counts();
    look_through(0, 4, 16);
    printf("calls: %d\n",
           !sim_calls("cuFuncGetParamInfo") &&
               sim_calls("cuEventRecord") + sim_calls("cuStreamWriteValue64_v2") <= 16);
    CHECK(try_look(3, NULL, 300000));
    CHECK(cuMemAlloc(&blocks[count++], BLOCK));
    memset(out, ++value[4], BLOCK);
    CHECK(cuMemcpyHtoDAsync(blocks[4], out, BLOCK, s));
    CHECK(try_look(4, s, 0));
    look_through(0, 5, 2);
    CHECK(cuStreamDestroy(s));
    finish();
}

/* The program reads and writes blocks, wherever they are. */
static void written(void)
{
    CUstream s;
    start(6);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    look_through(0, 6, 3);
    for (unsigned t = 0; t < 60; t++) {
        unsigned i = (t + 1 + t / 6) % 6, j = (i + 3) % 6;
        CHECK(try_look(t % 6, NULL, 500));
        if (t % 4 == 0)
            bring(i);
        else if (t % 4 == 1)
            CHECK(cuMemsetD8(blocks[i], ++value[i], BLOCK));
        else if (t % 4 == 2)
            CHECK(cuMemcpyDtoD(blocks[j], blocks[i], BLOCK)), value[j] = value[i];
        else
            CHECK(cuMemcpyDtoHAsync(out, blocks[i], BLOCK, s));
        if (t % 4 == 3) {
            look_through(0, 6, 1);
            CHECK(cuStreamSynchronize(s));
            EXPECT(all_are(out, value[i], BLOCK));
        }
    }
    CHECK(cuStreamDestroy(s));
    finish();
}

/* A copy by a call that libzc does not know, wherever the blocks are. */
static void unknown(void)
{
    CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream);
    CUdeviceptr from;
    sweep_six(3);
    *(void **)&copy = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuMemcpyFutureAsync");
    CHECK(cuMemHostAlloc((void **)&from, BLOCK, 0));
    for (unsigned i = 0; i < 6; i++) {
        memset((void *)from, ++value[i], BLOCK);
        SHOW(copy(blocks[i], from, BLOCK, NULL));
        CHECK(cuCtxSynchronize());
    }
    look_through(0, 6, 2);
    CHECK(cuMemFreeHost((void *)from));
    finish();
}

/* One block is used in every layer, at different distances, and weights once a pass, by two
 * launches each; one more weight than there is room for beside it. */
static void layers(void)
{
    start(6);
    for (unsigned t = 0; t < 20; t++)
        for (unsigned i = 0; i < 4; i++) {
            if (i % 2 == 0) {
                look(5, NULL);
                look(5, NULL);
            }
            look(i, NULL);
            look(i, NULL);
        }
    finish();
}

/* An order in which no block is used at the same distance each time. */
static void turns(void)
{
    start(6);
    for (unsigned t = 0; t < 40; t++) {
        look_through(0, 6, 1);
        look_through(0, 3, 1);
        look_through(0, 6, 1);
        look_through(3, 6, 1);
    }
    finish();
}

/* Launches that keep no order. */
static void disorder(void)
{
    sweep_six(2);
    for (unsigned t = 1; t < 60; t++)
        look(t * t % 7 % 6, NULL);
    finish();
}

/* The driver's answers about blocks that are mapped nowhere. */
static void questions(void)
{
    sweep_six(2);
    for (unsigned i = 0; i < 6; i++) {
        CUdeviceptr base;
        size_t bytes;
        unsigned type = 0, future = 0;
        CHECK(cuMemGetAddressRange(&base, &bytes, blocks[i] + 5));
        EXPECT(base == blocks[i] && bytes == BLOCK);
        CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, blocks[i]));
        CHECK(cuPointerGetAttribute(&future, SIM_POINTER_ATTRIBUTE_FUTURE, blocks[i]));
        EXPECT(type == CU_MEMORYTYPE_DEVICE && future == 1);
        look_through(0, 6, 1);
    }
    finish();
}

/* A stream writes words of blocks, and a batch copies others. */
static void words(void)
{
    sweep_six(2);
    for (unsigned i = 0; i < 6; i += 2)
        CHECK(cuStreamWriteValue32(NULL, blocks[i], 0x01010101u * value[i], 0));
    CHECK(cuCtxSynchronize());
    look_through(0, 6, 2);
    CUdeviceptr dst[] = {blocks[1], blocks[2]}, src[] = {blocks[4], blocks[5]};
    size_t sizes[] = {BLOCK, BLOCK}, index = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSynchronize()); /* The stream does not wait for kernels of the others. */
    CHECK(cuMemcpyBatchAsync(dst, src, sizes, 2, &attributes, &index, 1, s));
    CHECK(cuStreamSynchronize(s));
    value[1] = value[4];
    value[2] = value[5];
    look_through(0, 6, 2);
    CHECK(cuStreamDestroy(s));
    finish();
}

/* A graph's kernels, captured or made node by node, find their blocks whenever it runs. */
static void graphs(void)
{
    CUgraph graph[2];
    CUgraphExec exec[2];
    CUgraphNode node;
    CUstream s;
    sweep_six(2);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    look(0, s);
    look(4, s);
    CHECK(cuStreamEndCapture(s, &graph[0]));
    struct work w = {blocks[5], BLOCK, 0, 0};
    void *args[] = {&w, &value[5]};
    CUDA_KERNEL_NODE_PARAMS p = {.func = reader, .kernelParams = args};
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
    CHECK(cuGraphCreate(&graph[1], 0));
    CHECK(cuGraphAddKernelNode(&node, graph[1], NULL, 0, &p));
    for (unsigned i = 0; i < 2; i++)
        CHECK(cuGraphInstantiate(&exec[i], graph[i], 0));
    for (unsigned t = 0; t < 6; t++) {
        look_through(0, 6, 1);
        CHECK(cuGraphLaunch(exec[t % 2], s));
    }
    for (unsigned i = 0; i < 4; i++) {
        w = (struct work){blocks[i], BLOCK, 0, 0};
        args[1] = &value[i];
        if (i % 2)
            CHECK(cuGraphExecKernelNodeSetParams(exec[1], node, &p));
        else {
            CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
            any.kernel.func = reader;
            any.kernel.kernelParams = args;
            any.kernel.gridDimX = any.kernel.gridDimY = any.kernel.gridDimZ = 1;
            any.kernel.blockDimX = any.kernel.blockDimY = any.kernel.blockDimZ = 1;
            CHECK(cuGraphExecNodeSetParams(exec[1], node, &any));
        }
        look_through(0, 6, 1);
        CHECK(cuGraphLaunch(exec[1], s));
    }
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < 2; i++) {
        CHECK(cuGraphExecDestroy(exec[i]));
        CHECK(cuGraphDestroy(graph[i]));
    }
    CHECK(cuStreamDestroy(s));
    finish();
}

/* Kernels in the graphs of conditional nodes: one for each block, wherever that is. */
static void bodies(void)
{
    CUgraph graph[6];
    CUgraphExec exec[6];
    CUgraphNode node;
    sweep_six(2);
    for (unsigned i = 0; i < 6; i++) {
        struct work w = {blocks[i], BLOCK, 0, 0};
        void *args[] = {&w, &value[i]};
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
        CHECK(cuGraphCreate(&graph[i], 0));
        CHECK(cuGraphConditionalHandleCreate(&p.conditional.handle, graph[i], NULL, 1, 1));
        p.conditional.size = 1;
        CHECK(cuGraphAddNode(&node, graph[i], NULL, NULL, 0, &p));
        const CUDA_KERNEL_NODE_PARAMS k = {reader, 1, 1, 1, 1, 1, 1, .kernelParams = args};
        CHECK(cuGraphAddKernelNode(&node, p.conditional.phGraph_out[0], NULL, 0, &k));
        CHECK(cuGraphInstantiate(&exec[i], graph[i], 0));
    }
    look_through(0, 6, 1);
    for (unsigned i = 0; i < 6; i++)
        CHECK(cuGraphLaunch(exec[i], NULL));
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < 6; i++) {
        CHECK(cuGraphExecDestroy(exec[i]));
        CHECK(cuGraphDestroy(graph[i]));
    }
    finish();
}

/* A graph names more blocks than the launch of one is looked after for. */
static void crowd(void)
{
    enum { BLOCKS = 100 };
    static CUdeviceptr at[BLOCKS];
    static const unsigned char zero;
    CUgraph graph, parent;
    CUgraphExec exec;
    CUgraphNode node;
    start(1);
    look(0, NULL);
    CHECK(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(cuMemAlloc(&at[i], 2 * MIB));
        CHECK(cuMemsetD8(at[i], 0, MIB));
        struct work w = {at[i], MIB, 0, 0};
        void *args[] = {&w, (void *)&zero};
        const CUDA_KERNEL_NODE_PARAMS p = {reader, 1, 1, 1, 1, 1, 1, .kernelParams = args};
        CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &p));
    }
    CHECK(cuGraphCreate(&parent, 0));
    CHECK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
    CHECK(cuGraphInstantiate(&exec, parent, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecChildGraphNodeSetParams(exec, node, graph));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(parent));
    CHECK(cuGraphDestroy(graph));
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree(at[i]));
    finish();
}

/* A kernel see(texture, tensor map, what each byte of both must be). */
static int see_grid(void *const *args, const struct sim_launch *launch)
{
    const CUdeviceptr at[] = {sim_texture_address(*(const CUtexObject *)args[0]),
                              sim_tensor_address(args[1])};
    (void)launch;
    for (unsigned i = 0; i < 2; i++) {
        const unsigned char *p = sim_gpu_pointer(at[i]);
        if (!p)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        wrong += !all_are(p, ((const unsigned char *)args[2])[i], BLOCK);
    }
    return 0;
}

static CUtensorMap tensor_map(unsigned i, bool hides)
{
    CUtensorMap map;
    void *at = (void *)blocks[i];
    if (hides)
        CHECK(cuTensorMapEncodeIm2col(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, at, NULL, NULL, NULL,
                                      NULL, 1, 1, NULL, 0, 0, 0, 0));
    else
        CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, at, NULL, NULL, NULL,
                                     NULL, 0, 0, 0, 0));
    return map;
}

/* Kernels reach blocks by textures, and by tensor maps, of which some show the address. */
static void textures(void)
{
    CUtexObject texture[3];
    CUtensorMap map[3];
    CUDA_TEXTURE_DESC desc = {.flags = CU_TRSF_READ_AS_INTEGER};
    start(6);
    CUfunction see =
        load_kernel("see", see_grid, 3, (const size_t[]){sizeof(*texture), sizeof(*map), 2});
    look_through(0, 6, 2);
    for (unsigned i = 0; i < 3; i++) {
        CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_PITCH2D};
        r.res.pitch2D.devPtr = blocks[i / 2];
        if (!i) {
            r.resType = CU_RESOURCE_TYPE_LINEAR;
            r.res.linear.devPtr = blocks[0];
        }
        CHECK(cuTexObjectCreate(&texture[i], &r, &desc, NULL));
        map[i] = tensor_map(2 + i, i);
    }
    CHECK(cuTensorMapReplaceAddress(&map[2], (void *)blocks[5]));
    for (unsigned t = 0; t < 3; t++) {
        look_through(0, 6, 1);
        for (unsigned i = 0; i < 3; i++) {
            unsigned char must[] = {value[i / 2], value[i < 2 ? 2 + i : 5]};
            void *args[] = {&texture[i], &map[i], must};
            CHECK(cuLaunchKernel(see, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        }
    }
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < 3; i++)
        CHECK(cuTexObjectDestroy(texture[i]));
    show("ended");
    finish();
}

/* Kernels write blocks that the program has not copied into. */
static void unfilled(void)
{
    start_gpu(0);
    make(6);
    sweep(0, 6, 4, 5, 20000);
    end();
}

/* A kernel writes a block. */
static void writes(void)
{
    sweep_six(3);
    CHECK(cuCtxSynchronize());
    add(4, 5, 20000, NULL);
    SHOW(cuCtxSynchronize());
}

/* A kernel reads blocks whose addresses it was given before, by memory: one of them is mapped
 * nowhere. */
static int stray_grid(void *const *args, const struct sim_launch *launch)
{
    (void)args;
    (void)launch;
    for (unsigned i = 0; i < 6; i++)
        if (!sim_gpu_pointer(blocks[i]))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    return 0;
}

static void stray(void)
{
    sweep_six(3);
    CHECK(cuCtxSynchronize());
    CUfunction k = load_kernel("stray", stray_grid, 0, NULL);
    CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SHOW(cuCtxSynchronize());
}

/* A kernel whose arguments nobody knows: more bytes than CUDA allows; in a graph as well. */
static void unnamed_by(bool in_graph)
{
    static size_t sizes[64];
    static char bytes[128];
    void *args[64];
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    for (unsigned i = 0; i < 64; i++) {
        sizes[i] = sizeof(bytes);
        args[i] = bytes;
    }
    sweep_six(3);
    CUfunction k = load_kernel("stray", stray_grid, 64, sizes);
    const CUDA_KERNEL_NODE_PARAMS p = {k, 1, 1, 1, 1, 1, 1, .kernelParams = args};
    if (in_graph) {
        CHECK(cuGraphCreate(&graph, 0));
        CHECK(cuGraphAddKernelNode(&node, graph, NULL, 0, &p));
        CHECK(cuGraphInstantiate(&exec, graph, 0));
        CHECK(cuGraphLaunch(exec, NULL));
        CHECK(cuCtxSynchronize());
        CHECK(cuGraphExecDestroy(exec));
        CHECK(cuGraphDestroy(graph));
    } else {
        CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    }
    look_through(0, 6, 3);
    finish();
}

static void unnamed(void)
{
    unnamed_by(false);
}

static void unnamed_node(void)
{
    unnamed_by(true);
}

/* A kernel is given all blocks, more than fit. */
static int many_grid(void *const *args, const struct sim_launch *launch)
{
    const CUdeviceptr *at = args[0];
    (void)launch;
    for (unsigned i = 0; i < 6; i++) {
        const unsigned char *p = sim_gpu_pointer(at[i]);
        if (!p)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        wrong += !all_are(p, value[i], BLOCK);
    }
    return 0;
}

static void many(void)
{
    start(6);
    CUfunction k = load_kernel("many", many_grid, 1, (const size_t[]){sizeof(blocks)});
    void *args[] = {blocks};
    for (unsigned t = 0; t < 3; t++) {
        CHECK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        look_through(0, 6, 2);
    }
    finish();
}

static atomic_bool go_on;

/* Runs until the program says so, or for ten seconds. */
static int wait_grid(void *const *args, const struct sim_launch *launch)
{
    for (unsigned i = 0; i < 10000 && !go_on; i++)
        usleep(1000);
    wrong += !go_on;
    return look_grid(args, launch);
}

/* A kernel waits for what the program does after launches that need the room of its block. */
static void for_ever(void)
{
    CUstream s;
    start(2);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    look_through(0, 2, 3);
    reader = load_kernel("wait", wait_grid, 2, (const size_t[]){sizeof(struct work), 1});
    look(0, s);
    reader = NULL;
    look(1, NULL);
    CHECK(cuStreamSynchronize(NULL));
    go_on = true;
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy(s));
    finish();
}

/* Threads read all blocks, each in a stream of its own, with room for less than they use. */
static CUcontext shared_context;

static void *reading(void *arg)
{
    CUstream s;
    unsigned first = (unsigned)(uintptr_t)arg;
    CHECK(cuCtxSetCurrent(shared_context));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned t = 0; t < 60; t++) {
        CHECK(try_look((first + t * (1 + first % 2)) % 6, s, t % 5 ? 0 : 1000));
        if (t % 20 == 19) {
            unsigned char *read = malloc(BLOCK);
            unsigned i = (first + t) % 6;
            CHECK(cuMemcpyDtoHAsync(read, blocks[i], BLOCK, s));
            CHECK(cuStreamSynchronize(s));
            EXPECT(all_are(read, value[i], BLOCK)), free(read);
        }
    }
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy(s));
    return NULL;
}

static void threads(void)
{
    pthread_t t[4];
    shared_context = start(6);
    look(0, NULL);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, reading, (void *)i));
    for (unsigned i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL));
    finish();
}

/* The current context, `there`, uses all blocks by a kernel of its own, and then the first one,
 * `here`, does. */
static void look_there_and_here(CUcontext here, CUcontext there)
{
    CUfunction before = reader;
    reader = NULL;
    look_through(0, 6, 1);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(here));
    reader = before;
    look_through(0, 6, 2);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy(there));
    finish();
}

/* Another context of the device uses blocks that are mapped nowhere, and others. */
static void beside(void)
{
    CUcontext first = start(6), second;
    look_through(0, 6, 3);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxCreate(&second, NULL, 0, 0));
    look_there_and_here(first, second);
}

/* Another device reads blocks of the first one, wherever they are. */
static void peers(void)
{
    CUcontext first = start(6), second;
    CUdevice device;
    look_through(0, 6, 3);
    CHECK(cuCtxSynchronize());
    CHECK(cuDeviceGet(&device, 1));
    CHECK(cuCtxCreate(&second, NULL, 0, device));
    CHECK(cuCtxEnablePeerAccess(first, 0));
    look_there_and_here(first, second);
}

static void freed(void)
{
    sweep_six(3);
    for (unsigned i = 0; i < 6; i++) {
        CHECK(try_look(i, NULL, 2000));
        CHECK(cuMemFree(blocks[i]));
        CHECK(cuMemAlloc(&blocks[i], BLOCK));
        bring(i);
        look_through(0, 6, 1);
    }
    finish();
}

/* A context goes with its blocks, wherever they are. */
static void gone(void)
{
    sweep_six(3);
    kernel = reader = NULL;
    end_gpu(0);
    sweep_six(3);
    finish();
}

/* The program's child has no blocks, and its own exit is as that of any. */
static void forked(void)
{
    sweep_six(2);
    pid_t child = fork();
    if (!child)
        _exit(0);
    int status = 1;
    EXPECT(waitpid(child, &status, 0) == child && !status);
    look_through(0, 6, 2);
    finish();
}

/* Each of some driver calls fails in turn while blocks move; at last what gives something back. */
static void fails(void)
{
    static char names[] =
        "cuMemCreate cuMemAddressReserve cuMemMap cuMemSetAccess cuStreamCreate cuStreamWaitEvent "
        "cuEventCreate cuMemcpyDtoDAsync_v2 cuEventRecord cuMemHostAlloc cuEventQuery "
        "cuStreamWriteValue64_v2 cuMemGetInfo_v2 cuCtxGetCurrent cuCtxGetDevice "
        "cuStreamSynchronize "
        "cuStreamQuery cuEventSynchronize cuMemUnmap cuMemRelease cuMemAddressFree "
        "cuEventDestroy_v2 cuStreamDestroy_v2";
    size_t leaks = 0;
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        unsigned long long made;
        unsigned nth = 0;
        do {
            start(6);
            if (nth % 2)
                look_through(0, 6, 2);
            sim_reset_counts();
            sim_fail(name, CUDA_ERROR_UNKNOWN, ++nth);
            for (unsigned i = 0; i < 6; i++)
                look(i, NULL);
            made = sim_calls(name);
            sim_fail(NULL, 0, 0);
            look_through(0, 6, 1);
            CHECK(cuCtxSynchronize());
            check_all();
            for (; count; count--)
                CHECK(cuMemFree(blocks[count - 1]));
            reader = kernel = NULL;
            end_gpu(0);
        } while (made > nth && nth < 40);
        leaks = strcmp(name, "cuEventSynchronize") ? leaks : sim_leaks(SIM_LEAK_CLASSES);
    }
    printf("wrong: %u\nleaks %zu\n", wrong, leaks);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"cycle", cycle},       {"running", running},   {"hidden", hidden},
        {"calls", calls},       {"written", written},   {"unknown", unknown},
        {"disorder", disorder}, {"graphs", graphs},     {"questions", questions},
        {"words", words},       {"unfilled", unfilled}, {"writes", writes},
        {"stray", stray},       {"unnamed", unnamed},   {"many", many},
        {"for_ever", for_ever}, {"threads", threads},   {"beside", beside},
        {"peers", peers},       {"freed", freed},       {"gone", gone},
        {"forked", forked},     {"bodies", bodies},     {"unnamed_node", unnamed_node},
        {"textures", textures}, {"crowd", crowd},       {"layers", layers},
        {"unseen", unseen},     {"ahead", ahead},       {"turns", turns},
        {"fails", fails},       {"sweeps", sweeps}};
    return RUN_SCENARIO(all, argc, argv);
}
