/* SPDX-License-Identifier: MIT */
/* A driver that counts what is registered, for tests of the host heap's registered memory. */
#ifndef TESTS_UNIT_HOST_PINNED_TEST_H
#define TESTS_UNIT_HOST_PINNED_TEST_H

#include "host_test.h"

#include "memory/cgroup.h"

static unsigned registered, unregistered; /* Calls that succeeded. */
static CUresult answer;                   /* The result of registering. */
static CUcontext current = (CUcontext)0x1000, pushed_over;
static bool untold; /* Whether the device has nothing to do. */

static uint64_t available = UINT64_MAX; /* Left by the host and control groups. */

static bool pool_is_used; /* Memory that the pool keeps is not left. */

uint64_t zc_available(void)
{
    return available - (pool_is_used ? zc_hostheap_pooled() : 0);
}

uint64_t zc_cgroup_processors(void)
{
    return UINT64_MAX;
}

static struct zc_extent *extent_of(void *p)
{
    return zc_hostheap_extent((uintptr_t)p);
}

static CUresult CUDAAPI get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUstreamCaptureMode mode, registered_in; /* Of the thread, now and at the last one. */

static CUresult CUDAAPI exchange(CUstreamCaptureMode *other)
{
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI do_register(void *p, size_t bytes, unsigned flags)
{
    registered_in = mode;
    assert_int_equal((uintptr_t)p % ZC_HOST_UNIT, 0);
    assert_int_equal(bytes % 4096, 0);
    assert_int_equal(flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    registered += answer == CUDA_SUCCESS;
    return answer;
}

static CUresult CUDAAPI do_unregister(void *p)
{
    assert_non_null(p);
    unregistered++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
    *device = 3;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    assert_int_equal(attribute, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    assert_int_equal(device, 3);
    *value = 0;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI query(CUstream stream)
{
    (void)stream;
    return untold ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult CUDAAPI push(CUcontext context)
{
    pushed_over = current;
    current = context;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop(CUcontext *context)
{
    *context = current;
    current = pushed_over;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    host_policy("[defaults]\nmax_pinned = 700G\n"
                "[rule all]\napi = malloc, realloc\nsize = 64K..\nplace = pinned\n");
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuMemHostRegister_v2 = do_register;
    zc_real.cuMemHostUnregister = do_unregister;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuStreamQuery = query;
    zc_real.cuCtxPushCurrent_v2 = push;
    zc_real.cuCtxPopCurrent_v2 = pop;
    zc_real.cuDeviceGetAttribute = get_attribute;
    zc_real.cuThreadExchangeStreamCaptureMode = exchange;
    return 0;
}

static int fresh(void **state)
{
    (void)state;
    registered = unregistered = 0;
    answer = CUDA_SUCCESS;
    return 0;
}

#endif
