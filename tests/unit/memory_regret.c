/* SPDX-License-Identifier: MIT */
/* When blocks in host memory that kernels read over the link come to the device. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
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
    uint64_t calls = zc_regret_cost(0), before = zc_regret_cost(100 * M), ticks = 1 << 20;
    (void)state;
    zc_clock_calibrate();
    while (zc_ticks_to_ns(ticks) < 64000000)
        ticks *= 2;
    uint64_t us = zc_ticks_to_ns(ticks) / 1000;
    zc_regret_moved(M, zc_ticks() - ticks); /* Too small to tell. */
    assert_int_equal(zc_regret_cost(100 * M), before);
    zc_regret_moved(64 * M, zc_ticks() - ticks);
    uint64_t slow = zc_regret_cost(100 * M);
    assert_true(slow >= calls + us * 100 / 64 && slow > before);
    zc_regret_moved(2048 * M, zc_ticks() - ticks);
    uint64_t fast = zc_regret_cost(100 * M);
    assert_true(fast >= calls + us * 100 / 2048 && fast < slow);
    zc_regret_moved(64 * M, zc_ticks() - ticks);
    assert_int_equal(zc_regret_cost(100 * M), fast);
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
