/* SPDX-License-Identifier: MIT */
/* grow SCENARIO: programs that grow an array by allocating a larger one, copying, and freeing the
 * smaller.  Each checks its bytes; some print how often the driver was asked to copy or to map. */
#include <pthread.h>

#include "grow_scene.h"

static unsigned long long copies(void)
{
    return sim_calls("cuMemcpyDtoD_v2") + sim_calls("cuMemcpyDtoDAsync_v2") +
           sim_calls("cuMemcpyAsync") + sim_calls("cuMemcpyDtoDAsync_v2_ptsz");
}

static void double_it(void)
{
    size_t bytes = 2 * MIB, last = 64 * MIB;
    CUdeviceptr array = make(bytes);
    fill(array, 1, bytes, NULL);
    for (int step = 2; bytes < last; bytes *= 2, step++) {
        array = grow_to(2 * bytes, array, bytes);
        fill(array + bytes, step, bytes, NULL);
    }
    printf("copies %llu\n", copies());
    has(array, 1, 2 * MIB);
    for (int step = 2, at = 2; at * MIB < last; at *= 2, step++)
        has(array + at * MIB, step, at * MIB);
    CHECK(cuMemFree(array));
    end_gpu(0);
}

static void doubling(void)
{
    start_gpu(0);
    double_it();
}

/* A framework makes its streams all at once: PyTorch 32 for each of four priorities. */
static void many_streams(void)
{
    CUstream stream;
    start_gpu(0);
    for (unsigned i = 0; i < 256; i++)
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    double_it();
}

/* A large array that grows by little each time. */
static void small_steps(void)
{
    size_t bytes = 512 * MIB;
    start_gpu(0);
    CUdeviceptr array = make(bytes);
    CHECK(cuMemsetD8(array, 1, MIB));
    for (int step = 2; step < 10; step++) {
        array = grow_to(bytes + 2 * MIB, array, bytes);
        bytes += 2 * MIB;
        CHECK(cuMemsetD8(array + bytes - MIB, (unsigned char)step, MIB));
    }
    printf("copies %llu creates %llu\n", copies(), sim_calls("cuMemCreate"));
    has(array, 1, MIB);
    for (int step = 2; step < 10; step++)
        has(array + bytes - (size_t)(9 - step) * 2 * MIB - MIB, step, MIB);
    CHECK(cuMemFree(array));
    end_gpu(0);
}

/* A doubled array that only calls touch which name their bytes, then a kernel, then all is read. */
static void named_bytes(void)
{
    size_t bytes = 2 * MIB, last = 64 * MIB;
    start_gpu(0);
    CUdeviceptr array = make(bytes);
    CHECK(cuMemsetD8(array + bytes - MIB, 1, MIB));
    for (int step = 2; bytes < last; bytes *= 2, step++) {
        array = grow_to(2 * bytes, array, bytes);
        CHECK(cuMemsetD8(array + 2 * bytes - MIB, (unsigned char)step, MIB));
    }
    unsigned long long named = sim_calls("cuMemMap");
    fill(array, 9, MIB, NULL);
    printf("copies %llu maps %llu then %llu\n", copies(), named, sim_calls("cuMemMap"));
    has(array, 9, MIB);
    for (int step = 1, at = 2; (size_t)at * MIB <= last; at *= 2, step++)
        has(array + (size_t)(at - 1) * MIB, step, MIB);
    CHECK(cuMemFree(array));
    end_gpu(0);
}

/* Two arrays that grow in turn by a quarter, and a third block of a size between theirs. */
static void in_turn(void)
{
    CUdeviceptr array[2], more;
    size_t bytes[2] = {4 * MIB, 8 * MIB};
    start_gpu(0);
    for (int i = 0; i < 2; i++) {
        array[i] = make(bytes[i]);
        fill(array[i], 1 + i, bytes[i], NULL);
    }
    for (int step = 0; step < 12; step++) {
        int i = step % 2;
        more = make(bytes[i] + 2 * MIB);
        CHECK(cuMemcpyDtoD(more, array[i], bytes[i]));
        CHECK(cuMemFree(array[i]));
        EXPECT(cuMemsetD8(array[i], 7, 1) == CUDA_ERROR_INVALID_VALUE);
        array[i] = more;
        fill(array[i] + bytes[i], 1 + i, 2 * MIB, NULL);
        bytes[i] += 2 * MIB;
        CUdeviceptr other = make(bytes[i]);
        fill(other, 3, bytes[i], NULL);
        has(array[0], 1, bytes[0]);
        has(array[1], 2, bytes[1]);
        CHECK(cuMemFree(other));
    }
    for (int i = 0; i < 2; i++)
        CHECK(cuMemFree(array[i]));
    end_gpu(0);
}

