/* SPDX-License-Identifier: MIT */
/* Capture and graphs of the simulated driver: what becomes a node, what is forbidden, what a launch
 * does. */
#include "sim_test.h"

static CUstream stream(void)
{
    CUstream s;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void launch_and_destroy(CUgraph g, CUstream s, int times)
{
    CUgraphExec e;
    ok(cuGraphInstantiateWithFlags(&e, g, 0));
    for (int i = 0; i < times; i++)
        ok(cuGraphLaunch(e, s));
    ok(cuStreamSynchronize(s));
    ok(cuGraphExecDestroy(e));
    ok(cuGraphDestroy(g));
}

static void CUDA_CB add_one(void *counter)
{
    ++*(int *)counter;
}

static void captured_work_runs_at_each_launch_and_not_before(void **state)
{
    CUstream s = stream();
    CUgraph g;
    CUdeviceptr d;
    CUstreamCaptureStatus status;
    int count = 0, *pinned;
    (void)state;
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemAllocHost_v2((void **)&pinned, 4));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuStreamIsCapturing(s, &status));
    assert_int_equal(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    ok(cuMemsetD32Async(d, 9, 1, s));
    ok(cuMemcpyDtoHAsync_v2(pinned, d, 4, s));
    ok(cuLaunchHostFunc(s, add_one, &count));
    ok(cuStreamEndCapture(s, &g));
    *pinned = 0;
    assert_int_equal(0, count);
    launch_and_destroy(g, s, 3);
    assert_int_equal(3, count);
    assert_int_equal(9, *pinned);
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(s));
}

static void unsafe_calls_invalidate_a_global_capture(void **state)
{
    CUstream s = stream();
    CUgraph g = (CUgraph)1;
    CUdeviceptr d;
    char page[64];
    (void)state;
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&d, 64));
    refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostRegister_v2(page, sizeof page, 0));
    refused(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    assert_null(g);
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    refused(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD8Async(d, 0, 64, s));
    refused(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(s));
}

static void a_relaxed_capture_or_thread_allows_them(void **state)
{
    CUstream s = stream();
    CUgraph g;
    CUdeviceptr d;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)state;
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemFree_v2(d));
    ok(cuStreamEndCapture(s, &g));
    ok(cuGraphDestroy(g));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemFree_v2(d));
    ok(cuThreadExchangeStreamCaptureMode(&mode));
    ok(cuStreamEndCapture(s, &g));
    ok(cuGraphDestroy(g));
    ok(cuStreamDestroy_v2(s));
}

static void a_fork_must_be_joined(void **state)
{
    CUstream s = stream(), t = stream();
    CUgraph g;
    CUevent e, f;
    int count = 0;
    (void)state;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    for (int joined = 0; joined < 2; joined++) {
        ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(cuLaunchHostFunc(s, add_one, &count));
        ok(cuEventRecord(e, s));
        ok(cuStreamWaitEvent(t, e, 0));
        ok(cuLaunchHostFunc(t, add_one, &count));
        ok(cuEventRecord(f, t));
        if (joined)
            ok(cuStreamWaitEvent(s, f, 0));
        refused(joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                cuStreamEndCapture(s, &g));
    }
    launch_and_destroy(g, s, 1);
    assert_int_equal(2, count);
    ok(cuEventDestroy_v2(e));
    ok(cuEventDestroy_v2(f));
    ok(cuStreamDestroy_v2(s));
    ok(cuStreamDestroy_v2(t));
}

static void the_legacy_stream_is_out_of_bounds_while_a_blocking_stream_captures(void **state)
{
    CUstream s;
    CUgraph g;
    int count = 0;
    (void)state;
    ok(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    refused(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuLaunchHostFunc(NULL, add_one, &count));
    refused(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &g));
    refused(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
    ok(cuStreamDestroy_v2(s));
}

static void captured_allocations_keep_their_address_and_live_within_a_launch(void **state)
{
    CUstream s = stream();
    CUgraph g;
    CUdeviceptr d;
    int *pinned;
    (void)state;
    ok(cuMemAllocHost_v2((void **)&pinned, 4));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemAllocAsync(&d, 4, s));
    ok(cuMemsetD32Async(d, 7, 1, s));
    ok(cuMemcpyDtoHAsync_v2(pinned, d, 4, s));
    ok(cuMemFreeAsync(d, s));
    ok(cuStreamEndCapture(s, &g));
    assert_null(sim_gpu_pointer(d));
    launch_and_destroy(g, s, 2);
    assert_int_equal(7, *pinned);
    assert_null(sim_gpu_pointer(d));
    ok(cuMemFreeHost(pinned));
    ok(cuStreamDestroy_v2(s));
}

