/* SPDX-License-Identifier: MIT */
/* Work in pieces, with threads that the kernel runs late. */
#include "memory/crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arena_mapped.h"
#include "late_threads.h"

#define PIECES 64u

struct work {
    struct zc_crew crew;
    unsigned next, done[PIECES], by_others; /* Atomic. */
    unsigned from_here; /* From this piece on the caller waits for another thread, if it has any. */
};

static bool piece(struct zc_crew *crew, unsigned who)
{
    struct work *w = (struct work *)crew;
    unsigned mine = __atomic_fetch_add(&w->next, 1, __ATOMIC_ACQ_REL);
    if (mine >= PIECES) {
        zc_crew_over(crew);
        return false;
    }
    if (who)
        __atomic_fetch_add(&w->by_others, 1, __ATOMIC_ACQ_REL);
    while (!who && w->crew.started && mine >= w->from_here &&
           !__atomic_load_n(&w->by_others, __ATOMIC_ACQUIRE))
        sched_yield();
    __atomic_fetch_add(&w->done[mine], 1, __ATOMIC_ACQ_REL);
    return true;
}

/* Does a job; returns how many threads it started. */
static unsigned job(unsigned wanted, unsigned from_here)
{
    struct work *w = zc_crew_make(sizeof(*w), piece, wanted);
    w->from_here = from_here;
    while (zc_crew_grow(&w->crew) || piece(&w->crew, 0))
        ;
    zc_crew_wait(&w->crew);
    for (unsigned i = 0; i < PIECES; i++)
        assert_int_equal(w->done[i], 1);
    unsigned started = w->crew.started;
    zc_crew_put(&w->crew);
    return started;
}

static void a_job_ends_without_threads_that_do_not_run_and_later_ones_start_few(void **state)
{
    (void)state;
    late_threads_hold(true);
    assert_int_equal(job(ZC_CREW_MAX, PIECES) > 0, zc_crew_cpus() > 1);
    unsigned later = 0;
    for (unsigned i = 0; i < 32; i++)
        later += job(ZC_CREW_MAX, PIECES);
    assert_true(later <= 2);
    late_threads_hold(false);
    late_threads_wait(0);
}

static void jobs_start_threads_again_when_these_run_in_time(void **state)
{
    (void)state;
    unsigned in_turn = zc_crew_cpus() > 1 ? 0 : 3;
    for (unsigned i = 0; i < 100000 && in_turn < 3; i++)
        in_turn = job(4, PIECES / 2) ? in_turn + 1 : 0;
    late_threads_wait(0);
    assert_int_equal(in_turn, 3);
}

/* Of two processors one is for another thread. */
static void a_job_starts_as_many_threads_as_there_are_other_processors(void **state)
{
    cpu_set_t all, two;
    unsigned most = 0;

    (void)state;
    if (zc_crew_cpus() < 2)
        skip();
    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&two);
    for (unsigned i = 0; CPU_COUNT(&two) < 2; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &two);
    sched_setaffinity(0, sizeof(two), &two);
    late_threads_hold(false);
    for (unsigned i = 0; i < 100; i++) {
        unsigned started = job(ZC_CREW_MAX, PIECES / 2);

        most = started > most ? started : most;
    }
    sched_setaffinity(0, sizeof(all), &all);
    late_threads_wait(0);
    assert_int_equal(most, 1);
}

/* A thread may leave a job after its caller, and the last of them gives its memory back. */
static void the_memory_of_jobs_comes_again(void **state)
{
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < 40000; i++) {
        job(i % 4, PIECES);
        if (i % 1000 == 0)
            late_threads_wait(0);
        if (i == 20000)
            before = arena_mapped();
    }
    late_threads_wait(0);
    /* Threads that run late keep 1000 jobs at most. */
    assert_true(arena_mapped() - before <= 1000 * 2 * sizeof(struct work));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_without_threads_that_do_not_run_and_later_ones_start_few),
        cmocka_unit_test(jobs_start_threads_again_when_these_run_in_time),
        cmocka_unit_test(a_job_starts_as_many_threads_as_there_are_other_processors),
        cmocka_unit_test(the_memory_of_jobs_comes_again),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
