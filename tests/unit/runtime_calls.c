/* SPDX-License-Identifier: MIT */
/* How the simulated runtime goes to the driver: which calls, how often, whose stream. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/sim.h"

extern __typeof__(cudaMemcpy) cudaMemcpy_ptds;
extern __typeof__(cudaMemcpyAsync) cudaMemcpyAsync_ptsz;
extern __typeof__(cudaMemset) cudaMemset_ptds;
extern __typeof__(cudaMallocAsync) cudaMallocAsync_ptsz;
extern __typeof__(cudaFreeAsync) cudaFreeAsync_ptsz;
extern __typeof__(cudaStreamSynchronize) cudaStreamSynchronize_ptsz;
extern __typeof__(cudaGetDriverEntryPointByVersion) cudaGetDriverEntryPointByVersion_ptsz;

#define BYTES 4096

static void *device, *other, *host, *host_copy;

static int setup(void **state)
{
    (void)state;
    host = malloc(BYTES);
    host_copy = malloc(BYTES);
    return host == NULL || host_copy == NULL || cudaMalloc(&device, BYTES) != cudaSuccess ||
           cudaMalloc(&other, BYTES) != cudaSuccess;
}

static int teardown(void **state)
{
    (void)state;
    free(host);
    free(host_copy);
    return cudaFree(device) != cudaSuccess || cudaFree(other) != cudaSuccess;
}

/* Makes the call and checks that it reached `entry` exactly once. */
#define REACHES(entry, call)                                                                       \
    do {                                                                                           \
        unsigned long long before_ = sim_calls(entry);                                             \
        assert_int_equal(call, cudaSuccess);                                                       \
        assert_int_equal(sim_calls(entry) - before_, 1);                                           \
    } while (0)

static void every_copy_kind_has_its_driver_call(void **state)
{
    (void)state;
    REACHES("cuMemcpyHtoD_v2", cudaMemcpy(device, host, 64, cudaMemcpyHostToDevice));
    REACHES("cuMemcpyDtoH_v2", cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost));
    REACHES("cuMemcpyDtoD_v2", cudaMemcpy(other, device, 64, cudaMemcpyDeviceToDevice));
    REACHES("cuMemcpy", cudaMemcpy(device, host, 64, cudaMemcpyDefault));
    REACHES("cuMemcpy2DUnaligned_v2", cudaMemcpy(host_copy, host, 64, cudaMemcpyHostToHost));
    REACHES("cuMemcpyHtoDAsync_v2", cudaMemcpyAsync(device, host, 64, cudaMemcpyHostToDevice, 0));
    REACHES("cuMemcpyDtoHAsync_v2", cudaMemcpyAsync(host, device, 64, cudaMemcpyDeviceToHost, 0));
    REACHES("cuMemsetD8_v2", cudaMemset(device, 1, 64));
    REACHES("cuMemcpy2DAsync_v2",
            cudaMemcpy2DAsync(device, 64, host, 64, 64, 4, cudaMemcpyHostToDevice, 0));
    REACHES("cuStreamSynchronize", cudaStreamSynchronize(0));
}

static void per_thread_twins_go_to_the_drivers_twins(void **state)
{
    void *pooled;

    (void)state;
    REACHES("cuMemcpyHtoD_v2_ptds", cudaMemcpy_ptds(device, host, 64, cudaMemcpyHostToDevice));
    REACHES("cuMemcpyDtoHAsync_v2_ptsz",
            cudaMemcpyAsync_ptsz(host, device, 64, cudaMemcpyDeviceToHost, 0));
    REACHES("cuMemsetD8_v2_ptds", cudaMemset_ptds(device, 2, 64));
    REACHES("cuMemAllocAsync_ptsz", cudaMallocAsync_ptsz(&pooled, 64, 0));
    REACHES("cuMemFreeAsync_ptsz", cudaFreeAsync_ptsz(pooled, 0));
    REACHES("cuStreamSynchronize_ptsz", cudaStreamSynchronize_ptsz(0));
}

