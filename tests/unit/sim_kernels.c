/* SPDX-License-Identifier: MIT */
/* Kernels of the simulated driver: arguments, faults, variables, arrays. */
#include "sim_test.h"
#include <signal.h>

static int variable = 5;
static CUmodule module;

/* out[0] = add + blocks */
static int store(void *const *args, const struct sim_launch *l)
{
    int *out = sim_gpu_pointer_write(*(CUdeviceptr *)args[0]);
    if (!out)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    usleep(20000);
    *out = *(int *)args[1] + (int)l->gridDim[0];
    return CUDA_SUCCESS;
}

/* A signal sent by kill(2) may arrive while a thread of the driver's runs a kernel. */
static int signalled(void *const *args, const struct sim_launch *l)
{
    (void)args, (void)l;
    return raise(SIGSEGV) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUfunction function(const char *name)
{
    CUfunction f;
    ok(cuModuleGetFunction(&f, module, name));
    return f;
}

static void start(void)
{
    static const size_t sizes[] = {8, 4};
    CUcontext ctx;
    ok(cuInit(0));
    ok(cuCtxCreate_v2(&ctx, 0, 0));
    sim_kernel_register("store", store, 2, sizes);
    sim_kernel_register("signalled", signalled, 0, sizes);
    sim_global_register("variable", &variable, sizeof variable);
    ok(cuModuleLoadData(&module, "image"));
}

static void arguments_are_copied_at_the_launch(void **state)
{
    CUdeviceptr d;
    CUstream s;
    int add = 10, got;
    void *args[] = {&d, &add};
    (void)state;
    start();
    ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuLaunchKernel(function("store"), 3, 1, 1, 32, 1, 1, 0, s, args, NULL));
    add = 100;
    ok(cuStreamSynchronize(s));
    ok(cuMemcpyDtoH_v2(&got, d, 4));
    assert_int_equal(13, got);
    refused(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(function("store"), 0, 1, 1, 1, 1, 1, 0, s, args, NULL));
    refused(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(function("store"), 1, 1, 1, 2048, 1, 1, 0, s, args, NULL));
    ok(cuMemFree_v2(d));
    ok(cuStreamDestroy_v2(s));
}

static void variables_have_device_addresses(void **state)
{
    CUdeviceptr d;
    size_t size;
    int value = 6;
    (void)state;
    ok(cuModuleGetGlobal_v2(&d, &size, module, "variable"));
    assert_int_equal(sizeof variable, size);
    ok(cuMemcpyHtoD_v2(d, &value, 4));
    assert_int_equal(6, variable);
    refused(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&d, &size, module, "other"));
}

static void arrays_take_copies_within_their_extent(void **state)
{
    CUDA_ARRAY_DESCRIPTOR desc = {8, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray a;
    char in[32], out[32] = {0};
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = in, .srcPitch = 8};
    (void)state;
    for (int i = 0; i < 32; i++)
        in[i] = (char)i;
    ok(cuArrayCreate_v2(&a, &desc));
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = a;
    c.WidthInBytes = 8;
    c.Height = 4;
    ok(cuMemcpy2D_v2(&c));
    ok(cuMemcpyAtoH_v2(out, a, 2, 6));
    assert_memory_equal(in + 2, out, 6);
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(out, a, 8, 8)); /* the second row */
    c.dstXInBytes = 1;
    refused(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&c));
    ok(cuArrayDestroy(a));
    refused(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(a));
}

static _Atomic int arrived;

static void count(int sig)
{
    (void)sig;
    arrived++;
}

static void a_signal_that_was_sent_is_the_programs_and_no_fault_of_a_kernel(void **state)
{
    CUcontext ctx;
    (void)state;
    ok(cuCtxCreate_v2(&ctx, 0, 0));
    void (*before)(int) = signal(SIGSEGV, count);
    ok(cuLaunchKernel(function("signalled"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cuCtxSynchronize());
    assert_int_equal(1, arrived);
    signal(SIGSEGV, before);
    ok(cuCtxDestroy_v2(ctx));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        sim_test(arguments_are_copied_at_the_launch),
        sim_test(variables_have_device_addresses),
        sim_test(arrays_take_copies_within_their_extent),
        sim_test(a_signal_that_was_sent_is_the_programs_and_no_fault_of_a_kernel),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
