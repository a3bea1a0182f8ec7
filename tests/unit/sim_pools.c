/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory of the simulated driver: pools, their attributes, frees that follow their
 * stream. */
#include "sim_test.h"
#include <semaphore.h>

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    ok(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void CUDA_CB nap(void *ms)
{
    usleep((useconds_t)(uintptr_t)ms * 1000);
}

static void a_free_takes_effect_when_its_stream_reaches_it(void **state)
{
    CUstream s;
    CUdeviceptr d;
    (void)state;
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAllocAsync(&d, 4096, s));
    ok(cuLaunchHostFunc(s, nap, (void *)50));
    ok(cuMemFreeAsync(d, s));
    assert_non_null(sim_gpu_pointer(d));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(d, s));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d));
    ok(cuStreamSynchronize(s));
    assert_null(sim_gpu_pointer(d));
    ok(cuStreamDestroy_v2(s));
}

static void each_free_takes_memory_of_the_other_kind(void **state)
{
    CUdeviceptr pooled, plain;
    (void)state;
    ok(cuMemAllocAsync(&pooled, 100, NULL));
    ok(cuMemAlloc_v2(&plain, 100));
    ok(cuMemFree_v2(pooled));
    ok(cuMemFreeAsync(plain, NULL));
    ok(cuCtxSynchronize());
}

static void a_pool_holds_its_reserve_up_to_the_threshold(void **state)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUdeviceptr d;
    CUstream s;
    size_t before, now;
    cuuint64_t keep = 64 * MIB;
    (void)state;
    ok(cuStreamCreate(&s, 0));
    ok(cuMemGetInfo_v2(&before, NULL));
    ok(cuMemPoolCreate(&pool, &props));
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    ok(cuMemAllocFromPoolAsync(&d, 8 * MIB, pool, s));
    assert_int_equal(8 * MIB, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    ok(cuMemFreeAsync(d, s));
    ok(cuStreamSynchronize(s));
    assert_int_equal(0, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    assert_int_equal(8 * MIB, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    assert_int_equal(8 * MIB, attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    ok(cuMemGetInfo_v2(&now, NULL));
    assert_int_equal(before - 8 * MIB, now);
    ok(cuMemPoolTrimTo(pool, 0));
    ok(cuMemGetInfo_v2(&now, NULL));
    assert_int_equal(before, now);
    ok(cuMemPoolDestroy(pool));
    ok(cuStreamDestroy_v2(s));
}

static void memory_in_reserve_goes_to_whoever_needs_it(void **state)
{
    CUmemoryPool pool;
    CUdeviceptr d, all;
    size_t total;
    cuuint64_t keep = UINT64_MAX, zero = 0;
    (void)state;
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    ok(cuMemAllocAsync(&d, 256 * MIB, NULL));
    ok(cuMemFreeAsync(d, NULL));
    ok(cuCtxSynchronize());
    ok(cuMemGetInfo_v2(NULL, &total));
    ok(cuMemAlloc_v2(&all, total));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&d, 4 * MIB, NULL));
    ok(cuMemFree_v2(all));
    ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
}

static void a_block_of_nothing_is_the_null_pointer(void **state)
{
    CUdeviceptr d = 1;
    (void)state;
    ok(cuMemAllocAsync(&d, 0, NULL));
    assert_int_equal(0, d);
    ok(cuMemFreeAsync(d, NULL));
}

static void what_a_pool_can_not_do_is_refused(void **state)
{
    CUmemoryPool pool;
    CUdeviceptr d;
    int fd;
    CUmemPoolPtrExportData data;
    (void)state;
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(
                                          &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    ok(cuMemAllocAsync(&d, 64, NULL));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, d));
    ok(cuMemFreeAsync(d, NULL));
    ok(cuCtxSynchronize());
}

static sem_t go;

static void CUDA_CB wait_for_go(void *unused)
{
    (void)unused;
    sem_wait(&go);
}

static unsigned long long id_of(CUdeviceptr d)
{
    unsigned long long id;
    ok(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, d));
    return id;
}

static void work_behind_a_free_gets_the_block_again_at_once(void **state)
{
    CUdeviceptr first, again, other;
    CUstream s, t;
    CUmemoryPool pool;
    cuuint64_t used;
    unsigned long long id;
    int value = 7, got = 0;
    (void)state;
    sem_init(&go, 0, 0);
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    ok(cuMemAllocAsync(&first, 5000, s));
    id = id_of(first);
    ok(cuLaunchHostFunc(s, wait_for_go, NULL));
    ok(cuMemFreeAsync(first, s));
    ok(cuMemAllocAsync(&other, 5000, t));
    assert_int_not_equal(first, other);
    ok(cuMemAllocAsync(&again, 5000, s));
    assert_int_equal(first, again);
    assert_true(id_of(again) > id);
    ok(cuMemcpyHtoDAsync_v2(again, &value, sizeof value, s));
    sem_post(&go);
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH_v2(&got, again, sizeof got));
    assert_int_equal(7, got);
    ok(cuLaunchHostFunc(s, wait_for_go, NULL));
    ok(cuMemFreeAsync(again, s));
    ok(cuMemAllocAsync(&again, 5000, s));
    ok(cuMemFree_v2(again));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(again, s));
    sem_post(&go);
    ok(cuMemFreeAsync(other, t));
    ok(cuStreamDestroy_v2(s));
    ok(cuStreamDestroy_v2(t));
    ok(cuCtxSynchronize());
    ok(cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    assert_int_equal(0, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(a_free_takes_effect_when_its_stream_reaches_it),
        sim_test(work_behind_a_free_gets_the_block_again_at_once),
        sim_test(each_free_takes_memory_of_the_other_kind),
        sim_test(a_pool_holds_its_reserve_up_to_the_threshold),
        sim_test(memory_in_reserve_goes_to_whoever_needs_it),
        sim_test(a_block_of_nothing_is_the_null_pointer),
        sim_test(what_a_pool_can_not_do_is_refused),
    };
    return sim_main(tests);
}
