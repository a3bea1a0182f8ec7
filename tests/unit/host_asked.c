/* SPDX-License-Identifier: MIT */
/* Memory that the program asks the driver to pin, under a policy without max_pinned. */
#include "host_test.h"

#include "base/clock.h"
#include "base/life.h"
#include "memory/cgroup.h"

static CUcontext current = (CUcontext)0x1000;
static uint64_t available = 1200 * MIB; /* So that libc's blocks may have 600. */

uint64_t zc_available(void)
{
    return available;
}

static CUresult CUDAAPI get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_device(CUdevice *device)
{
    (void)device;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult CUDAAPI do_register(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    host_policy("[rule all]\napi = malloc, cudaHostAlloc\nsize = 64K..\nplace = pinned\n");
    zc_clock_calibrate();
    zc_life_state = ZC_LIFE_ON;
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuMemHostRegister_v2 = do_register;
    zc_hostmem_put(host_get(MIB)); /* The first one reads the limits. */
    return 0;
}

static void *asked(size_t bytes)
{
    const struct zc_host_want want = {
        .size = bytes, .alignment = 4096, .zero = true, .owner = current};
    struct zc_slot *slot;
    const char *why;
    void *p = zc_hostheap_get(&want, &slot, &why);
    if (p)
        assert_int_equal(zc_pinned_now(zc_hostheap_extent((uintptr_t)p), &why), CUDA_SUCCESS);
    return p;
}

static void they_take_nothing_of_what_libcs_blocks_may_have(void **state)
{
    (void)state;
    void *most = host_get(500 * MIB), *p = asked(300 * MIB);
    assert_non_null(most);
    assert_null(host_get(200 * MIB));
    assert_non_null(p);
    zc_hostmem_put(most);
    void *again = host_get(500 * MIB);
    assert_non_null(again);
    zc_hostmem_put(again);
    zc_hostheap_put(p);
}

/* It stays for a second otherwise. */
static void what_is_kept_of_them_goes_once_the_host_is_short_of_it(void **state)
{
    (void)state;
    available = UINT64_MAX;
    void *p = asked(70 * MIB), *q = asked(70 * MIB);
    zc_hostheap_put(p);
    zc_hostheap_put(q);
    usleep(200000);
    available = 400 * MIB;
    assert_true(zc_hostheap_too_much(zc_hostheap_extent((uintptr_t)q)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_of_them_goes_once_the_host_is_short_of_it),
        cmocka_unit_test(they_take_nothing_of_what_libcs_blocks_may_have),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
