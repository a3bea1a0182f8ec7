/* SPDX-License-Identifier: MIT */
/* The state after a kernel has failed: nothing on its device, and no reset helps
 * (tests/gpu/sticky_facts.h200.txt). Each in a process of its own. */
#include "sim_views.h"

#define FAILED CUDA_ERROR_ILLEGAL_ADDRESS

/* Writes where no device has memory. */
static int stray(void *const *args, const struct sim_launch *l)
{
    (void)l;
    **(volatile int **)args[0] = 1;
    return CUDA_SUCCESS;
}

static void launch_stray(void)
{
    static const size_t sizes[] = {8};
    CUdeviceptr d;
    CUmodule module;
    CUfunction function;
    void *args[] = {&d};
    sim_kernel_register("stray", stray, 1, sizes);
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuModuleLoadData(&module, ""));
    ok(cuModuleGetFunction(&function, module, "stray"));
    ok(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
}

static void stray_write(void)
{
    CUcontext ctx, other;
    CUdeviceptr d;
    CUmodule loaded;
    CUevent event;
    unsigned flags;
    int type;
    float ms;
    ok(cuCtxGetCurrent(&ctx));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuModuleLoadData(&loaded, ""));
    ok(cuEventCreate(&event, 0));
    ok(cuEventRecord(event, NULL));
    launch_stray();
    refused(FAILED, cuCtxSynchronize());
    refused(FAILED, cuMemAlloc_v2(&d, 4));
    refused(FAILED, cuEventElapsedTime(&ms, event, event));
    refused(FAILED, cuEventDestroy_v2(event));
    refused(FAILED, cuModuleUnload(loaded));
    ok(cuCtxGetFlags(&flags));
    ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
    ok(cuMemAddressReserve(&d, 2 * MIB, 0, 0, 0));
    refused(FAILED, cuCtxCreate_v2(&other, 0, 0));
}

static void other_context(void)
{
    CUcontext first, second;
    CUdeviceptr d;
    void *pinned;
    ok(cuCtxGetCurrent(&first));
    ok(cuCtxCreate_v2(&second, 0, 0));
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemHostAlloc(&pinned, 4, 0));
    ok(cuCtxSetCurrent(first));
    launch_stray();
    refused(FAILED, cuCtxSynchronize());
    ok(cuCtxSetCurrent(second));
    refused(FAILED, cuMemsetD8_v2(d, 1, 4));
    refused(FAILED, cuCtxSynchronize());
    ok(cuCtxDestroy_v2(second));
    ok(cuCtxSetCurrent(NULL));
}

static void no_context(void)
{
    CUdeviceptr d;
    void *from_driver;
    volatile int *p = pinned(0);
    ok(cuMemAlloc_v2(&d, 4));
    ok(cuMemHostAlloc(&from_driver, 4, 0));
    launch_stray();
    refused(FAILED, cuCtxSynchronize());
    ok(cuCtxSetCurrent(NULL));
    refused(FAILED, cuMemFree_v2(d));
    refused(FAILED, cuMemFreeHost(from_driver));
    refused(FAILED, cuMemHostUnregister((void *)p));
    /* Of wrong addresses it is not told. */
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(d + 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((char *)from_driver + 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister((char *)p + 1));
    refused(CUDA_ERROR_INVALID_VALUE, cuMemHostUnregister((void *)d));
}

static void reset(void)
{
    CUcontext ctx;
    launch_stray();
    refused(FAILED, cuCtxSynchronize());
    ok(cuDevicePrimaryCtxReset_v2(0));
    refused(FAILED, cuDevicePrimaryCtxRetain(&ctx, 0));
}

static void other_device(void)
{
    CUcontext ctx;
    CUdeviceptr d;
    launch_stray();
    refused(FAILED, cuCtxSynchronize());
    ok(cuDevicePrimaryCtxRetain(&ctx, 1));
    ok(cuCtxSetCurrent(ctx));
    ok(cuMemAlloc_v2(&d, 4));
}

static void write_for_reading(void)
{
    volatile int *p = pinned(CU_MEMHOSTREGISTER_READ_ONLY);
    refused(FAILED, gpu_writes(p, 8));
    refused(FAILED, cuCtxSynchronize());
    assert_int_equal(7, *p);
}

static void freed_memory(void)
{
    CUdeviceptr d;
    ok(cuMemAllocAsync(&d, 4, NULL));
    ok(cuMemFreeAsync(d, NULL));
    ok(cuStreamSynchronize(NULL));
    refused(FAILED, gpu_writes((volatile int *)d, 1));
}

/* Its last byte is in the block, by the arithmetic of 64 bits. */
static void copy_astray(void)
{
    CUdeviceptr d;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcPitch = 512,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstPitch = 512,
                          .WidthInBytes = 100,
                          .Height = SIZE_MAX};
    ok(cuMemAlloc_v2(&d, MIB));
    copy.srcDevice = d + MIB / 4;
    copy.dstDevice = d + MIB / 2;
    ok(cuMemcpy2D_v2(&copy));
    refused(FAILED, cuCtxSynchronize());
}

static void a_stray_write_is_a_sticky_error_and_not_the_end_of_the_process(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=2", start, stray_write);
}

static void the_error_is_the_devices_and_not_the_contexts(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=2", start, other_context);
    sim_on_machine("SIM_DEVICES=2", start, other_device);
}

static void frees_without_a_context_tell_it_too(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=2", start, no_context);
}

static void no_reset_takes_it_away(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=2", start, reset);
}

static void what_may_only_be_read_and_what_was_freed_fail_a_kernel(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=1", start, write_for_reading);
    sim_on_machine("SIM_DEVICES=1", start, freed_memory);
}

static void a_copy_fails_where_it_leaves_its_block(void **state)
{
    (void)state;
    sim_on_machine("SIM_DEVICES=1", start, copy_astray);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stray_write_is_a_sticky_error_and_not_the_end_of_the_process),
        cmocka_unit_test(the_error_is_the_devices_and_not_the_contexts),
        cmocka_unit_test(frees_without_a_context_tell_it_too),
        cmocka_unit_test(no_reset_takes_it_away),
        cmocka_unit_test(what_may_only_be_read_and_what_was_freed_fail_a_kernel),
        cmocka_unit_test(a_copy_fails_where_it_leaves_its_block),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
