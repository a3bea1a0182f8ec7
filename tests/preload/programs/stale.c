/* SPDX-License-Identifier: MIT */
/* Host blocks whose pages the program changes after they were copied, and copies of them then:
 * while a stream waits for the program, on one device or another, by batches and by graphs. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "program.h"

#define BYTES ((size_t)4 << 20)
#define PAGE ((size_t)4096)
#define PITCH ((size_t)64 << 10)

static char *h;
static CUdeviceptr d;
static CUstream waiting, other;
static struct gate gate;

/* A host block that was copied often enough to be registered, and a device block. */
static void begin(void)
{
    EXPECT(posix_memalign((void **)&h, PAGE, BYTES) == 0);
    memset(h, 1, BYTES);
    CHECK(cuMemAlloc(&d, BYTES));
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
}

static char *page(size_t i)
{
    return (char *)(((uintptr_t)h + PAGE - 1) / PAGE * PAGE) + i * PAGE;
}

static void give_away(void)
{
    EXPECT(madvise(page(3), 5 * PAGE, MADV_DONTNEED) == 0);
}

/* Behind a fork the kernel may give the parent pages of its own. */
static void fork_and_write(void)
{
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    memset(page(3), 7, 5 * PAGE);
}

static void end(void)
{
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    free(h);
    CHECK(cuMemFree(d));
    end_gpu(0);
}

static void show(const char *what, const char *at)
{
    size_t other_bytes = 0;
    for (size_t i = 0; i < BYTES; i++)
        other_bytes += at[i] != 1;
    printf("%s: %zu bytes differ, %d in them\n", what, other_bytes, at[page(4) - h]);
}

static void show_device(const char *what)
{
    static char got[BYTES];
    CHECK(cuMemcpyDtoHAsync(got, d, BYTES, other));
    CHECK(cuStreamSynchronize(other));
    show(what, got);
}

static void fill_device(int value)
{
    CHECK(cuMemsetD8Async(d, (unsigned char)value, BYTES, other));
    CHECK(cuStreamSynchronize(other));
}

/* Lines go both ways, whole and in parts, in a stream or not. */
static void copy_lines(void)
{
    CHECK(cuMemcpyHtoDAsync(d, h, BYTES, other));
    CHECK(cuStreamSynchronize(other));
    show_device("up");
    fill_device(1);
    CHECK(cuMemcpyHtoD(d, h, BYTES / 2));
    show_device("half up");
    fill_device(3);
    CHECK(cuMemcpyDtoHAsync(page(4), d, PAGE, other));
    CHECK(cuStreamSynchronize(other));
    show("a page down", h);
    CHECK(cuMemcpyDtoH(h, d, BYTES));
    show("down", h);
}

static void lines(void)
{
    begin();
    gate_close(&gate, waiting);
    give_away();
    copy_lines();
    end();
}

/* As both before and behind this, where nothing tells that the stream waits. */
static void by_kernel(void)
{
    begin();
    gate_close_by_kernel(&gate, waiting);
    give_away();
    copy_lines();
    fork_and_write();
    copy_lines();
    end();
}

static void forked(void)
{
    begin();
    gate_close(&gate, waiting);
    fork_and_write();
    copy_lines();
    end();
}

/* The stream of the copy waits itself. */
static void behind(void)
{
    begin();
    gate_close(&gate, other);
    give_away();
    CHECK(cuMemcpyHtoDAsync(d, h, BYTES, other));
    memset(h, 9, BYTES);
    gate_open(&gate);
    show_device("behind");
    end();
}

static void rows(void)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcPitch = PITCH,
                          .dstPitch = PITCH,
                          .WidthInBytes = PITCH / 2,
                          .Height = BYTES / PITCH};
    begin();
    gate_close(&gate, waiting);
    give_away();
    copy.srcHost = h;
    copy.dstDevice = d;
    SHOW(cuMemcpy2DAsync(&copy, other));
    gate_open(&gate);
    show_device("rows");
    end();
}

static void batch(void)
{
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    begin();
    CUdeviceptr from = (CUdeviceptr)h;
    size_t bytes = BYTES, first = 0;
    give_away();
#if CUDA_VERSION >= 13000
    CHECK(cuMemcpyBatchAsync(&d, &from, &bytes, 1, &how, &first, 1, other));
#else
    size_t failed;
    CHECK(cuMemcpyBatchAsync(&d, &from, &bytes, 1, &how, &first, 1, &failed, other));
#endif
    show_device("batch");
    gate.open = 1;
    end();
}