static void launch_between(void)
{
    pair();
    fill(from, 2, 4 * MIB, NULL);
    has(to, 1, 4 * MIB);
    has(from, 2, 4 * MIB);
    CHECK(cuMemFree(from));
    has(to, 1, 4 * MIB);
    printf("copies %llu\n", copies());
    finish(to);
}

static void set_old(void)
{
    pair();
    CHECK(cuMemsetD8(from, 2, MIB));
    CHECK(cuMemFree(from));
    has(to, 1, 4 * MIB);
    finish(to);
}

static void set_new(void)
{
    pair();
    CHECK(cuMemsetD8(to + MIB, 2, MIB));
    has(from, 1, 4 * MIB);
    CHECK(cuMemFree(from));
    has(to, 1, MIB);
    has(to + MIB, 2, MIB);
    finish(to);
}

static void copy_into_both(void)
{
    pair();
    memset(host, 3, sizeof(host));
    CHECK(cuMemcpyHtoD(to + 4 * MIB, host, 4 * MIB));
    CHECK(cuMemcpyHtoDAsync(from, host, MIB, NULL));
    has(to, 1, 4 * MIB);
    has(to + 4 * MIB, 3, 4 * MIB);
    CHECK(cuMemFree(from));
    has(to, 1, 4 * MIB);
    finish(to);
}

static void read_old(void)
{
    pair();
    has(from, 1, 4 * MIB);
    CHECK(cuMemFree(from));
    printf("copies %llu\n", copies());
    has(to, 1, 4 * MIB);
    finish(to);
}

static void word_write(void)
{
    unsigned word;
    pair();
    CHECK(cuStreamWriteValue32(NULL, from, 0x05050505, 0));
    CHECK(cuMemFree(from));
    CHECK(cuMemcpyDtoH(&word, to, sizeof(word)));
    EXPECT(word == 0x01010101);
    finish(to);
}

/* Programs wait for the copy before they free what it came from. */
static void waits(void)
{
    CUevent event;
    pair();
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, NULL));
    CHECK(cuEventSynchronize(event));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(from));
    printf("copies %llu\n", copies());
    has(to, 1, 4 * MIB);
    CHECK(cuEventDestroy(event));
    finish(to);
}

static void free_new_first(void)
{
    pair();
    CHECK(cuMemFree(to));
    has(from, 1, 4 * MIB);
    printf("copies %llu\n", copies());
    finish(from);
}

/* Either array is freed in the order of a stream, and requests that come later find it gone. */
static void freed_in_stream_order(void)
{
    pair();
    CHECK(cuMemFreeAsync(from, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(make(2 * MIB)));
    has(to, 1, 4 * MIB);
    CHECK(cuMemFree(to));
    pair();
    CHECK(cuMemFreeAsync(to, NULL));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFree(make(2 * MIB)));
    has(from, 1, 4 * MIB);
    finish(from);
}

/* A block that was freed in stream order before anything touched it needs no memory at a launch:
 * here there is none for it. */
