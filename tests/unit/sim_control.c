/* SPDX-License-Identifier: MIT */
/* The simulated driver's life and controls: initialisation, fork, ordered failures, counts,
 * cuGetProcAddress. */
#include "sim_test.h"
#include <dlfcn.h>
#include <stdio.h>

static void before_cuInit_and_in_a_forked_child_nothing_works(void **state)
{
    int count, status;
    CUdeviceptr d;
    (void)state;
    refused(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    ok(cuDriverGetVersion(&count));
    ok(cuInit(0));
    ok(cuDeviceGetCount(&count));
    refused(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&d, 64));
    pid_t pid = fork();
    if (pid == 0)
        _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(0, status);
}

static void a_call_fails_as_ordered_and_does_nothing(void **state)
{
    CUdeviceptr d = 1;
    (void)state;
    sim_test_start(state);
    sim_reset_counts();
    sim_fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY, 2);
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemFree_v2(d));
    refused(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&d, 64));
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemFree_v2(d));
    sim_fail("cuMemAlloc_v2", CUDA_ERROR_UNKNOWN, 0);
    refused(CUDA_ERROR_UNKNOWN, cuMemAlloc_v2(&d, 64));
    refused(CUDA_ERROR_UNKNOWN, cuMemAlloc_v2(&d, 64));
    sim_fail("cuMemAlloc_v2", CUDA_SUCCESS, 0);
    assert_int_equal(5, sim_calls("cuMemAlloc_v2"));
    assert_int_equal(2, sim_calls("cuMemFree_v2"));
}

static void every_recorded_request_gets_the_recorded_symbol(void **state)
{
    FILE *list = fopen("tests/preload/driver-requests.tsv", "r");
    char line[512], name[128], symbol[128];
    int version, flags, seen = 0;
    (void)state;
    if (!list)
        skip();
    while (fgets(line, sizeof line, list)) {
        void *p = NULL;
        CUdriverProcAddressQueryResult status;
        if (sscanf(line, "%127s %d %d %127s", name, &version, &flags, symbol) != 4 || *name == '#')
            continue;
        CUresult r = cuGetProcAddress_v2(name, &p, version, (cuuint64_t)flags, &status);
        if (r != CUDA_SUCCESS || !p)
            fail_msg("%s %d %d is not answered", name, version, flags);
        if (strcmp(symbol, "-") != 0 && p != dlsym(RTLD_DEFAULT, symbol))
            fail_msg("%s %d %d is not %s", name, version, flags, symbol);
        seen++;
    }
    fclose(list);
    assert_true(seen > 590);
}

static void versions_and_flavours_are_functions_of_their_own(void **state)
{
    void *old, *now, *twin, *none;
    CUdriverProcAddressQueryResult status;
    (void)state;
    ok(cuGetProcAddress_v2("cuMemAdvise", &old, 8000, 0, NULL));
    ok(cuGetProcAddress_v2("cuMemAdvise", &now, 13000, 0, NULL));
    assert_ptr_equal(old, cuMemAdvise);
    assert_ptr_equal(now, cuMemAdvise_v2);
    ok(cuGetProcAddress_v2("cuMemcpyHtoD", &twin, 13000, 2, NULL));
    assert_ptr_equal(twin, cuMemcpyHtoD_v2_ptds);
    ok(cuGetProcAddress_v2("cuGetProcAddress", &old, 11030, 0, NULL));
    assert_ptr_equal(old, cuGetProcAddress);
    refused(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("", &none, 0, 0, &status));
    assert_null(none);
    refused(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuNoSuchCall", &none, 13000, 0, &status));
    assert_int_equal(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
    refused(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuMemAllocAsync", &none, 9000, 0, &status));
    assert_int_equal(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, status);
    setenv("SIM_WITHOUT", "cuMemCreate,cuMemMap", 1);
    refused(CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2("cuMemMap", &none, 13000, 0, &status));
    unsetenv("SIM_WITHOUT");
}

static void the_end_of_a_context_frees_what_it_had(void **state)
{
    CUcontext mine, primary;
    CUdeviceptr d;
    CUstream s;
    CUevent e;
    void *host;
    (void)state;
    ok(cuCtxGetCurrent(&primary));
    ok(cuCtxCreate_v2(&mine, 0, 0));
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuMemHostAlloc(&host, 64, 0));
    ok(cuStreamCreate(&s, 0));
    ok(cuEventCreate(&e, 0));
    assert_int_equal(4, sim_leaks(SIM_LEAK_CLASSES));
    ok(cuCtxDestroy_v2(mine));
    assert_int_equal(0, sim_leaks(SIM_LEAK_CLASSES));
    refused(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(mine));
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuDevicePrimaryCtxReset_v2(0));
    refused(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&d, 64));
    ok(cuDevicePrimaryCtxRetain(&primary, 0));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d));
}

static void kernels_of_a_device_reach_a_peer_once_it_is_enabled(void **state)
{
    CUcontext first, second;
    CUdeviceptr d;
    int can;
    (void)state;
    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(1, can);
    ok(cuDevicePrimaryCtxRetain(&first, 0));
    ok(cuDevicePrimaryCtxRetain(&second, 1));
    ok(cuCtxSetCurrent(first));
    ok(cuMemAlloc_v2(&d, 64));
    ok(cuCtxSetCurrent(second));
    assert_null(sim_gpu_pointer(d));
    refused(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(first));
    ok(cuCtxEnablePeerAccess(first, 0));
    refused(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(first, 0));
    assert_non_null(sim_gpu_pointer(d));
    ok(cuMemFree_v2(d));
}

static int takes_a_second(void *const *args, const struct sim_launch *l)
{
    (void)args, (void)l;
    sim_kernel_takes(1000000);
    return CUDA_SUCCESS;
}

/* Work of devices is in no order, so their events must not count each other's. */
static void events_of_a_device_count_its_own_kernels(void **state)
{
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUevent event[2][2];
    float ms;
    (void)state;
    sim_kernel_register("long", takes_a_second, 0, NULL);
    for (int device = 0; device < 2; device++) {
        ok(cuDevicePrimaryCtxRetain(&context, device));
        ok(cuCtxSetCurrent(context));
        ok(cuModuleLoadData(&module, ""));
        ok(cuModuleGetFunction(&kernel, module, "long"));
        for (int i = 0; i < 2; i++)
            ok(cuEventCreate(&event[device][i], 0));
        ok(cuEventRecord(event[device][0], NULL));
    }
    ok(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cuCtxSynchronize());
    for (int device = 0; device < 2; device++) {
        ok(cuDevicePrimaryCtxRetain(&context, device));
        ok(cuCtxSetCurrent(context));
        ok(cuEventRecord(event[device][1], NULL));
        ok(cuCtxSynchronize());
        ok(cuEventElapsedTime(&ms, event[device][0], event[device][1]));
        assert_int_equal((int)ms, device * 1000);
        ok(cuDevicePrimaryCtxReset_v2(device));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_cuInit_and_in_a_forked_child_nothing_works),
        sim_test(a_call_fails_as_ordered_and_does_nothing),
        sim_test(every_recorded_request_gets_the_recorded_symbol),
        sim_test(versions_and_flavours_are_functions_of_their_own),
        sim_test(the_end_of_a_context_frees_what_it_had),
        sim_test(kernels_of_a_device_reach_a_peer_once_it_is_enabled),
        sim_test(events_of_a_device_count_its_own_kernels),
    };
    setenv("SIM_DEVICES", "2", 1);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
