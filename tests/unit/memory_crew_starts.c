/* SPDX-License-Identifier: MIT */
/* How many threads a job starts, by processors, quota and the jobs before it; none of them runs
 * but where the test lets it. */
#include "base_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "memory/cgroup.h"
#include "memory/crew.h"
#include "memory/thread.h"

static struct {
    uint64_t now, quota; /* Nanoseconds. */
    unsigned cpus, asked, started, gone, yields, pieces, who;
    bool no_set, no_memory, no_thread;
    void *(*main)(void *);
} has;

static int fake_affinity(cpu_set_t *set)
{
    CPU_ZERO(set);
    for (unsigned i = 0; i < has.cpus; i++)
        CPU_SET(i, set);
    return has.no_set ? -1 : 0;
}

static uint64_t fake_processors(void)
{
    has.asked++;
    return has.quota;
}

static bool fake_start(void *(*run)(void *))
{
    has.main = run;
    has.started += !has.no_thread;
    return !has.no_thread;
}

static void fake_put(void *memory, size_t bytes)
{
    assert_int_equal(bytes, sizeof(struct zc_crew) + 8);
    has.gone++;
    free(memory);
}

static void fake_yield(void);

#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_cgroup_processors fake_processors
#define zc_thread_start(thread, run, arg) ((void)(thread), (void)(arg), fake_start(run))
#define sched_getaffinity(pid, bytes, set) fake_affinity(set)
#define zc_arena_get(bytes) (has.no_memory ? NULL : calloc(1, bytes))
#define zc_arena_put fake_put
#define pthread_detach(thread) ((void)(thread))
#define sched_yield fake_yield
#include "../../shim/memory/crew.c"

static struct zc_crew *job;

static void fake_yield(void)
{
    if (++has.yields == 3)
        job->busy = 0; /* The others are done. */
    if (has.yields == 2)
        zc_crew_over(job);
}

static bool piece(struct zc_crew *c, unsigned who)
{
    assert_true(c == job && c->busy == 1);
    has.who = who;
    return ++has.pieces % 2;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&crew, 0, sizeof(crew));
    has.now = 5;
    has.quota = UINT64_MAX;
    has.cpus = 8;
    return 0;
}

static struct zc_crew *make(size_t wanted)
{
    return job = zc_crew_make(sizeof(struct zc_crew) + 8, piece, wanted);
}

/* The threads that a job starts at once; `run` of them begin before it ends. */
static unsigned starts(size_t wanted, unsigned run)
{
    unsigned before = has.started;
    assert_non_null(make(wanted));
    while (zc_crew_grow(job))
        ;
    unsigned n = has.started - before;
    job->begun = run < n ? run : n;
    zc_crew_wait(job);
    assert_true(job->over);
    job->members = 1;
    zc_crew_put(job);
    return n;
}

static void processors_are_those_of_the_set_and_no_more_than_the_quota(void **state)
{
    (void)state;
    assert_int_equal(zc_crew_cpus(), 8);
    has.quota = 3;
    assert_int_equal(zc_crew_cpus(), 8); /* It is asked once a second. */
    has.now += 999999999;
    assert_int_equal(zc_crew_cpus(), 8);
    assert_int_equal(has.asked, 1);
    has.now++;
    assert_int_equal(zc_crew_cpus(), 3);
    assert_int_equal(has.asked, 2);
    has.cpus = 2;
    assert_int_equal(zc_crew_cpus(), 2);
    has.no_set = true;
    assert_int_equal(zc_crew_cpus(), 1);
    assert_int_equal(has.asked, 2);
}

static void a_job_starts_what_it_wants_beside_its_caller(void **state)
{
    (void)state;
    assert_int_equal(starts(3, 3), 3);
    assert_int_equal(starts(100, 100), 7);
    has.cpus = 1;
    assert_int_equal(starts(100, 100), 0);
    has.cpus = 600;
    assert_int_equal(starts(1000, 1000), ZC_CREW_MAX);
    assert_int_equal(make(1000)->wanted, ZC_CREW_MAX);
    free(job);
    assert_int_equal(starts(0, 0), 0);
    has.no_memory = true;
    assert_null(make(3));
}

