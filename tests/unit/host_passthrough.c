/* SPDX-License-Identifier: MIT */
/* The table of blocks that stay with libc. */
#include "host/passthrough.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static const struct zc_rule one = {.name = "one"}, other = {.name = "other"};

static void *at(uintptr_t address)
{
    return (void *)address;
}

static void a_block_is_found_by_every_address_in_it(void **state)
{
    (void)state;
    uintptr_t p = 0x7f0000000010, q = p + 8 * MIB;
    zc_passthrough_note(at(p), 3 * MIB, &one);
    zc_passthrough_note(at(q), MIB, &other);
    assert_ptr_equal(zc_passthrough_rule(p), &one);
    assert_ptr_equal(zc_passthrough_rule(p + 3 * MIB - 1), &one);
    assert_null(zc_passthrough_rule(p + 3 * MIB));
    assert_null(zc_passthrough_rule(p - 1));
    assert_ptr_equal(zc_passthrough_rule(q + 5), &other);
    zc_passthrough_forget(at(p + 16)); /* No block begins there. */
    assert_ptr_equal(zc_passthrough_rule(p), &one);
    zc_passthrough_forget(at(p));
    assert_null(zc_passthrough_rule(p));
    zc_passthrough_note(at(p), MIB, &other);
    assert_ptr_equal(zc_passthrough_rule(p), &other);
    zc_passthrough_forget(at(p));
    zc_passthrough_forget(at(q));
    zc_passthrough_forget(NULL);
    assert_null(zc_passthrough_rule(q));
}

static void what_finds_no_room_is_not_known(void **state)
{
    enum { MANY = 20000 };
    unsigned known = 0, left = 0;
    (void)state;
    for (uintptr_t i = 1; i <= MANY; i++)
        zc_passthrough_note(at(i * MIB + 16), MIB / 2, &one);
    for (uintptr_t i = 1; i <= MANY; i++)
        known += zc_passthrough_rule(i * MIB + 16) == &one;
    assert_true(known > 3000 && known <= 4096);
    for (uintptr_t i = 1; i <= MANY; i++)
        zc_passthrough_forget(at(i * MIB + 16));
    for (uintptr_t i = 1; i <= MANY; i++)
        left += zc_passthrough_rule(i * MIB + 16) != NULL;
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_found_by_every_address_in_it),
        cmocka_unit_test(what_finds_no_room_is_not_known),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
