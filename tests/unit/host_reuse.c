/* SPDX-License-Identifier: MIT */
/* Registered memory of the host heap serves blocks that come later. */
#include "host_pinned_test.h"

static void a_freed_block_is_found_again_registered(void **state)
{
    (void)state;
    void *p = host_get(90 * MIB);
    zc_pinned_use(extent_of(p), 90 * MIB);
    zc_hostmem_put(p);
    void *q = host_get(90 * MIB - 5);
    assert_ptr_equal(extent_of(p), extent_of(q));
    assert_true(zc_pinned_use(extent_of(q), 1));
    assert_int_equal(registered, 1);
    zc_hostmem_put(q);
}

static void blocks_of_all_sizes_in_turn_have_the_same_registered_memory(void **state)
{
    (void)state;
    zc_pinned_trim(true);
    zc_hostheap_tidy(true);
    char *p[2] = {host_get(100 * MIB), host_get(100 * MIB)};
    assert_true(zc_pinned_use(extent_of(p[0]), 100 * MIB));
    assert_true(zc_pinned_use(extent_of(p[1]), 100 * MIB));
    struct zc_extent *had[2] = {extent_of(p[0]), extent_of(p[1])};
    unsigned before = registered;
    zc_hostmem_put(p[0]);
    zc_hostmem_put(p[1]);
    for (int i = 0; i < 3; i++) {
        char *smaller = host_get(72 * MIB), *other = host_get(72 * MIB);
        struct zc_extent *e = extent_of(smaller), *fresh = extent_of(other);
        assert_true(e == had[0] || e == had[1]);
        assert_true(zc_pinned_use(e, 72 * MIB) && registered == before);
        /* As long as they have 32 MiB that they do not need, others get none. */
        assert_true(fresh != had[0] && fresh != had[1]);
        zc_hostmem_put(smaller);
        zc_hostmem_put(other);
    }
    char *small = host_get(60 * MIB); /* 40 MiB are too many. */
    assert_true(extent_of(small) != had[0] && extent_of(small) != had[1]);
    zc_hostmem_put(small);
}

static void realloc_copies_what_is_registered(void **state)
{
    (void)state;
    const struct zc_hostmem_request more = {
        .api = ZC_API_realloc, .size = 50 * MIB, .alignment = 1};
    char *p = host_get(20 * MIB);
    memset(p, 9, 20 * MIB);
    assert_true(zc_pinned_use(extent_of(p), 20 * MIB));
    char *q = zc_hostmem_resize(p, &more);
    assert_true(q && q != p && q[0] == 9 && q[20 * MIB - 1] == 9);
    assert_true(zc_pinned_use(extent_of(q), 50 * MIB));
    unsigned before = registered;
    char *r = host_get(20 * MIB);
    assert_true(zc_pinned_use(extent_of(r), 20 * MIB));
    assert_ptr_equal(extent_of(p), extent_of(r));
    assert_int_equal(registered, before);
    zc_hostmem_put(q);
    zc_hostmem_put(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_freed_block_is_found_again_registered, fresh),
        cmocka_unit_test_setup(blocks_of_all_sizes_in_turn_have_the_same_registered_memory, fresh),
        cmocka_unit_test_setup(realloc_copies_what_is_registered, fresh),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
