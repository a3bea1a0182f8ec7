/* SPDX-License-Identifier: MIT */
/* Streams of the simulated driver: order within and between streams, the two default streams, what
 * a call waits for. SIM_DELAY_US makes each operation take 20 ms, so that a missing wait shows. */
#include "sim_test.h"
#include <stdatomic.h>

static atomic_int step;

static void CUDA_CB take_step(void *out)
{
    *(int *)out = ++step;
}

static void work_of_one_stream_runs_in_order(void **state)
{
    CUstream s;
    int at[3] = {0};
    (void)state;
    step = 0;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        ok(cuLaunchHostFunc(s, take_step, &at[i]));
    refused(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cuStreamSynchronize(s));
    ok(cuStreamQuery(s));
    assert_int_equal(1, at[0]);
    assert_int_equal(2, at[1]);
    assert_int_equal(3, at[2]);
    ok(cuStreamDestroy_v2(s));
}

static void CUDA_CB wait_for_gate(void *gate)
{
    while (!atomic_load((atomic_int *)gate))
        usleep(1000);
}

static void the_legacy_stream_waits_for_blocking_streams_alone(void **state)
{
    CUstream blocking, free_running;
    atomic_int gate = 0;
    int before = 0, legacy = 0, after = 0;
    (void)state;
    step = 0;
    ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    ok(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    ok(cuLaunchHostFunc(free_running, wait_for_gate, &gate));
    for (int i = 0; i < 3; i++)
        ok(cuLaunchHostFunc(blocking, take_step, &before));
    ok(cuLaunchHostFunc(NULL, take_step, &legacy));
    ok(cuLaunchHostFunc(blocking, take_step, &after));
    ok(cuStreamSynchronize(blocking));
    assert_int_equal(3, before);
    assert_int_equal(4, legacy);
    assert_int_equal(5, after);
    refused(CUDA_ERROR_NOT_READY, cuStreamQuery(free_running));
    atomic_store(&gate, 1);
    ok(cuCtxSynchronize());
    ok(cuStreamQuery(free_running));
    ok(cuStreamDestroy_v2(blocking));
    ok(cuStreamDestroy_v2(free_running));
}

/* Of the twins, only the plain one means the legacy stream by NULL. */
static void null_means_another_stream_in_each_flavour(void **state)
{
    unsigned long long legacy, mine, again;
    (void)state;
    ok(cuStreamGetId(NULL, &legacy));
    ok(cuStreamGetId_ptsz(NULL, &mine));
    ok(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    assert_int_not_equal(legacy, mine);
    assert_int_equal(mine, again);
}

static void an_event_orders_two_streams(void **state)
{
    CUstream s, t;
    CUevent e;
    int a = 0, b = 0;
    (void)state;
    step = 0;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 3; i++)
        ok(cuLaunchHostFunc(s, take_step, &a));
    ok(cuEventRecord(e, s));
    refused(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    ok(cuStreamWaitEvent(t, e, 0));
    ok(cuLaunchHostFunc(t, take_step, &b));
    ok(cuStreamSynchronize(t));
    assert_int_equal(3, a);
    assert_int_equal(4, b);
    ok(cuEventDestroy_v2(e));
    ok(cuStreamDestroy_v2(s));
    ok(cuStreamDestroy_v2(t));
}

static void async_copies_stage_pageable_sources_but_not_pinned_ones(void **state)
{
    CUstream s;
    CUdeviceptr d;
    int *pinned, pageable = 1, got[2];
    (void)state;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&d, 8));
    ok(cuMemHostAlloc((void **)&pinned, 4, 0));
    *pinned = 1;
    ok(cuMemcpyHtoDAsync_v2(d, &pageable, 4, s));
    ok(cuMemcpyHtoDAsync_v2(d + 4, pinned, 4, s));
    pageable = 2;
    *pinned = 2;
    ok(cuMemcpyDtoHAsync_v2(got, d, 8, s)); /* pageable target: done when the call returns */
    assert_int_equal(1, got[0]);
    assert_int_equal(2, got[1]);
    ok(cuMemcpyDtoHAsync_v2(pinned, d, 4, s)); /* pinned target: not yet */
    refused(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(1, *pinned);
    ok(cuStreamDestroy_v2(s));
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree_v2(d));
}

static void frees_wait_for_the_device(void **state)
{
    CUstream s;
    CUdeviceptr d;
    int a = 0;
    (void)state;
    step = 0;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&d, 8));
    ok(cuLaunchHostFunc(s, take_step, &a));
    ok(cuMemFree_v2(d));
    assert_int_equal(1, a);
    ok(cuStreamDestroy_v2(s));
}

static void values_in_memory_hold_a_stream_back(void **state)
{
    CUstream s;
    CUdeviceptr flag;
    volatile uint32_t *host;
    int a = 0;
    (void)state;
    step = 0;
    ok(cuMemHostAlloc((void **)(uintptr_t)&host, 8, 0));
    *host = 0;
    flag = (CUdeviceptr)(uintptr_t)host;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamWaitValue32_v2(s, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    ok(cuLaunchHostFunc(s, take_step, &a));
    ok(cuStreamWriteValue32_v2(s, flag + 4, 9, 0));
    refused(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    assert_int_equal(0, a);
    *host = 1;
    ok(cuStreamSynchronize(s));
    assert_int_equal(1, a);
    assert_int_equal(9, host[1]);
    ok(cuStreamDestroy_v2(s));
    ok(cuMemFreeHost((void *)(uintptr_t)host));
}

static void a_batch_is_checked_whole_before_it_runs(void **state)
{
    CUstream s;
    CUdeviceptr d, dsts[2], srcs[2];
    int in[2] = {3, 4}, out[2];
    size_t sizes[] = {4, 4}, starts[] = {0}, bad;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    (void)state;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&d, 8));
    ok(cuMemsetD32_v2(d, 1, 2));
    for (int i = 0; i < 2; i++) {
        dsts[i] = d + (CUdeviceptr)(4 * i);
        srcs[i] = (CUdeviceptr)(uintptr_t)&in[i];
    }
    sizes[1] = 400;
    refused(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, starts, 1, &bad, s));
    assert_int_equal(1, bad);
    ok(cuMemcpyDtoH_v2(out, d, 8));
    assert_int_equal(1, out[0]);
    sizes[1] = 4;
    ok(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, starts, 1, &bad, s));
    refused(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, starts, 1, &bad, NULL));
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH_v2(out, d, 8));
    assert_memory_equal(in, out, 8);
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(work_of_one_stream_runs_in_order),
        sim_test(the_legacy_stream_waits_for_blocking_streams_alone),
        sim_test(null_means_another_stream_in_each_flavour),
        sim_test(an_event_orders_two_streams),
        sim_test(async_copies_stage_pageable_sources_but_not_pinned_ones),
        sim_test(frees_wait_for_the_device),
        sim_test(values_in_memory_hold_a_stream_back),
        sim_test(a_batch_is_checked_whole_before_it_runs),
    };
    setenv("SIM_DELAY_US", "20000", 1);
    return sim_main(tests);
}
