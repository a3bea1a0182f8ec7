/* SPDX-License-Identifier: MIT */
/* Memory pools: the kinds of their memory, from their making to their end. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "hook/pool.h"
#include "real_test.h"

#define POOL(n) ((CUmemoryPool)(0x1000 * (uintptr_t)(n)))

static const CUmemLocation on_device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
static const CUmemLocation on_host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};

static void a_pool_gives_the_memory_that_it_was_made_for(void **state)
{
    (void)state;
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    zc_pool_note(POOL(1), &on_device, CU_MEM_ALLOCATION_TYPE_PINNED);
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    zc_pool_note(POOL(2), &on_host, CU_MEM_ALLOCATION_TYPE_PINNED);
    zc_pool_note(POOL(3), &on_device, (CUmemAllocationType)(CU_MEM_ALLOCATION_TYPE_PINNED + 1));
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_PINNED);
    assert_int_equal(zc_pool_kind(POOL(3)), ZC_KIND_MANAGED);
    /* A handle may come again, for another pool. */
    zc_pool_note(POOL(2), &on_host, (CUmemAllocationType)(CU_MEM_ALLOCATION_TYPE_PINNED + 1));
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_MANAGED);
    zc_pool_forget(POOL(3));
    assert_int_equal(zc_pool_kind(POOL(3)), ZC_KIND_DEVICE);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_MANAGED);
    zc_pool_forget(POOL(3));
    zc_pool_forget(POOL(2));
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_DEVICE);
}

static void pools_that_come_and_go_take_no_more_memory(void **state)
{
    (void)state;
    zc_pool_note(POOL(1), &on_host, CU_MEM_ALLOCATION_TYPE_PINNED);
    size_t before = zc_arena_mapped_bytes();
    for (int i = 0; i < 1000000; i++) {
        zc_pool_note(POOL(1), &on_host, CU_MEM_ALLOCATION_TYPE_PINNED);
        if (i % 2)
            zc_pool_forget(POOL(1));
    }
    assert_int_equal(zc_arena_mapped_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_gives_the_memory_that_it_was_made_for),
        cmocka_unit_test(pools_that_come_and_go_take_no_more_memory),
    };

    real_without_driver();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
