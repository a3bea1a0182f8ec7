/* SPDX-License-Identifier: MIT */
/* The lock: exclusion, re-entry, ranks, waiting, fork; waiting for a word; and the clock that
 * shares its callers. */
#include "base_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/wait.h"

enum { THREADS = 8, ROUNDS = 100000 };

static ZC_LOCK(lock, ZC_RANK_DRIVER);
static long shared_count, not_owned;

static void pass_time(int steps)
{
    for (volatile int i = 0; i < steps; i++) {
    }
}

/* Time passes inside and outside, so that others come to the lock while it is held, and see it
 * dropped. */
static void *count_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < 4 * ROUNDS; i++) {
        zc_lock_take(&lock);
        shared_count++;
        uint32_t owner = __atomic_load_n(&lock.owner, __ATOMIC_RELAXED);
        not_owned += ((owner ^ zc_thread_id()) << 1) != 0; /* The top bit says who waits. */
        pass_time(i % 64);
        zc_lock_drop(&lock);
        pass_time(i % 128);
    }
    return NULL;
}

static void only_one_thread_is_inside(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, count_up, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(shared_count, 4L * THREADS * ROUNDS);
    assert_int_equal(not_owned, 0);
    assert_int_equal(lock.owner, 0);
}

static int in_handler = -1;

static void take_in_handler(int signal)
{
    (void)signal;
    in_handler = zc_lock_take(&lock);
}

static void a_holder_that_is_interrupted_is_refused(void **state)
{
    (void)state;
    signal(SIGUSR1, take_in_handler);
    assert_true(zc_lock_take(&lock));
    raise(SIGUSR1);
    assert_int_equal(in_handler, 0);
    zc_lock_drop(&lock);
    assert_true(zc_lock_take(&lock));
    zc_lock_drop(&lock);
}

static void a_thread_takes_later_ranks_only(void **state)
{
    struct zc_lock early = {0, ZC_RANK_DRIVER}, middle = {0, ZC_RANK_HEAP},
                   late = {0, ZC_RANK_ARENA};
    (void)state;
    assert_true(zc_lock_take(&middle));
    assert_false(zc_lock_take(&early));
    assert_true(zc_lock_take(&late));
    zc_lock_drop(&late);
    zc_lock_drop(&middle);
    assert_true(zc_lock_take(&early));
    zc_lock_drop(&early);
}

/* Whether the calling thread may be cancelled. */
static bool cancellable(void)
{
    int now, same;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &now);
    pthread_setcancelstate(now, &same);
    return now == PTHREAD_CANCEL_ENABLE;
}

/* Under the first ranks the driver is called, which may have cancellation points. */
static void a_thread_that_may_call_the_driver_under_its_locks_is_not_cancelled(void **state)
{
    struct zc_lock first = {0, ZC_RANK_DRIVER}, second = {0, ZC_RANK_ACCESS},
                   later = {0, ZC_RANK_HEAP};

    (void)state;
    zc_lock_take(&later);
    assert_true(cancellable());
    zc_lock_drop(&later);
    zc_lock_take(&second);
    assert_false(cancellable());
    zc_lock_drop(&second);
    assert_true(cancellable());
    zc_lock_take(&first);
    zc_lock_take(&second);
    zc_lock_take(&later);
    zc_lock_drop(&later);
    zc_lock_drop(&second);
    assert_false(cancellable());
    zc_lock_drop(&first);
    assert_true(cancellable());
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    zc_lock_take(&first);
    zc_lock_drop(&first);
    assert_false(cancellable());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

static uint32_t word;

static void *wait_for_the_word(void *arg)
{
    (void)arg;
    errno = 4711;
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
        zc_wait(&word, 0);
    return errno == 4711 ? NULL : &word;
}

/* Some wait before the change, some come after it: none may sleep on. */
static void a_change_of_a_word_wakes_all_who_wait_for_it(void **state)
{
    pthread_t thread[THREADS];
    void *failed;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        if (i == THREADS / 2)
            zc_wait_step(&word);
        pthread_create(&thread[i], NULL, wait_for_the_word, NULL);
        if (i == THREADS / 2 - 1)
            usleep(20000);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
}

/* Two threads hand a word to and fro: a wake that is lost ends this in a sleep without end. */
static void *answer_each_step(void *arg)
{
    (void)arg;
    for (uint32_t step = 1; step < ROUNDS / 10; step += 2) {
        for (uint32_t seen; (seen = __atomic_load_n(&word, __ATOMIC_ACQUIRE)) != step;)
            zc_wait(&word, seen);
        zc_wait_step(&word);
    }
    return NULL;
}

static void no_wake_is_lost(void **state)
{
    pthread_t thread;

    (void)state;
    __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
    pthread_create(&thread, NULL, answer_each_step, NULL);
    for (uint32_t step = 0; step < ROUNDS / 10; step += 2) {
        zc_wait_step(&word);
        for (uint32_t seen; (seen = __atomic_load_n(&word, __ATOMIC_ACQUIRE)) != step + 2;)
            zc_wait(&word, seen);
    }
    pthread_join(thread, NULL);
}

static void *take_and_drop(void *arg)
{
    (void)arg;
    zc_lock_take(&lock);
    zc_lock_drop(&lock);
    return NULL;
}

/* The holder sleeps long enough for the others to sleep in the kernel, and must wake them all. */
static void a_refused_holder_still_wakes_those_who_wait(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    assert_true(zc_lock_take(&lock));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, take_and_drop, NULL);
    usleep(20000);
    assert_false(zc_lock_take(&lock));
    errno = 4711;
    zc_lock_drop(&lock);
    assert_int_equal(errno, 4711);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(lock.owner, 0);
}

