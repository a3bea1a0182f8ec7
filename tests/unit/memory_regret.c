/* SPDX-License-Identifier: MIT */
/* When blocks in host memory that kernels read over the link come to the device. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/regret.h"

#define M ((uint64_t)1 << 20)

/* tests/gpu/MEASURED.md: blocks that change places, and one of `shared` that becomes OWN. */
static void a_move_costs_what_was_measured_within_a_third(void **state)
{
    static const struct {
        uint64_t bytes, us;
    } measured[] = {{32 * M, 980}, {128 * M, 3290}, {512 * M, 12400}, {1024 * M, 23500}};
    (void)state;
    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++)
        assert_in_range(zc_regret_cost(measured[i].bytes), measured[i].us,
                        measured[i].us + measured[i].us / 3);
}

static void what_moves_have_taken_counts_instead_the_fastest_of_them(void **state)
{
    (void)state;
    zc_regret_copied(M, 0); /* Less than the clock tells apart. */
    assert_int_equal(zc_regret_cost(100 * M), zc_regret_cost(0) + 100 * M / 42000);
    zc_regret_copied(64 * M, 64000);
    assert_int_equal(zc_regret_cost(100 * M), zc_regret_cost(0) + 100 * M / (64 * M / 64000));
    zc_regret_copied(64 * M, 160);
    zc_regret_copied(64 * M, 64000);
    assert_int_equal(zc_regret_cost(100 * M), zc_regret_cost(0) + 100 * M / (64 * M / 160));
}

static void a_block_moves_once_more_is_lost_than_it_costs_and_begins_anew(void **state)
{
    uint64_t owed = 0, cost = zc_regret_cost(64 * M);
    (void)state;
    assert_false(zc_regret_owes(&owed, cost - 1, 64 * M));
    assert_false(zc_regret_owes(&owed, 1, 64 * M));
    assert_true(zc_regret_owes(&owed, 1, 64 * M));
    assert_int_equal(owed, 0);
    assert_false(zc_regret_owes(&owed, cost, 64 * M));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_costs_what_was_measured_within_a_third),
        cmocka_unit_test(what_moves_have_taken_counts_instead_the_fastest_of_them),
        cmocka_unit_test(a_block_moves_once_more_is_lost_than_it_costs_and_begins_anew)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