static void an_empty_copy_or_set_makes_no_driver_call(void **state)
{
    (void)state;
    sim_reset_counts();
    assert_int_equal(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemset(device, 0, 0), cudaSuccess);
    assert_int_equal(cudaMemcpy2D(device, 8, host, 8, 0, 4, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(sim_calls("cuMemcpyHtoD_v2"), 0);
    assert_int_equal(sim_calls("cuMemsetD8_v2"), 0);
    assert_int_equal(sim_calls("cuMemcpy2DUnaligned_v2"), 0);
}

static void allocating_nothing_gives_null_without_a_driver_call(void **state)
{
    void *pointer = &pointer;

    (void)state;
    sim_reset_counts();
    assert_int_equal(cudaMalloc(&pointer, 0), cudaSuccess);
    assert_null(pointer);
    pointer = &pointer;
    assert_int_equal(cudaMallocHost(&pointer, 0), cudaSuccess);
    assert_null(pointer);
    pointer = &pointer;
    assert_int_equal(cudaMallocManaged(&pointer, 0, cudaMemAttachGlobal), cudaSuccess);
    assert_null(pointer);
    assert_int_equal(sim_calls("cuMemAlloc_v2"), 0);
    assert_int_equal(sim_calls("cuMemHostAlloc"), 0);
    assert_int_equal(sim_calls("cuMemAllocManaged"), 0);
}

static void the_primary_context_is_retained_once(void **state)
{
    (void)state;
    sim_reset_counts();
    assert_int_equal(cudaFree(NULL), cudaSuccess);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(sim_calls("cuDevicePrimaryCtxRetain"), 0);
    assert_int_equal(sim_calls("cuInit"), 0);
    assert_int_equal(sim_calls("cuGetProcAddress_v2"), 0);
}

static void a_context_of_the_programs_own_is_used_as_it_is(void **state)
{
    CUcontext mine, owner;
    void *block;

    (void)state;
    assert_int_equal(cuCtxCreate(&mine, NULL, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cudaMalloc(&block, 64), cudaSuccess);
    assert_int_equal(
        cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)(uintptr_t)block),
        CUDA_SUCCESS);
    assert_ptr_equal(owner, mine);
    assert_int_equal(cudaFree(block), cudaSuccess);
    assert_int_equal(cuCtxDestroy(mine), CUDA_SUCCESS);
}

static void driver_entry_points_are_the_exported_symbols(void **state)
{
    enum cudaDriverEntryPointQueryResult found;
    void *plain, *twin;

    (void)state;
    assert_int_equal(cudaGetDriverEntryPointByVersion("cuMemcpyHtoDAsync", &plain, 12000,
                                                      cudaEnableDefault, &found),
                     cudaSuccess);
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    assert_ptr_equal(plain, dlsym(RTLD_DEFAULT, "cuMemcpyHtoDAsync_v2"));
    assert_int_equal(cudaGetDriverEntryPointByVersion_ptsz("cuMemcpyHtoDAsync", &twin, 12000,
                                                           cudaEnableDefault, &found),
                     cudaSuccess);
    assert_ptr_equal(twin, dlsym(RTLD_DEFAULT, "cuMemcpyHtoDAsync_v2_ptsz"));
    assert_int_equal(
        cudaGetDriverEntryPointByVersion("cuNoSuchName", &plain, 12000, cudaEnableDefault, &found),
        cudaSuccess);
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
    assert_null(plain);
}

static void symbols_carry_the_version_of_the_real_library(void **state)
{
    (void)state;
    assert_non_null(dlvsym(RTLD_DEFAULT, "cudaMalloc", "libcudart.so.13"));
    assert_non_null(dlvsym(RTLD_DEFAULT, "__cudaRegisterFatBinary", "libcudart.so.13"));
    assert_null(dlsym(RTLD_DEFAULT, "rt_enter"));
}

/* The elements of a 16 x 8 x 4 array of floats, written in part from memory with a pitch. */
static void a_3d_copy_counts_elements_where_an_array_is_involved(void **state)
{
    struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    struct cudaExtent whole = {.width = 16, .height = 8, .depth = 4};
    struct cudaMemcpy3DParms in = {.extent = {.width = 4, .height = 2, .depth = 2},
                                   .kind = cudaMemcpyHostToDevice};
    struct cudaMemcpy3DParms out = {.extent = whole, .kind = cudaMemcpyDeviceToHost};
    static float source[2][2][5], target[4][8][16];
    cudaArray_t array;

    (void)state;
    assert_int_equal(cudaMalloc3DArray(&array, &floats, whole, cudaArrayDefault), cudaSuccess);
    for (int i = 0; i < 20; i++)
        (&source[0][0][0])[i] = (float)(i + 1);
    in.srcPtr = (struct cudaPitchedPtr){source, sizeof(source[0][0]), 5, 2};
    in.dstArray = array;
    in.dstPos = (struct cudaPos){.x = 3, .y = 1, .z = 2};
    assert_int_equal(cudaMemcpy3D(&in), cudaSuccess);
    out.srcArray = array;
    out.dstPtr = (struct cudaPitchedPtr){target, sizeof(target[0][0]), 16, 8};
    assert_int_equal(cudaMemcpy3D(&out), cudaSuccess);
    for (int z = 0; z < 2; z++) {
        for (int y = 0; y < 2; y++)
            assert_memory_equal(&target[2 + z][1 + y][3], source[z][y], 4 * sizeof(float));
    }
    assert_int_equal(cudaFreeArray(array), cudaSuccess);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_copy_kind_has_its_driver_call),
        cmocka_unit_test(per_thread_twins_go_to_the_drivers_twins),
        cmocka_unit_test(an_empty_copy_or_set_makes_no_driver_call),
        cmocka_unit_test(allocating_nothing_gives_null_without_a_driver_call),
        cmocka_unit_test(the_primary_context_is_retained_once),
        cmocka_unit_test(a_context_of_the_programs_own_is_used_as_it_is),
        cmocka_unit_test(driver_entry_points_are_the_exported_symbols),
        cmocka_unit_test(symbols_carry_the_version_of_the_real_library),
        cmocka_unit_test(a_3d_copy_counts_elements_where_an_array_is_involved),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
