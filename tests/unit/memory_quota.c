/* SPDX-License-Identifier: MIT */
/* Quotas: trees of them, refusals, and threads that take and give at the same time. */
#include "base_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "memory/quota.h"

/* A host's limit, and two places that share it: one has a limit of its own. */
static struct zc_quota host, bound, open_ended;

static int fresh(void **state)
{
    (void)state;
    host = (struct zc_quota){.most = 100};
    bound = (struct zc_quota){.parent = &host, .most = 60};
    open_ended = (struct zc_quota){.parent = &host, .most = UINT64_MAX};
    return 0;
}

static void what_is_taken_is_taken_upwards_and_given_back_so(void **state)
{
    (void)state;
    assert_true(zc_quota_take(&bound, 40));
    assert_true(zc_quota_take(&open_ended, 30));
    assert_int_equal(bound.used, 40);
    assert_int_equal(open_ended.used, 30);
    assert_int_equal(host.used, 70);
    zc_quota_give(&bound, 40);
    assert_int_equal(bound.used, 0);
    assert_int_equal(host.used, 30);
    zc_quota_give(&open_ended, 30);
    assert_int_equal(host.used, 0);
}

static void a_refusal_anywhere_takes_nothing(void **state)
{
    (void)state;
    assert_true(zc_quota_take(&open_ended, 50));
    /* By its own limit. */
    assert_false(zc_quota_take(&bound, 61));
    assert_true(bound.used == 0 && host.used == 50);
    /* By that of the host, after its own one had room. */
    assert_false(zc_quota_take(&bound, 51));
    assert_true(bound.used == 0 && host.used == 50);
    assert_true(zc_quota_take(&bound, 50));
    assert_false(zc_quota_take(&open_ended, 1));
    assert_true(zc_quota_take(&open_ended, 0));
    assert_false(zc_quota_take(&bound, UINT64_MAX));
    assert_int_equal(host.used, 100);
}

static void what_fits_is_the_least_that_is_left_on_the_way_up(void **state)
{
    struct zc_quota free_of_all = {.most = UINT64_MAX};
    (void)state;
    assert_int_equal(zc_quota_left(&bound), 60);
    assert_int_equal(zc_quota_left(&open_ended), 100);
    assert_true(zc_quota_take(&open_ended, 70));
    assert_int_equal(zc_quota_left(&bound), 30);
    assert_true(zc_quota_take(&bound, 30));
    assert_int_equal(zc_quota_left(&bound), 0);
    assert_true(zc_quota_take(&free_of_all, 1));
    assert_true(zc_quota_left(&free_of_all) == UINT64_MAX);
}

static void what_is_there_already_counts_even_beyond_a_limit(void **state)
{
    (void)state;
    zc_quota_give(&bound, -150);
    assert_true(bound.used == 150 && host.used == 150);
    assert_int_equal(zc_quota_left(&bound), 0);
    assert_false(zc_quota_take(&open_ended, 1));
    zc_quota_give(&bound, 100);
    assert_int_equal(zc_quota_left(&bound), 10);
    /* A limit that follows what a device has free may come to lie below what is held. */
    bound.most = 20;
    assert_int_equal(zc_quota_left(&bound), 0);
    assert_false(zc_quota_take(&bound, 1));
}

#define THREADS 8
#define ROUNDS 20000

static _Atomic uint64_t held; /* Less than what is taken, at any time. */
static _Atomic unsigned beyond;

static void *take_and_give(void *arg)
{
    struct zc_quota *quota = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes = (uint64_t)(rand_r(&seed) % 40);
        if (!zc_quota_take(quota, bytes))
            continue;
        if (atomic_fetch_add(&held, bytes) + bytes > 100)
            atomic_fetch_add(&beyond, 1);
        atomic_fetch_sub(&held, bytes);
        zc_quota_give(quota, bytes);
    }
    return NULL;
}

static void *take_all(void *arg)
{
    uint64_t got = 0;
    while (zc_quota_take(arg, 1))
        got++;
    return (void *)(uintptr_t)got;
}

/* Half of the threads use each place. */
static uint64_t by_threads(void *(*run)(void *))
{
    pthread_t thread[THREADS];
    uint64_t sum = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, i % 2 ? &bound : &open_ended), 0);
    for (int i = 0; i < THREADS; i++) {
        void *got;
        assert_int_equal(pthread_join(thread[i], &got), 0);
        sum += (uintptr_t)got;
    }
    return sum;
}

static void threads_never_have_more_than_the_limit_and_leave_nothing_behind(void **state)
{
    (void)state;
    by_threads(take_and_give);
    assert_int_equal(beyond, 0);
    assert_true(host.used == 0 && bound.used == 0 && open_ended.used == 0);
}

static void threads_that_take_byte_by_byte_reach_the_limit_together(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        fresh(state);
        host.most = 10000;
        assert_int_equal(by_threads(take_all), 10000);
        assert_int_equal(host.used, 10000);
        assert_int_equal(bound.used + open_ended.used, 10000);
        assert_true(bound.used <= 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_taken_is_taken_upwards_and_given_back_so, fresh),
        cmocka_unit_test_setup(a_refusal_anywhere_takes_nothing, fresh),
        cmocka_unit_test_setup(what_fits_is_the_least_that_is_left_on_the_way_up, fresh),
        cmocka_unit_test_setup(what_is_there_already_counts_even_beyond_a_limit, fresh),
        cmocka_unit_test_setup(threads_never_have_more_than_the_limit_and_leave_nothing_behind,
                               fresh),
        cmocka_unit_test_setup(threads_that_take_byte_by_byte_reach_the_limit_together, fresh),
    };
    return RUN_TESTS(tests);
}