static void freed_untouched(void)
{
    start_gpu(0);
    CUdeviceptr used = make(4 * MIB);
    fill(used, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    CUdeviceptr never = make(8 * MIB);
    sim_fail("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY, 0);
    CHECK(cuMemFreeAsync(never, NULL));
    fill(used, 2, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    sim_fail(NULL, CUDA_SUCCESS, 0);
    has(used, 2, 4 * MIB);
    finish(used);
}

static void launch_at_exit(void)
{
    fill(from, 2, 4 * MIB, NULL);
    has(to, 1, 4 * MIB);
    has(from, 2, 4 * MIB);
    finish(to);
}

/* Handlers that were registered before the first CUDA call run after all others. */
static void exiting(void)
{
    EXPECT(atexit(launch_at_exit) == 0);
    pair();
}

static void grow_twice(void)
{
    pair();
    CUdeviceptr third = make(16 * MIB);
    CHECK(cuMemcpyDtoD(third, to, 8 * MIB));
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(to));
    has(third, 1, 4 * MIB);
    finish(third);
}

/* An array grows beside one whose copy was made, and whose blocks go one by one. */
static void beside_a_copy(void)
{
    pair();
    CUdeviceptr other = make(MIB);
    fill(other, 2, MIB, NULL); /* Makes the copy. */
    CHECK(cuMemFree(from));
    from = make(4 * MIB);
    fill(from, 3, 4 * MIB, NULL);
    CUdeviceptr larger = make(8 * MIB);
    CHECK(cuMemcpyDtoD(larger, from, 4 * MIB));
    CHECK(cuMemFree(to));
    CHECK(cuMemsetD8(from, 4, 4 * MIB));
    has(larger, 3, 4 * MIB);
    has(from, 4, 4 * MIB);
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(other));
    finish(larger);
}

/* The block that was asked for first does not grow from the array, another one does. */
static void overtaken(void)
{
    pair();
    CHECK(cuMemFree(from));
    CUdeviceptr idle = make(16 * MIB), third = make(16 * MIB);
    CHECK(cuMemcpyDtoD(third, to, 8 * MIB));
    CHECK(cuMemFree(to));
    CUdeviceptr fourth = make(32 * MIB), other = make(32 * MIB);
    CHECK(cuMemcpyDtoD(fourth, third, 16 * MIB));
    CHECK(cuMemFree(third));
    CHECK(cuMemsetD8(idle, 5, 16 * MIB));
    CHECK(cuMemsetD8(other, 6, 32 * MIB));
    has(idle, 5, 16 * MIB);
    has(fourth, 1, 4 * MIB);
    has(other, 6, 32 * MIB);
    CHECK(cuMemFree(other));
    CHECK(cuMemFree(idle));
    finish(fourth);
}

static void two_copies(void)
{
    pair();
    CUdeviceptr other = make(8 * MIB);
    CHECK(cuMemcpyDtoD(other, from, 4 * MIB));
    CHECK(cuMemFree(from));
    has(to, 1, 4 * MIB);
    has(other, 1, 4 * MIB);
    CHECK(cuMemFree(other));
    finish(to);
}

static void never_freed(void)
{
    pair();
    end_gpu(0);
}

/* Too small for `vmm`. */
static void small_blocks(void)
{
    start_gpu(0);
    from = make(MIB / 2);
    fill(from, 1, MIB / 2, NULL);
    to = make(MIB);
    CHECK(cuMemcpyDtoD(to, from, MIB / 2));
    CHECK(cuMemFree(from));
    CUdeviceptr other = make(4 * MIB);
    has(to, 1, MIB / 2);
    CHECK(cuMemFree(other));
    finish(to);
}

/* Copies of a part, and into a block of the same size, grow no array. */
static void part_copied(void)
{
    start_gpu(0);
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    to = make(8 * MIB);
    CUdeviceptr same = make(4 * MIB);
    CHECK(cuMemcpyDtoD(to, from, MIB));
    CHECK(cuMemcpyDtoD(to + 4 * MIB, from, 4 * MIB));
    CHECK(cuMemcpyDtoD(same, from, 4 * MIB));
    CHECK(cuMemFree(from));
    CUdeviceptr other = make(4 * MIB);
    has(to, 1, MIB);
    has(same, 1, 4 * MIB);
    CHECK(cuMemFree(other));
    CHECK(cuMemFree(same));
    finish(to);
}

/* Neither does a copy that is refused, one into memory that is freed first, or one that is only
 * captured. */
static void no_copy(void)
{
    CUstream stream;
    CUgraph graph;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    from = make(4 * MIB);
    to = make(8 * MIB);
    EXPECT(cuMemcpyDtoD(to, from, 64 * MIB) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree(from));
    from = make(4 * MIB);
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuMemFree(from));
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuMemcpyDtoD(to, from, 4 * MIB));
    has(to, 1, 4 * MIB);
    CHECK(cuMemFree(to));
    CHECK(cuMemFree(from));
    CUdeviceptr other = make(4 * MIB);
    CHECK(cuStreamDestroy(stream));
    finish(other);
}

/* An array grows, after that one in blocks that were there before, and then it grows once more. */
static void older_blocks(void)
{
    pair();
    CUdeviceptr small = make(4 * MIB), array = make(8 * MIB);
    CHECK(cuMemFree(from));
    fill(small, 1, 4 * MIB, NULL);
    CHECK(cuMemcpyDtoD(array, small, 4 * MIB));
    CHECK(cuMemFree(small));
    array = grow_to(16 * MIB, array, 8 * MIB);
    array = grow_to(32 * MIB, array, 16 * MIB);
    has(array, 1, 4 * MIB);
    CHECK(cuMemFree(array));
    finish(to);
}