static void launch(CUgraph graph, const char *what)
{
    CUgraphExec exec;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, other));
    show_device(what);
    memset(page(20), 8, PAGE);
    give_away();
    CHECK(cuGraphLaunch(exec, other));
    show_device("again");
    fork_and_write();
    CHECK(cuGraphLaunch(exec, other));
    show_device("forked");
}

static void captured(void)
{
    CUgraph graph;
    begin();
    CHECK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyHtoDAsync(d, h, BYTES, other));
    CHECK(cuStreamEndCapture(other, &graph));
    launch(graph, "captured");
    gate.open = 1;
    end();
}

static void node(void)
{
    CUgraph graph;
    CUgraphNode added;
    CUcontext context;
    begin();
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = h,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = d,
                          .WidthInBytes = BYTES,
                          .Height = 1,
                          .Depth = 1};
    give_away();
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemcpyNode(&added, graph, NULL, 0, &copy, context));
    launch(graph, "node");
    gate.open = 1;
    end();
}

static void show_registered(void)
{
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    CUdeviceptr start = 0, device = 0;
    size_t bytes = 0;
    unsigned type = 0, flags = 0;
    void *data[] = {&start, &bytes, &type};
    SHOW(cuPointerGetAttributes(3, attributes, data, (CUdeviceptr)h + PAGE));
    SHOW(cuMemHostGetFlags(&flags, h));
    SHOW(cuMemHostGetDevicePointer(&device, h, 0));
    printf("at %td, %zu bytes, type %u, flags %u, device %d\n", start ? (char *)start - h : 1,
           bytes, type, flags, device == (CUdeviceptr)h);
}

/* The program registers the whole block itself while a stream waits, twice. */
static void register_block(unsigned flags)
{
    SHOW(cuMemHostRegister(h, BYTES, flags));
    SHOW(cuMemHostRegister(h, BYTES, flags));
    show_registered();
    CHECK(cuMemcpyHtoDAsync(d, h, BYTES, other));
    memset(page(4), 5, PAGE);
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    show_device("registered");
    SHOW(cuMemHostUnregister(h + PAGE));
    SHOW(cuMemHostUnregister(h));
    SHOW(cuMemHostUnregister(h));
    show_registered();
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    show_device("no longer");
}

static void registers(void)
{
    begin();
    gate_close(&gate, waiting);
    register_block(0);
    gate_close_by_kernel(&gate, waiting);
    register_block(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    end();
}

/* Such a block is freed, or its context goes, before its registration ends. */
static void register_and_lose(void)
{
    begin();
    void *volatile freed = h;
    SHOW(cuMemHostRegister(h, BYTES, 0));
    free(h);
    SHOW(cuMemHostUnregister(freed));
    EXPECT(posix_memalign((void **)&h, PAGE, BYTES) == 0);
    memset(h, 1, BYTES);
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    SHOW(cuMemHostRegister(h, BYTES, 0));
    end_gpu(0);
    start_gpu(0);
    SHOW(cuMemHostUnregister(h));
    CHECK(cuMemAlloc(&d, BYTES));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    CHECK(cuMemcpyHtoD(d, h, BYTES));
    show_device("after a reset");
    SHOW(cuMemHostRegister(h, BYTES, 0));
    SHOW(cuMemHostUnregister(h));
    gate.open = 1;
    end();
}

/* The program registers half of it. */
static void registers_half(void)
{
    begin();
    gate_close(&gate, waiting);
    SHOW(cuMemHostRegister(h, BYTES / 2, 0));
    gate_open(&gate);
    end();
}

/* The same calls beside a capture, in which no stream may be asked whether it rests. */
static void beside_capture(CUresult (*call)(void))
{
    CUstream captured;
    CUgraph graph;
    begin();
    CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, waiting);
    give_away();
    CHECK(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    printf("beside a capture: %d\n", (int)call());
    gate_open(&gate);
    CHECK(cuStreamEndCapture(captured, &graph));
    show_device("after it");
    end();
}

static CUresult copy_up(void)
{
    return cuMemcpyHtoDAsync(d, h, BYTES, other);
}

static CUresult register_half(void)
{
    return cuMemHostRegister(h, BYTES / 2, 0);
}

static void line_beside_capture(void)
{
    beside_capture(copy_up);
}

static void half_beside_capture(void)
{
    beside_capture(register_half);
}

/* A stream of another device waits while blocks of this one are freed. */
static void elsewhere(void)
{
    CUdeviceptr more[3];
    CUcontext here = start_gpu(0), there = start_gpu(1);
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSetCurrent(here));
    begin();
    for (int i = 0; i < 3; i++)
        CHECK(cuMemAlloc(&more[i], BYTES));
    CHECK(cuCtxSetCurrent(there));
    gate_close(&gate, stream);
    CHECK(cuCtxSetCurrent(here));
    free(h);
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree(more[i]));
    h = malloc(BYTES);
    memset(h, 1, BYTES);
    show("freed", h);
    end();
    CHECK(cuCtxSetCurrent(there));
    end_gpu(1);
}

