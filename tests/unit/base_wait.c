/* SPDX-License-Identifier: MIT */
/* Waiting for a word of memory to have a value. */
#include "base_test.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/wait.h"

#define LONG_MS 60000u

static uint32_t word, waits;

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void a_word_that_has_the_value_is_not_waited_for(void **state)
{
    (void)state;
    errno = 77;
    assert_true(zc_wait_until(&word, word, 0));
    assert_int_equal(errno, 77);
}

/* Across a second as well, wherever that begins. */
static void a_wait_in_vain_ends_after_its_time_and_not_before(void **state)
{
    static const unsigned spans[] = {1, 30, 999, 1001};

    (void)state;
    for (unsigned i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        uint64_t began = now_ms();

        errno = 77;
        assert_false(zc_wait_until(&word, word + 1, spans[i]));
        assert_int_equal(errno, 77);
        assert_true(now_ms() + 1 >= began + spans[i]);
    }
}

static void *wait_for_seven(void *unused)
{
    bool *found = unused;

    __atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
    *found = zc_wait_until(&word, 7, LONG_MS);
    return NULL;
}

/* The waiter sleeps again when it is woken for another value. */
static void a_thread_that_waits_finds_the_value_that_another_stores(void **state)
{
    pthread_t thread;
    bool found = false;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_seven, &found), 0);
    while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
        zc_nap(100);
    for (unsigned i = 0; i < 7; i++) {
        zc_nap(1000);
        zc_wait_step(&word);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_has_the_value_is_not_waited_for),
        cmocka_unit_test(a_wait_in_vain_ends_after_its_time_and_not_before),
        cmocka_unit_test(a_thread_that_waits_finds_the_value_that_another_stores),
    };

    return RUN_TESTS(tests);
}
