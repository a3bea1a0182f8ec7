/* SPDX-License-Identifier: MIT */
/* Green contexts: parts of a device, their streams, their memory, and what waits for what. */
#include "sim_test.h"
#include <semaphore.h>
#include <stdio.h>

#if CUDA_VERSION >= 12090

static CUcontext primary;

static int start(void **state)
{
    int result = sim_test_start(state);
    ok(cuCtxGetCurrent(&primary));
    return result;
}

static CUgreenCtx green(unsigned least)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUgreenCtx made;
    unsigned one = 1;
    ok(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    ok(cuDevSmResourceSplitByCount(&part, &one, &all, NULL, 0, least));
    ok(cuDevResourceGenerateDesc(&desc, &part, 1));
    ok(cuGreenCtxCreate(&made, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    return made;
}

static void a_device_is_split_into_parts(void **state)
{
    CUdevResource all, parts[2], rest;
    CUdevResourceDesc desc;
    CUgreenCtx made;
    unsigned count = 0;
    (void)state;
    ok(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(132, all.sm.smCount);
    ok(cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 0));
    assert_int_equal(16, count);
    count = 2;
    ok(cuDevSmResourceSplitByCount(parts, &count, &all, &rest, 0, 17));
    assert_int_equal(2, count);
    assert_int_equal(24, parts[1].sm.smCount);
    assert_int_equal(84, rest.sm.smCount);
    refused(CUDA_ERROR_INVALID_VALUE,
            cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, 133));
    refused(CUDA_ERROR_INVALID_RESOURCE_TYPE, cuDeviceGetDevResource(0, &all, 0));
    ok(cuDevResourceGenerateDesc(&desc, parts, 2));
    refused(CUDA_ERROR_INVALID_VALUE, cuGreenCtxCreate(&made, desc, 0, 0));
    ok(cuGreenCtxCreate(&made, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ok(cuGreenCtxGetDevResource(made, &all, CU_DEV_RESOURCE_TYPE_SM));
    assert_int_equal(48, all.sm.smCount);
    ok(cuGreenCtxDestroy(made));
    refused(CUDA_ERROR_INVALID_HANDLE, cuGreenCtxDestroy(made));
}

static void its_memory_is_the_primary_contexts(void **state)
{
    CUgreenCtx made = green(8);
    CUcontext ctx, owner;
    CUdeviceptr d;
    (void)state;
    ok(cuCtxFromGreenCtx(&ctx, made));
    assert_ptr_not_equal(primary, ctx);
    refused(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(ctx));
    ok(cuCtxSetCurrent(ctx));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, d));
    assert_ptr_equal(primary, owner);
    ok(cuCtxSetCurrent(primary));
    ok(cuGreenCtxDestroy(made));
    ok(cuMemsetD32_v2(d, 7, 1));
    ok(cuMemFree_v2(d));
    refused(CUDA_ERROR_INVALID_HANDLE, cuCtxFromGreenCtx(&ctx, made));
}

static void its_streams_are_known_as_its_own(void **state)
{
    CUgreenCtx made = green(8), found;
    CUcontext ctx, of_stream;
    CUstream stream, plain;
    CUdeviceptr d;
    int value = 7, got = 0;
    (void)state;
    ok(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    ok(cuStreamGetGreenCtx(plain, &found));
    assert_null(found);
    refused(CUDA_ERROR_INVALID_VALUE, cuGreenCtxStreamCreate(&stream, made, 0, 0));
    ok(cuGreenCtxStreamCreate(&stream, made, CU_STREAM_NON_BLOCKING, 0));
    ok(cuStreamGetGreenCtx(stream, &found));
    assert_ptr_equal(made, found);
    ok(cuCtxFromGreenCtx(&ctx, made));
    ok(cuStreamGetCtx(stream, &of_stream));
    assert_ptr_equal(ctx, of_stream);
    ok(cuStreamGetCtx_v2(stream, &of_stream, &found));
    assert_ptr_equal(primary, of_stream);
    assert_ptr_equal(made, found);
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemcpyHtoDAsync_v2(d, &value, 4, stream));
    ok(cuMemcpyDtoHAsync_v2(&got, d, 4, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(7, got);
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(plain));
    ok(cuGreenCtxDestroy(made));
}

static sem_t go;

static void CUDA_CB wait_for_go(void *unused)
{
    (void)unused;
    sem_wait(&go);
}

static void events_stand_for_all_of_its_work(void **state)
{
    CUgreenCtx first = green(8), second = green(8);
    CUstream streams[2], other;
    CUevent event;
    (void)state;
    sem_init(&go, 0, 0);
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        ok(cuGreenCtxStreamCreate(&streams[i], first, CU_STREAM_NON_BLOCKING, 0));
    ok(cuGreenCtxStreamCreate(&other, second, CU_STREAM_NON_BLOCKING, 0));
    ok(cuLaunchHostFunc(streams[1], wait_for_go, NULL));
    ok(cuGreenCtxRecordEvent(first, event));
    ok(cuGreenCtxWaitEvent(second, event));
    ok(cuStreamQuery(streams[0]));
    refused(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    refused(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
    sem_post(&go);
    ok(cuEventSynchronize(event));
    ok(cuStreamSynchronize(other));
    ok(cuEventDestroy_v2(event));
    ok(cuGreenCtxDestroy(first));
    ok(cuGreenCtxDestroy(second));
}

/* Also of streams that are gone, and later work elsewhere does not wait for it. */
static void an_event_of_a_context_stands_for_all_of_its_streams(void **state)
{
    CUgreenCtx part = green(8);
    CUcontext context;
    CUstream gone, other, green_stream;
    CUevent event;
    (void)state;
    sem_init(&go, 0, 0);
    ok(cuGreenCtxStreamCreate(&green_stream, part, CU_STREAM_NON_BLOCKING, 0));
    ok(cuCtxGetCurrent(&context));
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok(cuCtxRecordEvent(context, event));
    ok(cuEventQuery(event));
    ok(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    ok(cuLaunchHostFunc(gone, wait_for_go, NULL));
    ok(cuStreamDestroy_v2(gone));
    ok(cuCtxRecordEvent(context, event));
    ok(cuStreamSynchronize(other));
    refused(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    sem_post(&go);
    ok(cuEventSynchronize(event));
    ok(cuCtxRecordEvent(context, event));
    ok(cuEventQuery(event));
    ok(cuLaunchHostFunc(green_stream, wait_for_go, NULL));
    ok(cuCtxRecordEvent(context, event));
    refused(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    sem_post(&go);
    ok(cuEventSynchronize(event));
    refused(CUDA_ERROR_INVALID_HANDLE, cuCtxRecordEvent(context, NULL));
    ok(cuEventDestroy_v2(event));
    ok(cuStreamDestroy_v2(other));
    ok(cuGreenCtxDestroy(part));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(a_device_is_split_into_parts),
        sim_test(its_memory_is_the_primary_contexts),
        sim_test(its_streams_are_known_as_its_own),
        sim_test(events_stand_for_all_of_its_work),
        sim_test(an_event_of_a_context_stands_for_all_of_its_streams),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP the header has no green contexts");
    return 0;
}

#endif
