/* SPDX-License-Identifier: MIT */
/* The contexts that the program has, and those that it is destroying. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/own.h"
#include "driver/lock.h"

#define SOME 20u
#define MANY 64u /* As many as are known. */
#define STEPS 5000u

static int forget(void **state)
{
    (void)state;
    zc_own_forget();
    return 0;
}

static CUcontext context(size_t i)
{
    return (CUcontext)((i + 1) * 0x1000);
}

/* Which of the first n contexts are listed; each once at most, and no others. */
static void expect(const bool *there, size_t n)
{
    bool known, found[MANY + 2] = {false};
    CUcontext c;

    for (unsigned i = 0; (c = zc_context_at(i, &known)) != NULL; i++) {
        size_t number = (uintptr_t)c / 0x1000 - 1;

        assert_true(number < n && !found[number]);
        found[number] = true;
    }
    assert_memory_equal(found, there, n * sizeof(*there));
}

static void contexts_are_those_that_were_made_and_not_destroyed(void **state)
{
    bool there[SOME] = {false}, known;
    unsigned seed = 1;

    (void)state;
    for (unsigned step = 0; step < STEPS; step++) {
        size_t i = (size_t)rand_r(&seed) % SOME;
        bool now = rand_r(&seed) % 2;

        zc_context_note(context(i), now); /* Retained again, or released by others, too. */
        there[i] = now;
        expect(there, SOME);
    }
    zc_context_at(0, &known);
    assert_true(known);
}

static void more_contexts_than_are_kept_are_not_known(void **state)
{
    bool there[MANY + 2], known;

    (void)state;
    memset(there, true, sizeof(there));
    for (size_t i = 0; i < MANY; i++)
        zc_context_note(context(i), true);
    zc_context_note(context(7), true); /* Again. */
    expect(there, MANY);
    zc_context_at(0, &known);
    assert_true(known);
    zc_context_note(context(MANY), true);
    zc_context_at(0, &known);
    assert_false(known);
    expect(there, MANY);
    zc_context_note(context(0), false);
    zc_context_at(0, &known);
    assert_false(known);
}

/* As in a signal handler that interrupted the holder. */
static void a_context_that_is_made_where_the_lock_is_held_is_not_known(void **state)
{
    bool known;

    (void)state;
    zc_driver_lock();
    zc_context_note(context(1), false);
    zc_context_at(0, &known);
    assert_true(known);
    zc_context_note(context(1), true);
    zc_context_at(0, &known);
    assert_false(known);
    zc_driver_unlock();
}

static void contexts_leave_from_before_they_are_destroyed_until_they_are_forgotten(void **state)
{
    struct zc_leaving first, second, third, handlers;

    (void)state;
    zc_leaving_begin(&first, context(1));
    zc_leaving_begin(&second, context(2));
    zc_leaving_begin(&third, context(1)); /* The driver may have refused the first. */
    assert_true(zc_leaving(context(1)) && zc_leaving(context(2)) && !zc_leaving(context(3)));
    zc_leaving_end(&second);
    assert_true(zc_leaving(context(1)) && !zc_leaving(context(2)));
    zc_leaving_end(&first);
    assert_true(zc_leaving(context(1)));
    zc_driver_lock();
    zc_leaving_begin(&handlers, context(4));
    assert_false(zc_leaving(context(4)));
    zc_driver_unlock();
    zc_leaving_end(&handlers);
    zc_leaving_end(&third);
    assert_false(zc_leaving(context(1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(contexts_are_those_that_were_made_and_not_destroyed, forget),
        cmocka_unit_test_setup(more_contexts_than_are_kept_are_not_known, forget),
        cmocka_unit_test_setup(a_context_that_is_made_where_the_lock_is_held_is_not_known, forget),
        cmocka_unit_test_setup(
            contexts_leave_from_before_they_are_destroyed_until_they_are_forgotten, forget),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
