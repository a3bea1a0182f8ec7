/* SPDX-License-Identifier: MIT */
/* The errors of the simulated runtime: its own, the driver's handed through, and the last error. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

#define INVALID_KIND ((enum cudaMemcpyKind)9)

static int clear(void **state)
{
    (void)state;
    sim_fail(NULL, CUDA_SUCCESS, 0);
    (void)cudaGetLastError();
    return 0;
}

static void the_runtimes_own_checks_have_their_own_codes(void **state)
{
    char bytes[64] = {0};
    size_t size;

    (void)state;
    assert_int_equal(cudaMemcpy(bytes, bytes, 8, INVALID_KIND), cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpy2D(bytes, 4, bytes, 8, 8, 2, cudaMemcpyHostToHost),
                     cudaErrorInvalidPitchValue);
    assert_int_equal(cudaGetSymbolSize(&size, bytes), cudaErrorInvalidSymbol);
    assert_int_equal(cudaSetDevice(999), cudaErrorInvalidDevice);
    assert_int_equal(cudaMalloc(NULL, 8), cudaErrorInvalidValue);
    assert_int_equal(cudaMallocArray(NULL, NULL, 4, 4, 0), cudaErrorInvalidValue);
}

static void a_stub_that_nobody_registered_is_the_drivers_invalid_handle(void **state)
{
    struct dim3 one = {1, 1, 1};
    cudaKernel_t kernel;

    (void)state;
    assert_int_equal(cudaLaunchKernel(state, one, one, NULL, 0, 0), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaGetKernel(&kernel, state), cudaErrorInvalidDeviceFunction);
}

static void every_error_of_the_driver_comes_through_as_it_is(void **state)
{
    static const CUresult codes[] = {CUDA_ERROR_INVALID_VALUE,   CUDA_ERROR_OUT_OF_MEMORY,
                                     CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_DEINITIALIZED,
                                     CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_ILLEGAL_ADDRESS,
                                     CUDA_ERROR_NOT_SUPPORTED,   CUDA_ERROR_UNKNOWN};
    void *block;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        sim_fail("cuMemAlloc_v2", codes[i], 1);
        block = state;
        assert_int_equal(cudaMalloc(&block, 64), (cudaError_t)codes[i]);
        assert_ptr_equal(block, state);
        assert_int_equal(cudaGetLastError(), (cudaError_t)codes[i]);
    }
}

static void the_last_error_stays_until_it_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_int_equal(cudaFree(NULL), cudaSuccess);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void *last_error_of_a_thread(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)cudaPeekAtLastError();
}

static void every_thread_has_a_last_error_of_its_own(void **state)
{
    pthread_t thread;
    void *seen;

    (void)state;
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_int_equal(pthread_create(&thread, NULL, last_error_of_a_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_null(seen);
}

static void a_reset_frees_the_devices_memory_and_the_next_call_starts_anew(void **state)
{
    void *block;

    (void)state;
    assert_int_equal(cudaMalloc(&block, 64), cudaSuccess);
    assert_int_equal(sim_leaks(SIM_LEAK_DEVICE), 1);
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    assert_int_equal(sim_leaks(SIM_LEAK_DEVICE), 0);
    assert_int_equal(cudaMalloc(&block, 64), cudaSuccess);
    assert_int_equal(cudaFree(block), cudaSuccess);
}

static void *allocate_in_a_thread(void *go)
{
    static void *block;

    if (cudaFree(NULL) != cudaSuccess || pthread_barrier_wait(go) > 0 ||
        pthread_barrier_wait(go) > 0 || cudaMalloc(&block, 64) != cudaSuccess)
        return NULL;
    return block;
}

static void
a_reset_by_another_thread_leaves_the_context_current_and_the_next_call_starts_it(void **state)
{
    pthread_t thread;
    pthread_barrier_t go;
    void *block;

    (void)state;
    pthread_barrier_init(&go, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, allocate_in_a_thread, &go), 0);
    pthread_barrier_wait(&go);
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    pthread_barrier_wait(&go);
    assert_int_equal(pthread_join(thread, &block), 0);
    pthread_barrier_destroy(&go);
    assert_non_null(block);
    assert_int_equal(cudaFree(block), cudaSuccess);
}

/* A context in which a kernel failed is one of them. */
static void a_reset_ends_the_primary_context_whoever_retained_it(void **state)
{
    CUcontext context;
    CUdeviceptr block;

    (void)state;
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&block, 64), CUDA_SUCCESS);
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    assert_int_equal(sim_leaks(SIM_LEAK_DEVICE), 0);
    assert_int_equal(cuMemAlloc(&block, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cudaMalloc((void **)&block, 64), cudaSuccess);
    assert_int_equal(cuMemFree(block), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void a_reset_leaves_a_thread_the_context_of_its_own(void **state)
{
    CUcontext own, now, owner;
    CUdevice device;
    void *block;

    (void)state;
    assert_int_equal(cudaFree(NULL), cudaSuccess);
    assert_int_equal(cuDeviceGet(&device, 0), CUDA_SUCCESS);
#if CUDA_VERSION >= 13000
    assert_int_equal(cuCtxCreate(&own, NULL, 0, device), CUDA_SUCCESS);
#else
    assert_int_equal(cuCtxCreate(&own, 0, device), CUDA_SUCCESS);
#endif
    assert_int_equal(cudaDeviceReset(), cudaSuccess);
    assert_int_equal(cudaMalloc(&block, 64), cudaSuccess);
    assert_int_equal(cuCtxGetCurrent(&now), CUDA_SUCCESS);
    assert_ptr_equal(now, own);
    assert_int_equal(
        cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)block),
        CUDA_SUCCESS);
    assert_ptr_equal(owner, own);
    assert_int_equal(cuCtxDestroy(own), CUDA_SUCCESS);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static void unknown_memory_has_attributes_and_they_say_unregistered(void **state)
{
    struct cudaPointerAttributes attributes;

    (void)state;
    memset(&attributes, 0x5a, sizeof(attributes));
    assert_int_equal(cudaPointerGetAttributes(&attributes, &attributes), cudaSuccess);
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_int_equal(attributes.device, cudaInvalidDeviceId);
    assert_null(attributes.devicePointer);
    assert_ptr_equal(attributes.hostPointer, &attributes);
}

static void errors_have_the_names_of_the_header(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_runtimes_own_checks_have_their_own_codes, clear),
        cmocka_unit_test_setup(a_stub_that_nobody_registered_is_the_drivers_invalid_handle, clear),
        cmocka_unit_test_setup(every_error_of_the_driver_comes_through_as_it_is, clear),
        cmocka_unit_test_setup(the_last_error_stays_until_it_is_asked_for, clear),
        cmocka_unit_test_setup(every_thread_has_a_last_error_of_its_own, clear),
        cmocka_unit_test_setup(a_reset_frees_the_devices_memory_and_the_next_call_starts_anew,
                               clear),
        cmocka_unit_test_setup(
            a_reset_by_another_thread_leaves_the_context_current_and_the_next_call_starts_it,
            clear),
        cmocka_unit_test_setup(a_reset_ends_the_primary_context_whoever_retained_it, clear),
        cmocka_unit_test_setup(a_reset_leaves_a_thread_the_context_of_its_own, clear),
        cmocka_unit_test_setup(unknown_memory_has_attributes_and_they_say_unregistered, clear),
        cmocka_unit_test_setup(errors_have_the_names_of_the_header, clear),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
