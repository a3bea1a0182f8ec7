/* SPDX-License-Identifier: MIT */
/* A program of the next CUDA: it makes calls that libzc does not know, found by each route.  What
 * it prints must be the same without libzc. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define SIZE (4 * MIB)
#define THREADS 4
#define ROUNDS 40

static CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream);
static CUresult (*copy_twin)(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream);
static CUresult (*host_func)(CUstream stream, CUhostFn fn, void *data);
static CUresult (*begin_capture)(CUstream stream, CUstreamCaptureMode mode);

static void *by_handle(const char *name)
{
    return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
}

static void *by_version1(const char *name)
{
    void *f = NULL;
    CUresult (*ask)(const char *, void **, int, cuuint64_t) =
        (CUresult(*)(const char *, void **, int, cuuint64_t))by_handle("cuGetProcAddress");
    CHECK(ask(name, &f, 99000, 0));
    return f;
}

static void *by_version2(const char *name, cuuint64_t flags)
{
    void *f = NULL;
    CUdriverProcAddressQueryResult status;
    CHECK(cuGetProcAddress(name, &f, 99000, flags, &status));
    return f;
}

static void *by_runtime(const char *name)
{
    void *f = NULL;
    int query;
    cudaError_t (*ask)(const char *, void **, unsigned, unsigned long long, void *) =
        (cudaError_t(*)(const char *, void **, unsigned, unsigned long long, void *))dlsym(
            dlopen("libcudart.so.13", RTLD_LAZY), "cudaGetDriverEntryPointByVersion");
    CHECK(ask(name, &f, 99000, cudaEnableDefault, &query));
    return f;
}

static void find(void)
{
    *(void **)&copy = by_version2("cuMemcpyFutureAsync", 0);
    *(void **)&copy_twin =
        by_version2("cuMemcpyFutureAsync", CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    *(void **)&host_func = by_handle("cuLaunchFutureFunc");
    *(void **)&begin_capture = by_handle("cuStreamBeginFutureCapture");
}

static void start(void)
{
    start_gpu(0);
    find();
}

/* The object that an address lies in. */
static const char *object_of(void *address)
{
    Dl_info info;
    EXPECT(address && dladdr(address, &info));
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

/* One function has one address by all routes, and its twin another. */
static void routes(void)
{
    const char *name = "cuMemcpyFutureAsync";
    void *f = by_handle(name);
    EXPECT(f == dlsym(RTLD_DEFAULT, name) && f == by_version1(name) && f == by_version2(name, 0) &&
           f == by_runtime(name));
    void *twin = by_handle("cuMemcpyFutureAsync_ptsz");
    EXPECT(twin != f);
    EXPECT(twin == by_version2(name, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
    printf("function in %s, twin in %s\n", object_of(f), object_of(twin));
    printf("known function in %s\n", object_of(by_handle("cuDeviceGet")));
    void *version = by_version2("cuMemcpyAsync", 0);
    printf("next version of a known function in %s\n", object_of(version));
    EXPECT(version == by_handle("cuMemcpyAsync_v2") && version != by_handle("cuMemcpyAsync"));
    int *data = by_handle("cuFutureData");
    printf("data in %s: %d\n", object_of(data), *data);
}

static void *malloced(int value)
{
    void *h = malloc(SIZE);
    EXPECT(h);
    memset(h, value, SIZE);
    return h;
}

static CUdeviceptr on_device(int value)
{
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, SIZE));
    if (value >= 0) {
        CHECK(cuMemsetD8(d, (unsigned char)value, SIZE));
        CHECK(cuCtxSynchronize()); /* Calls that set device memory do not wait for it. */
    }
    return d;
}

/* The bytes of a device block, by calls that libzc knows. */
static void show(const char *what, CUdeviceptr d)
{
    unsigned char *h = malloced(0x77);
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    printf("%s: %d%s\n", what, h[0], all_are(h, h[0], SIZE) ? "" : " and others");
    free(h);
}

static void show_host(const char *what, const unsigned char *h)
{
    printf("%s: %d%s\n", what, h[0], all_are(h, h[0], SIZE) ? "" : " and others");
}

static void *open_later(void *gate)
{
    usleep(30000);
    gate_open(gate);
    return NULL;
}

/* Work in front of the call in its stream takes its time, and no call tells what it waits for.
 */
static void make_busy(struct gate *gate, CUstream stream)
{
    pthread_t thread;
    gate_close_by_kernel(gate, stream);
    EXPECT(!pthread_create(&thread, NULL, open_later, gate));
    EXPECT(!pthread_detach(thread));
}

/* In both directions and between two blocks, at once and behind slow work; the host block was
 * copied before, so that a rule may have registered it. */
static void copies_on(CUstream stream, __typeof__(copy) call)
{
    static struct gate gate;
    unsigned char *h = malloced(1);
    CUdeviceptr first = on_device(-1), second = on_device(-1), d = on_device(9);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    CHECK(call(first, (CUdeviceptr)h, SIZE, stream)); /* A block that nothing has touched. */
    memset(h, 2, SIZE);
    CHECK(call(second, first, SIZE, stream));
    CHECK(call((CUdeviceptr)h, second, SIZE, stream));
    show_host("there and back", h);
    make_busy(&gate, stream);
    CHECK(cuMemsetD8Async(second, 3, SIZE, stream));
    CHECK(call((CUdeviceptr)h, second, SIZE, stream));
    show_host("behind slow work", h);
    make_busy(&gate, stream);
    memset(h, 4, SIZE);
    CHECK(call(d, (CUdeviceptr)h, SIZE, stream));
    memset(h, 5, SIZE); /* Pageable memory may be used again. */
    CHECK(cuStreamSynchronize(stream));
    show("taken behind slow work", d);
    CHECK(cuMemFree(first));
    CHECK(cuMemFree(second));
    CHECK(cuMemFree(d));
    free(h);
}

static void copies(void)
{
    CUstream stream;
    start();
    copies_on(NULL, copy);
    copies_on(NULL, copy_twin);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    copies_on(stream, copy);
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

/* A device block that a host block was copied into, and then another one; the host block is written
 * in between. */
static void tables(void)
{
    start();
    unsigned char *h = malloced(1), *other = malloced(2);
    CUdeviceptr d = on_device(-1), late = on_device(-1);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    memset(h, 3, SIZE);
    show("first", d);
    CHECK(copy(d, (CUdeviceptr)other, SIZE, NULL));
    CHECK(cuCtxSynchronize());
    show("second", d);
    show_host("host", h);
    CHECK(cuMemcpyHtoD(late, h, SIZE));
    CHECK(copy(late, d, SIZE, NULL));
    CHECK(copy((CUdeviceptr)h, late, SIZE, NULL));
    show_host("host", h);
    CHECK(cuMemcpyHtoD(d, other, SIZE));
    show("third", d);
    end_gpu(0);
}

/* A copy reaches the memory of a device to which its own has no peer access. */
static void devices(void)
{
    start_gpu(1);
    CUdeviceptr there = on_device(6);
    start_gpu(0);
    CUdeviceptr here = on_device(-1);
    find();
    CHECK(copy(here, there, SIZE, NULL));
    CHECK(cuCtxSynchronize());
    show("from the other device", here);
    CHECK(cuMemsetD8(here, 7, SIZE));
    CHECK(copy(there, here, SIZE, NULL));
    CHECK(cuCtxSynchronize());
    show("to the other device", there);
    CHECK(cuMemFree(here));
    CHECK(cuMemFree(there));
    end_gpu(0);
    end_gpu(1);
}

/* The copy of an array into a larger one, which a rule may put off. */
static void grows(void)
{
    start();
    CUdeviceptr old = on_device(4), larger, out = on_device(-1);
    CHECK(cuMemAlloc(&larger, 2 * SIZE));
    CHECK(cuMemcpyDtoD(larger, old, SIZE));
    CHECK(copy(out, larger, SIZE, NULL));
    CHECK(cuMemsetD8(old, 5, SIZE));
    CHECK(cuCtxSynchronize());
    show("out", out);
    show("larger", larger);
    end_gpu(0);
}

/* A host function that waits for what the program does after other calls. */
static void waits(void)
{
    static struct gate gate;
    CUstream stream;
    start();
    unsigned char *h = malloced(1);
    CUdeviceptr d = on_device(-1), more;
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    atomic_store(&gate.open, 0);
    CHECK(host_func(stream, gate_wait, &gate));
    more = on_device(-1);
    CHECK(cuMemcpyHtoD(more, h, SIZE));
    CHECK(cuMemcpyDtoD(d, more, SIZE));
    memset(h, 7, SIZE);
    CHECK(copy(more, (CUdeviceptr)h, SIZE, NULL));
    show("d", d);
    show("more", more);
    gate_open(&gate);
    CHECK(cuStreamSynchronize(stream));
    end_gpu(0);
}

/* Behind a host function that libzc knows, in a stream that never comes to rest meanwhile: in
 * general, and beside a capture. */
static void stuck(void)
{
    static struct gate gate;
    CUstream stream, other, captured;
    CUgraph graph;
    start();
    unsigned char *h = malloced(1);
    CUdeviceptr d = on_device(2);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    memset(h, 9, SIZE);
    gate_close(&gate, stream);
    SHOW(begin_capture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(copy((CUdeviceptr)h, d, SIZE, other));
    CHECK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    SHOW(copy((CUdeviceptr)h, d, SIZE, other));
    gate_open(&gate);
    CHECK(cuStreamEndCapture(captured, &graph));
    CHECK(cuStreamSynchronize(stream));
    SHOW(copy((CUdeviceptr)h, d, SIZE, other));
    show_host("host", h);
    end_gpu(0);
}

/* A host block that was copied and freed before such calls, and the next one, for which a stream
 * waits that never comes to rest meanwhile. */
static void freed_before(void)
{
    static struct gate gate;
    CUstream stream, other;
    start();
    unsigned char *h = malloced(1);
    CUdeviceptr d = on_device(2);
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    free(h);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    SHOW(copy(d, d, 0, other));
    h = malloced(3);
    gate_close(&gate, stream);
    SHOW(copy((CUdeviceptr)h, d, SIZE, other));
    show_host("host", h);
    gate_open(&gate);
    free(h);
    CHECK(cuMemFree(d));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuStreamDestroy(other));
    end_gpu(0);
}

static CUgraphExec ended(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
    return exec;
}

/* A graph of such copies, and one whose capture such a call began.  Requests meanwhile belong to
 * the graph or to the device. */
static void captured(void)
{
    CUstream stream;
    start();
    unsigned char *h = malloced(1);
    CUdeviceptr d = on_device(2), more = on_device(-1), meanwhile;
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(copy(more, d, SIZE, stream));
    CHECK(copy((CUdeviceptr)h, more, SIZE, stream));
    CUgraphExec one = ended(stream);
    CHECK(cuMemsetD8(d, 3, SIZE));
    CHECK(cuCtxSynchronize());
    show_host("not yet", h);
    CHECK(cuGraphLaunch(one, stream));
    CHECK(cuStreamSynchronize(stream));
    show_host("launched", h);
    CHECK(begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemAlloc(&meanwhile, SIZE));
    CHECK(cuMemsetD8Async(more, 4, SIZE, stream));
    CHECK(cuMemcpyDtoDAsync(d, more, SIZE, stream));
    CUgraphExec two = ended(stream);
    show("not yet", d);
    CHECK(cuGraphLaunch(two, stream));
    CHECK(cuStreamSynchronize(stream));
    show("launched", d);
    CHECK(cuGraphExecDestroy(one));
    CHECK(cuGraphExecDestroy(two));
    end_gpu(0);
}

/* Values of the next CUDA, given to calls of this one. */
#define FUTURE_OPERAND ((CUmemcpy3DOperandType)9)
#define FUTURE_NODE ((CUgraphNodeType)99)
#define FUTURE_FLAG 256u

static CUmemcpy3DOperand operand(CUdeviceptr at, CUmemcpy3DOperandType type)
{
    return (CUmemcpy3DOperand){.type = type, .op.ptr.ptr = at};
}

static void by_operand(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    CUDA_MEMCPY3D_BATCH_OP op = {.src = operand(from, FUTURE_OPERAND),
                                 .dst = operand(to, FUTURE_OPERAND),
                                 .extent = {SIZE, 1, 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUresult (*call)(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
    *(void **)&call = by_handle("cuMemcpy3DBatchAsync_v2");
    CHECK(call(1, &op, 0, stream));
}

static void by_node(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphNodeParams p = {.type = FUTURE_NODE};
    p.memcpy.copyParams = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                          .srcDevice = from,
                                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                          .dstDevice = to,
                                          .WidthInBytes = SIZE,
                                          .Height = 1,
                                          .Depth = 1};
    CUresult (*call)(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t,
                     CUgraphNodeParams *);
    *(void **)&call = by_handle("cuGraphAddNode_v2");
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(call(&node, graph, NULL, NULL, 0, &p));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static void by_flag(CUdeviceptr to, CUdeviceptr from, CUstream stream)
{
    CHECK(cuMemcpyDtoDAsync(to, from, SIZE, stream));
    CHECK(cuStreamWriteValue32(stream, to, 0, FUTURE_FLAG));
}

/* Between blocks of the device, and with `host` from and to host memory. */
static void values(void (*give)(CUdeviceptr to, CUdeviceptr from, CUstream stream), bool host)
{
    CUstream stream;
    start();
    unsigned char *h = malloced(1), *other = malloced(2);
    CUdeviceptr d = on_device(-1), late = on_device(-1), last = on_device(-1);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(d, h, SIZE));
    CHECK(cuMemcpyDtoH(h, d, SIZE));
    if (host)
        give(d, (CUdeviceptr)other, stream);
    give(late, d, stream);
    if (host)
        give((CUdeviceptr)h, late, stream);
    CHECK(cuStreamSynchronize(stream));
    show_host("host", h);
    show("d", d);
    show("late", late);
    memset(h, 3, SIZE);
    CHECK(cuMemcpyHtoD(last, h, SIZE));
    show("last", last);
    end_gpu(0);
}

static void operands(void)
{
    values(by_operand, true);
}

static void nodes(void)
{
    values(by_node, true);
}

static void flags(void)
{
    values(by_flag, false);
}

static void *in_thread(void *arg)
{
    CUcontext context;
    CUstream stream;
    int id = *(int *)arg;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    unsigned char *h = malloced(0);
    CUdeviceptr d = on_device(-1);
    for (int i = 0; i < ROUNDS; i++) {
        int value = (id * 50 + i) & 0xff;
        memset(h, value, SIZE);
        CHECK((i % 2 ? copy : copy_twin)(d, (CUdeviceptr)h, SIZE, stream));
        memset(h, 0, SIZE);
        if (i % 3)
            CHECK(cuMemcpyDtoHAsync(h, d, SIZE, stream));
        else
            CHECK(copy((CUdeviceptr)h, d, SIZE, stream));
        EXPECT(all_are(h, value, SIZE));
    }
    CHECK(cuMemFree(d));
    free(h);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    int id[THREADS];
    start();
    for (int i = 0; i < THREADS; i++) {
        id[i] = i;
        EXPECT(!pthread_create(&thread[i], NULL, in_thread, &id[i]));
    }
    for (int i = 0; i < THREADS; i++)
        EXPECT(!pthread_join(thread[i], NULL));
    puts("all right");
    end_gpu(0);
}

/* Calls with values in all registers that arguments may be in, and two words on the stack. */
#if defined(__x86_64__)
#define REGISTERS 26
static void call_with(void *f, const uint64_t *v)
{
    __asm__ volatile("mov %%rsp, %%r12\n\t"
                     "and $-16, %%rsp\n\t"
                     "push 72(%[v])\n\t"
                     "push 64(%[v])\n\t"
                     "movups 80(%[v]), %%xmm0\n\t"
                     "movups 96(%[v]), %%xmm1\n\t"
                     "movups 112(%[v]), %%xmm2\n\t"
                     "movups 128(%[v]), %%xmm3\n\t"
                     "movups 144(%[v]), %%xmm4\n\t"
                     "movups 160(%[v]), %%xmm5\n\t"
                     "movups 176(%[v]), %%xmm6\n\t"
                     "movups 192(%[v]), %%xmm7\n\t"
                     "mov 0(%[v]), %%rdi\n\t"
                     "mov 8(%[v]), %%rsi\n\t"
                     "mov 16(%[v]), %%rdx\n\t"
                     "mov 24(%[v]), %%rcx\n\t"
                     "mov 32(%[v]), %%r8\n\t"
                     "mov 40(%[v]), %%r9\n\t"
                     "mov 48(%[v]), %%rax\n\t"
                     "mov 56(%[v]), %%r10\n\t"
                     "call *%[f]\n\t"
                     "mov %%r12, %%rsp\n\t"
                     :
                     : [f] "r"(f), [v] "b"(v)
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "r12", "xmm0",
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "memory", "cc");
}
#elif defined(__aarch64__)
#define REGISTERS 26
static void call_with(void *f, const uint64_t *v)
{
    __asm__ volatile("mov x19, %[v]\n\t"
                     "mov x20, %[f]\n\t"
                     "ldp x0, x1, [x19, #64]\n\t"
                     "stp x0, x1, [sp, #-16]!\n\t"
                     "ldp q0, q1, [x19, #80]\n\t"
                     "ldp q2, q3, [x19, #112]\n\t"
                     "ldp q4, q5, [x19, #144]\n\t"
                     "ldp q6, q7, [x19, #176]\n\t"
                     "ldp x0, x1, [x19]\n\t"
                     "ldp x2, x3, [x19, #16]\n\t"
                     "ldp x4, x5, [x19, #32]\n\t"
                     "ldp x6, x7, [x19, #48]\n\t"
                     "blr x20\n\t"
                     "add sp, sp, #16\n\t"
                     :
                     : [f] "r"(f), [v] "r"(v)
                     : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
                       "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x30", "v0",
                       "v1", "v2", "v3", "v4", "v5", "v6", "v7", "memory", "cc");
}
#endif

static void registers(void)
{
    uint64_t given[REGISTERS];
    const uint64_t *got = by_handle("sim_future_registers");
    void *f = by_handle("cuFutureRegisters");
    start();
    on_device(1);
    for (int i = 0; i < REGISTERS; i++)
        given[i] = 0x0123456789abcdefu * (unsigned)(i + 1);
    call_with(f, given);
    EXPECT(!memcmp(got, given, sizeof(given)));
    puts("kept");
    end_gpu(0);
}

/* Asks for more functions than there are trampolines, and calls all. */
static void many(void)
{
    start();
    on_device(1);
    int found = 0;
    char name[32];
    void *last = NULL;
    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof(name), "cuFuture%dMany", i);
        CUresult (*f)(void);
        *(void **)&f = by_handle(name);
        CHECK(f ? f() : CUDA_SUCCESS);
        found += f != NULL;
    }
    printf("%d found, %d not\n", found, 600 - found);
    SHOW(cuGetProcAddress(name, &last, 99000, 0, NULL));
    end_gpu(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"routes", routes},     {"copies", copies},     {"tables", tables},
        {"grows", grows},       {"waits", waits},       {"stuck", stuck},
        {"captured", captured}, {"threads", threads},   {"registers", registers},
        {"many", many},         {"operands", operands}, {"nodes", nodes},
        {"flags", flags},       {"devices", devices},   {"freed_before", freed_before},
    };
    return RUN_SCENARIO(all, argc, argv);
}