static int child_of_a_holder(void)
{
    zc_thread_id_reset();
    zc_lock_reset_all();
    if (zc_thread_id() != (uint32_t)syscall(SYS_gettid))
        return 1;
    return zc_lock_take(&lock) ? 0 : 2;
}

static void a_forked_child_takes_a_lock_that_was_held(void **state)
{
    int status;
    pid_t child;

    (void)state;
    assert_int_equal(zc_thread_id(), syscall(SYS_gettid));
    assert_true(zc_lock_take(&lock));
    child = fork();
    if (child == 0)
        _exit(child_of_a_holder());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    zc_lock_drop(&lock);
}

static uint64_t monotonic_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The span in ticks lies between two spans of the other clock, however long the thread waits. */
static void ticks_convert_to_what_the_monotonic_clock_says(void **state)
{
    uint64_t outer, ticks, inner, measured;

    (void)state;
    assert_int_equal(zc_ticks_to_ns(1000000), 0);
    zc_clock_calibrate();
    assert_true(zc_clock_mult() > 0);
    outer = monotonic_ns();
    ticks = zc_ticks();
    inner = monotonic_ns();
    usleep(50000);
    inner = monotonic_ns() - inner;
    measured = zc_ticks_to_ns(zc_ticks() - ticks);
    outer = monotonic_ns() - outer;
    assert_in_range(measured, inner - inner / 50, outer + outer / 50);
}

static void large_spans_do_not_overflow(void **state)
{
    uint64_t year = (uint64_t)365 * 86400 * 1000000000u;
    uint64_t ticks = (uint64_t)(((unsigned __int128)year << 32) / zc_clock_mult());

    (void)state;
    assert_true(zc_ticks_to_ns(ticks) > year - 1000 && zc_ticks_to_ns(ticks) <= year);
}

static void wall_time_is_unix_time(void **state)
{
    (void)state;
    assert_in_range(zc_wall_ns() / 1000000000u, (uint64_t)time(NULL) - 2, (uint64_t)time(NULL) + 2);
}

static void a_wait_for_a_value_that_never_comes_ends_when_its_time_is_over(void **state)
{
    const uint32_t never = 0;

    (void)state;
    for (unsigned ms = 30; ms < 1100; ms += 980) {
        struct timespec from, to;

        clock_gettime(CLOCK_MONOTONIC, &from);
        assert_false(zc_wait_until(&never, 1, ms));
        clock_gettime(CLOCK_MONOTONIC, &to);
        assert_true((to.tv_sec - from.tv_sec) * 1000000000L + to.tv_nsec - from.tv_nsec >=
                    ms * 1000000L);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_thread_is_inside),
        cmocka_unit_test(a_holder_that_is_interrupted_is_refused),
        cmocka_unit_test(a_thread_takes_later_ranks_only),
        cmocka_unit_test(a_thread_that_may_call_the_driver_under_its_locks_is_not_cancelled),
        cmocka_unit_test(a_change_of_a_word_wakes_all_who_wait_for_it),
        cmocka_unit_test(no_wake_is_lost),
        cmocka_unit_test(a_wait_for_a_value_that_never_comes_ends_when_its_time_is_over),
        cmocka_unit_test(a_refused_holder_still_wakes_those_who_wait),
        cmocka_unit_test(a_forked_child_takes_a_lock_that_was_held),
        cmocka_unit_test(ticks_convert_to_what_the_monotonic_clock_says),
        cmocka_unit_test(large_spans_do_not_overflow),
        cmocka_unit_test(wall_time_is_unix_time),
    };

    return RUN_TESTS(tests);
}
