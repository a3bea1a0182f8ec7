/* SPDX-License-Identifier: MIT */
/* What the driver reads of the program's memory by itself lies in the host block of a pair: the
 * arguments of kernels, nodes of graphs, lists of operations, code and its options. */
#include <pthread.h>

#include "shared_scene.h"

#define ADDED 5u
#define TEXT_BYTES ((size_t)3 << 20) /* Of a module: more than a page of the pair. */

/* Arguments of a kernel that adds to all but the first page, in the form of an array and packed. */
struct arguments {
    CUdeviceptr d;
    size_t from, n;
    unsigned seed;
    int *result;
    void *list[5];
    size_t bytes;
    void *extra[5];
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    CUDA_KERNEL_NODE_PARAMS_v2 node;
    CUstreamBatchMemOpParams ops[2];
};

/* The scene's pair: the arguments lie in its host block, behind its first byte. */
static struct pair p;
static struct arguments *a;

static void open_scene(void)
{
    p = new_pair(SIZE);
    paint(p.h, SIZE, 1);
    a = (struct arguments *)(p.h + 64);
    *a = (struct arguments){.d = p.d, .from = UNIT, .n = SIZE - UNIT, .seed = ADDED};
    memcpy(a->list, ((void *[]){&a->d, &a->from, &a->n, &a->seed, &a->result}), sizeof(a->list));
    a->bytes = sizeof(*a);
    memcpy(a->extra,
           ((void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, a, CU_LAUNCH_PARAM_BUFFER_SIZE, &a->bytes,
                       CU_LAUNCH_PARAM_END}),
           sizeof(a->extra));
    a->config = (CUlaunchConfig){.gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .attrs = &a->attribute,
                                 .numAttrs = 1};
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
}

/* The host block is what it was, and has what the kernel made once that is copied back. */
static void close_scene(unsigned times)
{
    EXPECT(shows_part(p.h, 0, 64, 1) && a->seed == ADDED && a->d == p.d);
    EXPECT(shows_part(p.h, sizeof(*a) + 64, UNIT - sizeof(*a) - 64, 1));
    CHECK(cuMemcpyDtoH(p.h + UNIT, p.d + UNIT, SIZE - UNIT));
    for (size_t i = UNIT; i < SIZE; i++)
        EXPECT(p.h[i] == (unsigned char)(pattern(i, 1) + times * ADDED));
    a->seed = ADDED + 1;
    EXPECT(copy_sees(p.d, sizeof(*a) + 64, UNIT - sizeof(*a) - 64, 1));
    give_back(p);
    printf("done\n");
}

static void as_array(void)
{
    open_scene();
    CUfunction f = kernel_of(ADD);
    for (int i = 0; i < 3; i++) {
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a->list, NULL));
        CHECK(cuMemcpyHtoD(p.d, p.h, UNIT)); /* The page is copied again and again. */
    }
    close_scene(3);
}

/* The array is the program's own, and only values lie in the pair. */
static void as_values(void)
{
    open_scene();
    void *list[] = {&a->d, &a->from, &a->n, &a->seed, &a->result};
    CHECK(cuLaunchKernel(kernel_of(ADD), 1, 1, 1, 1, 1, 1, 0, NULL, list, NULL));
    close_scene(1);
}

static void packed(void)
{
    open_scene();
    CHECK(cuLaunchKernel(kernel_of(ADD), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, a->extra));
    close_scene(1);
}

static void configured(void)
{
    open_scene();
    CUfunction f = kernel_of(ADD);
    CHECK(cuLaunchKernelEx(&a->config, f, a->list, NULL));
    CHECK(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a->list));
    close_scene(2);
}

/* Arguments of one pair's kernel in another pair: a launch closes all pairs. */
static void of_another(void)
{
    struct pair other = filled_pair(SIZE, 3);
    open_scene();
    a->d = other.d;
    CHECK(cuLaunchKernel(kernel_of(ADD), 1, 1, 1, 1, 1, 1, 0, NULL, a->list, NULL));
    CHECK(cuMemcpyDtoH(other.h, other.d, SIZE));
    EXPECT(other.h[UNIT] == (unsigned char)(pattern(UNIT, 3) + ADDED));
    a->d = p.d;
    CHECK(cuMemcpyDtoH(p.h, p.d, 64)); /* Else nothing of the pair was wanted. */
    give_back(other);
    close_scene(0);
}

