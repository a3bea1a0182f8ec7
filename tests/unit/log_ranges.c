/* SPDX-License-Identifier: MIT */
/* The ranges of a thread: their levels by domain, their names, and those that find no place. */
#include "base_test.h"

#include <pthread.h>
#include <stdio.h>

#include "base/lock.h"
#include "base/module.h"
#include "log/ranges.h"

extern const struct zc_module zc_module_ranges;

static const char app[] = "app", other[] = "app";

static void each_domain_has_levels_of_its_own(void **state)
{
    (void)state;
    assert_null(zc_ranges_here());
    assert_int_equal(zc_ranges_push(NULL, "a"), 0);
    assert_int_equal(zc_ranges_push(app, "b"), 0);
    assert_string_equal(zc_ranges_here(), "app: b");
    assert_int_equal(zc_ranges_push(NULL, "c"), 1);
    assert_int_equal(zc_ranges_push(app, "d"), 1);
    assert_true(zc_ranges_pop(other) < 0);
    assert_int_equal(zc_ranges_pop(NULL), 1);
    assert_string_equal(zc_ranges_here(), "app: d");
    assert_int_equal(zc_ranges_pop(app), 1);
    assert_string_equal(zc_ranges_here(), "app: b");
    assert_int_equal(zc_ranges_pop(app), 0);
    assert_string_equal(zc_ranges_here(), "a");
    assert_true(zc_ranges_pop(app) < 0);
    assert_int_equal(zc_ranges_pop(NULL), 0);
    assert_true(zc_ranges_pop(NULL) < 0);
    assert_null(zc_ranges_here());
}

static void assert_shown(const char *name, const char *as)
{
    zc_ranges_push(NULL, name);
    assert_string_equal(zc_ranges_here(), as);
    zc_ranges_pop(NULL);
}

static void numbers_of_operations_are_left_out(void **state)
{
    (void)state;
    assert_shown("aten::mm, seq = 5", "aten::mm");
    assert_shown("aten::mm, op_id = 7", "aten::mm");
    assert_shown("aten::mm, seq = 5, op_id = 7", "aten::mm");
    assert_shown("aten::mm, op_id = 7, seq = 5", "aten::mm");
    assert_shown("seq = 5", "seq = 5");
    assert_shown("", "?");
    assert_shown(NULL, "?");
}

static ZC_LOCK(last, ZC_RANK_ARENA);

/* As in a handler that interrupted the arena. */
static void ranges_without_memory_end_before_those_around_them(void **state)
{
    (void)state;
    assert_int_equal(zc_ranges_push(NULL, "a"), 0);
    assert_true(zc_lock_take(&last));
    assert_true(zc_ranges_push(NULL, "b") < 0);
    assert_true(zc_ranges_push(app, "c") < 0);
    zc_lock_drop(&last);
    assert_true(zc_ranges_push(NULL, "d") < 0);
    assert_string_equal(zc_ranges_here(), "a");
    for (int i = 0; i < 3; i++)
        assert_true(zc_ranges_pop(i ? NULL : app) < 0);
    assert_string_equal(zc_ranges_here(), "a");
    assert_int_equal(zc_ranges_pop(NULL), 0);
    assert_int_equal(zc_ranges_push(NULL, "e"), 0);
    assert_int_equal(zc_ranges_pop(NULL), 0);
}

/* Neither all memory is theirs, nor ever more time. */
static void of_ranges_that_never_end_the_outer_ones_are_told(void **state)
{
    char name[16];
    const int count = 1 << 18;
    (void)state;
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "%d", i);
        assert_int_equal(zc_ranges_push(NULL, name), i < 1024 ? i : -1);
    }
    assert_string_equal(zc_ranges_here(), "1023");
    for (int i = count; i-- > 0;)
        assert_int_equal(zc_ranges_pop(NULL), i < 1024 ? i : -1);
    assert_true(zc_ranges_pop(NULL) < 0);
}

static void a_forked_child_is_in_no_range(void **state)
{
    (void)state;
    zc_ranges_push(NULL, "a");
    assert_true(zc_lock_take(&last));
    zc_ranges_push(NULL, "b");
    zc_lock_drop(&last);
    zc_module_ranges.child();
    assert_null(zc_ranges_here());
    assert_int_equal(zc_ranges_push(NULL, "c"), 0);
    assert_int_equal(zc_ranges_pop(NULL), 0);
}

static void *outside(void *unused)
{
    assert_null(zc_ranges_here());
    assert_true(zc_ranges_pop(NULL) < 0);
    return unused;
}

static void a_range_is_its_threads(void **state)
{
    pthread_t thread;
    (void)state;
    zc_ranges_push(NULL, "a");
    assert_int_equal(pthread_create(&thread, NULL, outside, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(zc_ranges_pop(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_domain_has_levels_of_its_own),
        cmocka_unit_test(numbers_of_operations_are_left_out),
        cmocka_unit_test(ranges_without_memory_end_before_those_around_them),
        cmocka_unit_test(of_ranges_that_never_end_the_outer_ones_are_told),
        cmocka_unit_test(a_range_is_its_threads),
        cmocka_unit_test(a_forked_child_is_in_no_range),
    };
    return RUN_TESTS(tests);
}
