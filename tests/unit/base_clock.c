/* SPDX-License-Identifier: MIT */
/* The rate of the ticks: a span is as long as CLOCK_MONOTONIC has it. */
#include "base_test.h"

#include <time.h>

#include "base/clock.h"

#define SPANS 10

static uint64_t monotonic_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One clock is read outside of the other, then inside, so that a thread that is kept from running
 * makes no difference. */
static void a_span_of_ticks_is_as_long_as_that_of_the_clock(void **state)
{
    (void)state;
    zc_clock_calibrate();
    for (unsigned i = 0; i < SPANS; i++) {
        uint64_t outer = monotonic_ns(), ticks = zc_ticks(), inner = monotonic_ns(), ns;

        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        inner = monotonic_ns() - inner;
        ns = zc_ticks_to_ns(zc_ticks() - ticks);
        outer = monotonic_ns() - outer;
        assert_true(ns <= outer + outer / 4);
        assert_true(ns >= inner - inner / 4);
    }
}

static void before_the_rate_is_known_a_span_is_nothing(void **state)
{
    (void)state;
    assert_int_equal(zc_ticks_to_ns(1u << 30), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_rate_is_known_a_span_is_nothing),
        cmocka_unit_test(a_span_of_ticks_is_as_long_as_that_of_the_clock),
    };

    return RUN_TESTS(tests);
}