/* A kernel of another device waits for what the program does behind a free, when registered memory
 * that the program has freed has been in the pool for long enough to be given back. */
static void collective(void)
{
    enum { BLOCKS = 20 };
    CUcontext here = start_gpu(0), there = start_gpu(1);
    char *block[BLOCKS];
    CUdeviceptr p;
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    CHECK(cuCtxSetCurrent(here));
    CHECK(cuMemAlloc(&p, BYTES));
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT(posix_memalign((void **)&block[i], PAGE, BYTES) == 0);
        memset(block[i], 1, BYTES);
        CHECK(cuMemcpyHtoD(p, block[i], BYTES));
        CHECK(cuMemcpyHtoD(p, block[i], BYTES));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    CHECK(cuCtxSetCurrent(there));
    gate_close_by_kernel(&gate, waiting);
    CHECK(cuCtxSetCurrent(here));
    usleep(1200000);
    SHOW(cuMemFree(p));
    gate_open(&gate);
    CHECK(cuCtxSetCurrent(there));
    CHECK(cuCtxSynchronize());
    end_gpu(1);
    end_gpu(0);
}

/* Frees where a stream of another device had waited for the program.  That the devices rest by now
 * may be seen late, but not never. */
static void rested(void)
{
    CUcontext here = start_gpu(0), there = start_gpu(1);
    CUdeviceptr p;
    bool given = false;
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    gate_close(&gate, waiting);
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(here));
    for (int i = 0; i < 1000 && !given; i++) {
        CHECK(cuMemAlloc(&p, BYTES));
        CHECK(cuMemFree(p));
        given = sim_leaks(SIM_LEAK_REGISTERED) == 0;
    }
    printf("a free gave the memory back: %d\n", given);
    CHECK(cuCtxSetCurrent(there));
    end_gpu(1);
    end_gpu(0);
}

/* A kernel waits for the program, which copies a block into a device block of its size; parts of it
 * were copied elsewhere before.  With `registered` once libzc has registered the block by itself,
 * where it does. */
static void beside_kernel(bool registered)
{
    CUdeviceptr part;
    EXPECT(posix_memalign((void **)&h, PAGE, BYTES) == 0);
    memset(h, 1, BYTES);
    for (int i = 0; registered && i < 500 && !sim_leaks(SIM_LEAK_REGISTERED); i++)
        usleep(1000);
    CHECK(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&part, BYTES / 8));
    CHECK(cuMemcpyHtoD(part, h, BYTES / 8));
    CHECK(cuMemcpyHtoD(part, h, BYTES / 8));
    gate_close_by_kernel(&gate, waiting);
    CHECK(cuMemAlloc(&d, BYTES));
    CHECK(cuMemcpyHtoDAsync(d, h, BYTES, other));
    show_device("beside a kernel");
    gate_open(&gate);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(part));
    end();
}

static void kernel(void)
{
    beside_kernel(false);
}

static void kernel_late(void)
{
    beside_kernel(true);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"lines", lines},
                                          {"forked", forked},
                                          {"by_kernel", by_kernel},
                                          {"behind", behind},
                                          {"rows", rows},
                                          {"batch", batch},
                                          {"captured", captured},
                                          {"node", node},
                                          {"registers", registers},
                                          {"register_and_lose", register_and_lose},
                                          {"registers_half", registers_half},
                                          {"line_beside_capture", line_beside_capture},
                                          {"half_beside_capture", half_beside_capture},
                                          {"elsewhere", elsewhere},
                                          {"collective", collective},
                                          {"rested", rested},
                                          {"kernel", kernel},
                                          {"kernel_late", kernel_late}};
    start_gpu(0);
    return RUN_SCENARIO(all, argc, argv);
}