/* The next job begins with as many as came in time, or twice as many if all did. */
static void threads_that_come_late_are_not_started_again(void **state)
{
    (void)state;
    has.cpus = 600;
    assert_int_equal(starts(8, 3), 8);
    assert_int_equal(ZC_CREW_MAX - crew.late, 3);
    assert_int_equal(starts(8, 2), 3);
    assert_int_equal(starts(8, 2), 2); /* Both came. */
    assert_int_equal(ZC_CREW_MAX - crew.late, 4);
    assert_int_equal(starts(8, 0), 4);
    assert_int_equal(crew.late, ZC_CREW_MAX);
}

static void a_job_whose_threads_all_came_starts_more(void **state)
{
    (void)state;
    assert_non_null(make(7));
    job->due = 2;
    assert_true(zc_crew_grow(job) && zc_crew_grow(job));
    assert_false(zc_crew_grow(job)); /* None of both has begun. */
    job->begun = 1;
    assert_false(zc_crew_grow(job));
    job->begun = 2;
    assert_true(zc_crew_grow(job) && zc_crew_grow(job));
    assert_false(zc_crew_grow(job));
    job->begun = 4;
    for (unsigned i = 0; i < 3; i++)
        assert_true(zc_crew_grow(job));
    job->begun = 7;
    assert_false(zc_crew_grow(job));
    assert_true(job->started == 7 && job->members == 8);
    crew.late = ZC_CREW_MAX - 7;
    zc_crew_wait(job);
    assert_int_equal(ZC_CREW_MAX - crew.late, 14);
    free(job);
    crew.late = 0;
    for (unsigned i = 0; i < 3; i++) { /* Never fewer than before, nor more than there may be. */
        assert_non_null(make(i ? 7 : 2));
        job->started = job->begun = i == 2 ? ZC_CREW_MAX : 2;
        crew_learn(job);
        assert_int_equal(crew.late, 0);
        free(job);
    }
}

static void one_job_in_sixteen_tries_a_thread_where_none_came(void **state)
{
    unsigned tried = 0;
    (void)state;
    crew.late = ZC_CREW_MAX;
    for (unsigned i = 1; i <= 48; i++) {
        unsigned n = starts(4, 0);
        assert_int_equal(n, i % 16 == 0);
        tried += n;
    }
    assert_int_equal(tried, 3);
    assert_int_equal(starts(0, 0), 0);
}

static void a_thread_that_does_not_start_is_not_waited_for(void **state)
{
    (void)state;
    assert_non_null(make(5));
    assert_true(zc_crew_grow(job));
    has.no_thread = true;
    assert_false(zc_crew_grow(job));
    assert_true(job->started == 1 && job->wanted == 1 && job->due == 0 && job->members == 2);
    job->begun = 1;
    has.no_thread = false;
    assert_false(zc_crew_grow(job));
    free(job);
}

/* A thread does pieces until the job is over, and yields where it finds none. */
static void threads_have_numbers_and_the_last_one_gives_the_memory_back(void **state)
{
    (void)state;
    assert_non_null(make(2));
    assert_true(zc_crew_grow(job) && zc_crew_grow(job));
    assert_int_equal(job->members, 3);
    has.main(job);
    assert_true(has.who == 1 && job->busy == 0 && job->members == 2 && has.gone == 0);
    assert_true(has.pieces == 4 && has.yields == 2);
    has.yields = 0;
    has.main(job); /* It is over. */
    assert_true(job->begun == 2 && has.pieces == 4 && job->members == 1 && job->busy == 0);
    job->over = false;
    job->members = 2;
    has.main(job);
    assert_true(has.who == 3 && has.pieces == 8 && job->members == 1);
    has.yields = 0;
    job->busy = 1;
    zc_crew_wait(job);
    assert_true(has.yields == 3 && has.gone == 0);
    zc_crew_put(job);
    assert_int_equal(has.gone, 1);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(processors_are_those_of_the_set_and_no_more_than_the_quota),
        TEST(a_job_starts_what_it_wants_beside_its_caller),
        TEST(threads_that_come_late_are_not_started_again),
        TEST(a_job_whose_threads_all_came_starts_more),
        TEST(one_job_in_sixteen_tries_a_thread_where_none_came),
        TEST(a_thread_that_does_not_start_is_not_waited_for),
        TEST(threads_have_numbers_and_the_last_one_gives_the_memory_back),
    };
    return RUN_TESTS(tests);
}