/* An array grows while another one is copied again and again. */
static void copied_often(void)
{
    pair();
    CUdeviceptr often = make(4 * MIB), larger = make(8 * MIB);
    for (int i = 0; i < 20; i++)
        CHECK(cuMemcpyDtoD(larger, often, 4 * MIB));
    CHECK(cuMemFree(from));
    to = grow_to(16 * MIB, to, 8 * MIB);
    to = grow_to(32 * MIB, to, 16 * MIB);
    has(to, 1, 4 * MIB);
    CHECK(cuMemFree(often));
    CHECK(cuMemFree(larger));
    finish(to);
}

/* The block that was copied stays. */
static void other_freed(void)
{
    pair();
    CHECK(cuMemFree(make(4 * MIB)));
    CUdeviceptr other = make(4 * MIB);
    has(to, 1, 4 * MIB);
    has(from, 1, 4 * MIB);
    CHECK(cuMemFree(other));
    CHECK(cuMemFree(from));
    finish(to);
}

/* An array does not grow into memory of a pool, nor into another device's. */
static void elsewhere(void)
{
    start_gpu(1);
    CUdeviceptr there = make(8 * MIB);
    start_gpu(0);
    CHECK(cuMemAllocAsync(&to, 8 * MIB, NULL));
    for (int i = 1; i <= 2; i++) {
        from = make(4 * MIB);
        fill(from, i, 4 * MIB, NULL);
        CHECK(cuMemcpyDtoD(i == 1 ? to : there, from, 4 * MIB));
        CHECK(cuMemFree(from));
    }
    from = make(4 * MIB);
    has(to, 1, 4 * MIB);
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(there));
    finish(to);
}

/* The kernel is still waiting for its turn when the copy is asked for; its values belong to it. */
static void kernel_in_flight(void)
{
    struct gate gate;
    start_gpu(0);
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&gate, NULL);
    fill(from, 2, 4 * MIB, NULL);
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    gate_open(&gate);
    CHECK(cuMemFree(from));
    has(to, 2, 4 * MIB);
    printf("copies %llu\n", copies());
    finish(to);
}

static atomic_bool waits_now; /* A launch waits for the copy, which waits for a kernel. */
static struct gate kernels;
static CUdeviceptr small;

static void copy_begins(void)
{
    waits_now = true;
}

static void *ask_then_open(void *context)
{
    char own[4096] = {0};
    unsigned kind;
    CHECK(cuCtxSetCurrent(context));
    while (!waits_now)
        usleep(200);
    CHECK(cuMemcpyHtoDAsync(small, own, sizeof(own), NULL));
    EXPECT(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)own) ==
           CUDA_ERROR_INVALID_VALUE);
    gate_open(&kernels);
    return NULL;
}

/* The kernel ends once another thread has asked for what nobody waits for. */
static void asked_meanwhile(void)
{
    pthread_t thread;
    CUcontext context = start_gpu(0);
    CHECK(cuMemAlloc(&small, MIB));
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&kernels, NULL);
    to = make(8 * MIB);
    pthread_create(&thread, NULL, ask_then_open, context);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    sim_before("cuMemcpyDtoDAsync_v2", copy_begins);
    fill(to + 4 * MIB, 3, 4 * MIB, NULL);
    copy_begins();
    pthread_join(thread, NULL);
    has(to, 1, 4 * MIB);
    CHECK(cuMemFree(from));
    finish(to);
}

/* The kernel ends once the program has tried to update a graph, to one of another shape: the
 * simulated driver waits for the GPU where it takes an update. */
static void updated_meanwhile(void)
{
    CUgraph none, one;
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    start_gpu(0);
    CHECK(cuGraphCreate(&none, 0));
    CHECK(cuGraphCreate(&one, 0));
    CHECK(cuGraphAddEmptyNode(&node, one, NULL, 0));
    CHECK(cuGraphInstantiate(&exec, none, 0));
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    gate_close_by_kernel(&kernels, NULL);
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    EXPECT(cuGraphExecUpdate(exec, one, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    gate_open(&kernels);
    has(to, 1, 4 * MIB);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(one));
    CHECK(cuGraphDestroy(none));
    CHECK(cuMemFree(from));
    finish(to);
}

/* A thread that launches behind work which waits for the CPU goes on, and lets the work go on. */
static void launch_then_open(struct gate *gate)
{
    fill(to + 4 * MIB, 3, 4 * MIB, NULL);
    gate_open(gate);
    has(to, 1, 4 * MIB);
    has(to + 4 * MIB, 3, 4 * MIB);
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(to));
}