/* Nodes are given and changed while a kernel that was launched before has closed the pages. */
static void nodes(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    open_scene();
    a->node = (CUDA_KERNEL_NODE_PARAMS_v2){.func = kernel_of(ADD),
                                           .gridDimX = 1,
                                           .gridDimY = 1,
                                           .gridDimZ = 1,
                                           .blockDimX = 1,
                                           .blockDimY = 1,
                                           .blockDimZ = 1,
                                           .kernelParams = a->list};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
    CHECK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &a->node));
    CHECK(cuGraphKernelNodeSetParams_v2(node, &a->node));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuGraphExecKernelNodeSetParams_v2(exec, node, &a->node));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    close_scene(2);
}

/* Operations that write d are a launch, too. */
static void operations(void)
{
    open_scene();
    for (int i = 0; i < 2; i++)
        a->ops[i].writeValue =
            (struct CUstreamMemOpWriteValueParams_st){.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                      .address = p.d + SIZE - 8 + 4 * (size_t)i,
                                                      .value = 0x01020304};
    CHECK(cuStreamBatchMemOp(NULL, 2, a->ops, 0));
    CHECK(cuMemcpyDtoH(p.h + UNIT, p.d + UNIT, SIZE - UNIT));
    EXPECT(p.h[SIZE - 1] == 1 && p.h[SIZE - 5] == 1 && shows_part(p.h, UNIT, UNIT, 1));
    EXPECT(a->ops[1].writeValue.value == 0x01020304);
    give_back(p);
    printf("done\n");
}

/* A module's text, and options and names, in pages that a kernel has closed and did not write. */
static void code(void)
{
    CUmodule module;
    CUfunction f;
    p = new_pair(SIZE);
    memset(p.h, ' ', SIZE);
    p.h[TEXT_BYTES] = 0;
    CUjit_option *options = (CUjit_option *)(p.h + 2 * UNIT);
    void **values = (void **)(options + 2);
    char *name = (char *)(values + 2);
    options[0] = CU_JIT_MAX_REGISTERS;
    values[0] = (void *)32;
    strcpy(name, "shows");
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemcpyHtoD(p.d, p.h, SIZE));
        int result = -1;
        CHECK(try_kernel(SHOWS, p.d, 0, 1, 0, &result, NULL));
        CHECK(cuModuleLoadDataEx(&module, p.h, 1, options, values));
        CHECK(cuModuleGetFunction(&f, module, name));
        CHECK(cuModuleUnload(module));
    }
    give_back(p);
    printf("done\n");
}

/* Another thread copies the arena and launches, while this one launches with arguments in it. */
static void *copies_and_launches(void *unused)
{
    CUcontext context;
    (void)unused;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < 200; i++) {
        CHECK(cuMemcpyHtoD(p.d, p.h, UNIT));
        int result = -1;
        CHECK(try_kernel(SHOWS, p.d, 0, 1, 1, &result, NULL));
    }
    CHECK(cuCtxSynchronize());
    return NULL;
}

static void two_threads(void)
{
    pthread_t thread;
    open_scene();
    CUfunction f = kernel_of(ADD);
    /* Before the other thread's: a kernel of its own would have the arguments lost. */
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a->list, NULL));
    CHECK(pthread_create(&thread, NULL, copies_and_launches, NULL));
    for (int i = 1; i < 100; i++)
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, a->list, NULL));
    CHECK(pthread_join(thread, NULL));
    close_scene(100);
}

static const struct scenario all[] = {
    {"as_array", as_array},       {"as_values", as_values},
    {"packed", packed},           {"configured", configured},
    {"of_another", of_another},   {"nodes", nodes},
    {"operations", operations},   {"code", code},
    {"two_threads", two_threads},
};

int main(int argc, char **argv)
{
    return RUN_SCENES(all, argc, argv);
}