static void an_explicit_graph_follows_its_edges_and_can_be_updated(void **state)
{
    CUstream s = stream();
    CUgraph g;
    CUgraphNode set, copy, list[4];
    CUgraphExec e;
    CUcontext ctx;
    CUdeviceptr d;
    CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 4, .value = 1, .width = 1, .height = 1};
    CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = 4};
    int *pinned;
    size_t count = 0;
    (void)state;
    ok(cuCtxGetCurrent(&ctx));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemAllocHost_v2((void **)&pinned, 4));
    fill.dst = out.srcDevice = d;
    out.dstMemoryType = CU_MEMORYTYPE_HOST;
    out.dstHost = pinned;
    out.Height = out.Depth = 1;
    ok(cuGraphCreate(&g, 0));
    ok(cuGraphAddMemcpyNode(&copy, g, NULL, 0, &out, ctx)); /* made first, runs second */
    ok(cuGraphAddMemsetNode(&set, g, NULL, 0, &fill, ctx));
    ok(cuGraphAddDependencies(g, &set, &copy, 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(g, &copy, &set, 1));
    ok(cuGraphGetNodes(g, NULL, &count));
    assert_int_equal(2, count);
    ok(cuGraphGetRootNodes(g, list, &count));
    assert_int_equal(1, count);
    assert_ptr_equal(set, list[0]);
    ok(cuGraphInstantiateWithFlags(&e, g, 0));
    ok(cuGraphLaunch(e, s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(1, *pinned);
    fill.value = 2;
    ok(cuGraphExecMemsetNodeSetParams(e, set, &fill, ctx));
    ok(cuGraphLaunch(e, s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(2, *pinned);
    refused(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(e, copy, &fill, ctx));
    ok(cuGraphExecDestroy(e));
    ok(cuGraphDestroy(g));
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(s));
}

/* Between two blocks: rows, or a line. */
static CUDA_MEMCPY3D copy_of(CUdeviceptr dst, CUdeviceptr src, size_t rows)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = src,
                           .srcPitch = 64,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = dst,
                           .dstPitch = 64,
                           .WidthInBytes = 16,
                           .Height = rows,
                           .Depth = 1};
}

/* The answers of a set and of an update to `then` in an executable graph of `now`. */
static void changes(CUDA_MEMCPY3D now, CUDA_MEMCPY3D then, CUresult set, CUresult updated)
{
    CUcontext ctx;
    CUgraph g, other;
    CUgraphNode copy, same;
    CUgraphExec e;
    CUgraphExecUpdateResultInfo info;
    ok(cuCtxGetCurrent(&ctx));
    ok(cuGraphCreate(&g, 0));
    ok(cuGraphCreate(&other, 0));
    ok(cuGraphAddMemcpyNode(&copy, g, NULL, 0, &now, ctx));
    ok(cuGraphAddMemcpyNode(&same, other, NULL, 0, &then, ctx));
    ok(cuGraphInstantiateWithFlags(&e, g, 0));
    refused(updated, cuGraphExecUpdate_v2(e, other, &info));
    refused(set, cuGraphExecMemcpyNodeSetParams(e, copy, &then, ctx));
    ok(cuGraphLaunch(e, NULL));
    ok(cuCtxSynchronize());
    ok(cuGraphExecDestroy(e));
    ok(cuGraphDestroy(g));
    ok(cuGraphDestroy(other));
}

/* Measured on an H200. */
static void a_copy_of_rows_is_not_changed_in_an_executable_graph(void **state)
{
    const CUresult no = CUDA_ERROR_INVALID_VALUE, failed = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    CUdeviceptr a, b;
    (void)state;
    ok(cuMemAlloc_v2(&a, 4096));
    ok(cuMemAlloc_v2(&b, 4096));
    changes(copy_of(a, b, 1), copy_of(b, a, 1), CUDA_SUCCESS, CUDA_SUCCESS);
    changes(copy_of(a, b, 4), copy_of(b, a, 4), no, failed);
    changes(copy_of(a, b, 4), copy_of(b, a, 1), no, failed);
    changes(copy_of(a, b, 1), copy_of(a, b, 4), no, failed);
    changes(copy_of(a, b, 4), copy_of(a, b, 4), CUDA_SUCCESS, CUDA_SUCCESS);
    ok(cuMemFree_v2(a));
    ok(cuMemFree_v2(b));
}

/* Measured on an H200: whatever lies at the addresses then. */
static void a_copy_fails_once_the_registration_that_it_was_made_with_has_ended(void **state)
{
    enum { BYTES = 65536 };
    CUstream s = stream();
    CUgraph g;
    CUgraphExec e;
    CUdeviceptr d;
    char *h = aligned_alloc(4096, BYTES);
    (void)state;
    ok(cuMemAlloc_v2(&d, BYTES));
    ok(cuMemHostRegister_v2(h, BYTES, 0));
    ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cuMemcpyHtoDAsync_v2(d, h, BYTES, s));
    ok(cuStreamEndCapture(s, &g));
    ok(cuGraphInstantiateWithFlags(&e, g, 0));
    ok(cuGraphLaunch(e, s));
    ok(cuStreamSynchronize(s));
    ok(cuMemHostUnregister(h));
    ok(cuMemHostRegister_v2(h, BYTES, 0));
    ok(cuGraphLaunch(e, s));
    assert_int_equal(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(s));
    assert_int_equal(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
    ok(cuGraphExecDestroy(e));
    ok(cuGraphDestroy(g));
    ok(cuDevicePrimaryCtxReset_v2(0));
    free(h);
}

static CUgraph of_hosts(int nodes, int *counter)
{
    const CUDA_HOST_NODE_PARAMS p = {.fn = add_one, .userData = counter};
    CUgraph g;
    CUgraphNode n;
    ok(cuGraphCreate(&g, 0));
    while (nodes--)
        ok(cuGraphAddHostNode(&n, g, NULL, 0, &p));
    return g;
}

static void a_child_graph_becomes_one_of_the_same_shape_whichever_call_sets_it(void **state)
{
    CUstream s = stream();
    int first = 0, then = 0;
    CUgraph one = of_hosts(1, &first), same = of_hosts(1, &then), two = of_hosts(2, &then), g;
    CUgraphNode child;
    CUgraphExec e;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = two};
    (void)state;
    ok(cuGraphCreate(&g, 0));
    ok(cuGraphAddChildGraphNode(&child, g, NULL, 0, one));
    ok(cuGraphInstantiateWithFlags(&e, g, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(e, child, two));
    refused(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(e, child, &p));
    p.graph.graph = same;
    ok(cuGraphExecNodeSetParams(e, child, &p));
    ok(cuGraphLaunch(e, s));
    ok(cuStreamSynchronize(s));
    assert_true(first == 0 && then == 1);
    ok(cuGraphExecDestroy(e));
    ok(cuGraphDestroy(g));
    ok(cuGraphDestroy(one));
    ok(cuGraphDestroy(same));
    ok(cuGraphDestroy(two));
    ok(cuStreamDestroy_v2(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(captured_work_runs_at_each_launch_and_not_before),
        sim_test(unsafe_calls_invalidate_a_global_capture),
        sim_test(a_relaxed_capture_or_thread_allows_them),
        sim_test(a_fork_must_be_joined),
        sim_test(the_legacy_stream_is_out_of_bounds_while_a_blocking_stream_captures),
        sim_test(captured_allocations_keep_their_address_and_live_within_a_launch),
        sim_test(an_explicit_graph_follows_its_edges_and_can_be_updated),
        sim_test(a_child_graph_becomes_one_of_the_same_shape_whichever_call_sets_it),
        sim_test(a_copy_of_rows_is_not_changed_in_an_executable_graph),
        sim_test(a_copy_fails_once_the_registration_that_it_was_made_with_has_ended),
    };
    return sim_main(tests);
}