static void host_work_before(void)
{
    struct gate gate;
    start_gpu(0);
    from = make(4 * MIB);
    gate_close(&gate, NULL);
    fill(from, 1, 4 * MIB, NULL);
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, NULL));
    launch_then_open(&gate);
    end_gpu(0);
}

static void host_work_behind(void)
{
    struct gate gate;
    pair();
    gate_close(&gate, NULL);
    launch_then_open(&gate);
    end_gpu(0);
}

static void CUDA_CB gate_callback(CUstream stream, CUresult status, void *gate)
{
    (void)stream;
    (void)status;
    gate_wait(gate);
}

static void callback_behind(void)
{
    struct gate gate = {0};
    pair();
    CHECK(cuStreamAddCallback(NULL, gate_callback, &gate, 0));
    launch_then_open(&gate);
    end_gpu(0);
}

static void value_behind(void)
{
    CUdeviceptr flag;
    void *word;
    pair();
    CHECK(cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    *(atomic_int *)word = 0;
    CHECK(cuMemHostGetDevicePointer(&flag, word, 0));
    CHECK(cuStreamWaitValue32(NULL, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_then_open(word); /* A gate is a word, and 1 where it is open. */
    end_gpu(0);
}

static void graph_behind(void)
{
    struct gate gate;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gate_close(&gate, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    pair();
    CHECK(cuGraphLaunch(exec, stream));
    launch_then_open(&gate);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    end_gpu(0);
}

/* A kernel of another stream that was launched before the copy and runs after it. */
static void other_stream(unsigned flags)
{
    struct gate gate;
    CUstream stream, own;
    start_gpu(0);
    CHECK(cuStreamCreate(&stream, flags));
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    from = make(4 * MIB);
    fill(from, 1, 4 * MIB, NULL);
    CHECK(cuCtxSynchronize());
    gate_close(&gate, stream);
    fill(from, 2, 4 * MIB, stream);
    to = make(8 * MIB);
    CHECK(cuMemcpyDtoDAsync(to, from, 4 * MIB, own));
    CHECK(cuStreamSynchronize(own));
    gate_open(&gate);
    CHECK(cuMemFree(from));
    has(to, 1, 4 * MIB);
    CHECK(cuStreamDestroy(own));
    CHECK(cuStreamDestroy(stream));
    finish(to);
}

static void independent_stream(void)
{
    other_stream(CU_STREAM_NON_BLOCKING);
}

static void blocking_stream(void)
{
    other_stream(CU_STREAM_DEFAULT);
}

static void capture(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    pair();
    CUdeviceptr late = make(4 * MIB);
    CHECK(cuCtxSynchronize()); /* The copy is no part of what the independent stream waits for. */
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemcpyDtoDAsync(late, to, 4 * MIB, stream));
    fill(from, 2, 4 * MIB, stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    has(late, 1, 4 * MIB);
    has(to, 1, 4 * MIB);
    has(from, 2, 4 * MIB);
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuMemFree(from));
    CHECK(cuMemFree(late));
    finish(to);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"doubling", doubling},
        {"small_steps", small_steps},
        {"named_bytes", named_bytes},
        {"overtaken", overtaken},
        {"in_turn", in_turn},
        {"launch_between", launch_between},
        {"set_old", set_old},
        {"set_new", set_new},
        {"copy_into_both", copy_into_both},
        {"read_old", read_old},
        {"word_write", word_write},
        {"waits", waits},
        {"free_new_first", free_new_first},
        {"freed_in_stream_order", freed_in_stream_order},
        {"freed_untouched", freed_untouched},
        {"exiting", exiting},
        {"grow_twice", grow_twice},
        {"beside_a_copy", beside_a_copy},
        {"many_streams", many_streams},
        {"two_copies", two_copies},
        {"never_freed", never_freed},
        {"small_blocks", small_blocks},
        {"part_copied", part_copied},
        {"other_freed", other_freed},
        {"no_copy", no_copy},
        {"elsewhere", elsewhere},
        {"older_blocks", older_blocks},
        {"copied_often", copied_often},
        {"kernel_in_flight", kernel_in_flight},
        {"asked_meanwhile", asked_meanwhile},
        {"updated_meanwhile", updated_meanwhile},
        {"host_work_before", host_work_before},
        {"host_work_behind", host_work_behind},
        {"callback_behind", callback_behind},
        {"value_behind", value_behind},
        {"graph_behind", graph_behind},
        {"independent_stream", independent_stream},
        {"blocking_stream", blocking_stream},
        {"capture", capture},
    };
    return RUN_SCENARIO(all, argc, argv);
}
