/* SPDX-License-Identifier: MIT */
/* Steps of a fill or a split job: which the caller takes, when the caller waits, and what the
 * kernel is asked; no thread runs but the test's own. */
#include "base_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/wait.h"
#include "memory/crew.h"
#include "memory/workers.h"

#define MIB ((size_t)1 << 20)
#define HUGE (2 * MIB)

static struct {
    char trace[2000];
    bool no_crew, no_policy; /* The kernel has none. */
    int policy;              /* Of the thread. */
    unsigned grows;          /* Threads that may start. */
    size_t wanted;
    size_t *held; /* The place of another thread's step. */
    unsigned waits, puts, ends, overs, steps, fails_advice;
    int advice_error;
    unsigned advices;
} has;

static void say(const char *what, size_t a, size_t b)
{
    size_t n = strlen(has.trace);
    snprintf(has.trace + n, sizeof(has.trace) - n, "%s %zu+%zu ", what, a, b);
}

static void *fake_make(size_t bytes, zc_crew_piece *piece, size_t wanted)
{
    has.wanted = wanted;
    struct zc_crew *crew = has.no_crew ? NULL : calloc(1, bytes);
    if (crew)
        crew->piece = piece;
    return crew;
}

static bool fake_grow(struct zc_crew *crew)
{
    crew->due = has.grows > 1;
    return has.grows && has.grows--;
}

static void fake_over(struct zc_crew *crew)
{
    crew->over = true;
    has.overs++;
}

/* Another thread ends its step meanwhile. */
static void fake_wait(uint32_t *news, uint32_t before)
{
    assert_int_equal(*news, before);
    assert_non_null(has.held);
    has.waits++;
    *has.held = SIZE_MAX;
    ++*news;
}

static void fake_put(struct zc_crew *crew)
{
    has.puts++;
    free(crew);
}

static int fake_advise(void *at, size_t n, int advice)
{
    const char *what = advice == MADV_COLLAPSE         ? "collapse"
                       : advice == MADV_POPULATE_WRITE ? "write"
                                                       : "read";
    say(what, (uintptr_t)at / 4096 % 4096, n / 4096);
    has.advices++;
    errno = has.advice_error;
    return has.advices == has.fails_advice ? -1 : 0;
}

static long fake_get(long number, int *policy)
{
    assert_int_equal(number, SYS_get_mempolicy);
    *policy = has.policy;
    errno = ENOSYS;
    return has.no_policy ? -1 : 0;
}

static void fake_set(long number, int policy, const unsigned long *mask, unsigned long bits)
{
    assert_int_equal(number, SYS_set_mempolicy);
    assert_true(policy == (mask ? 1 : 0) && bits == (mask ? 65 : 0));
    say("node", mask ? (size_t)__builtin_ctzl(*mask) + 1 : 0, 0);
}

#define zc_crew_make fake_make
#define zc_crew_grow fake_grow
#define zc_crew_over fake_over
#define zc_crew_wait(crew) ((void)(crew), has.ends++)
#define zc_crew_put fake_put
#define FIRST_OF(a, b, c, d, e, f, chosen, ...) chosen
#define GET(number, out, b, c, d, e) fake_get(number, out)
#define SET(number, policy, mask, bits) fake_set(number, policy, mask, bits)
#define syscall(...) FIRST_OF(__VA_ARGS__, GET, , SET, , , )(__VA_ARGS__)
#define zc_memory_advise fake_advise
#define zc_wait fake_wait
#define zc_wait_step(word) (++*(word), has.steps++)
#include "../../shim/memory/workers.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    return 0;
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    has.trace[0] = 0;
}

static void part(void *task, size_t at, size_t n)
{
    assert_ptr_equal(task, &has);
    say("part", at, n);
}

static void a_task_is_split_by_what_is_worth_a_thread(void **state)
{
    static const struct {
        size_t n, worth, unit, wanted;
        const char *parts;
    } rows[] = {
        {0, 10, 1, 0, "part 0+0 "},
        {19, 10, 1, 0, "part 0+19 "},
        {20, 10, 1, 1,
         "part 0+2 part 2+2 part 4+2 part 6+2 part 8+2 part 10+2 part 12+2 part 14+2 part 16+2 "
         "part 18+2 "},
        {16, 8, 1, 1,
         "part 0+2 part 2+2 part 4+2 part 6+2 part 8+2 part 10+2 part 12+2 "
         "part 14+2 "},
        {40, 10, 16, 3, "part 0+16 part 16+16 part 32+8 "},
        {48, 24, 4, 1, "part 0+8 part 8+8 part 16+8 part 24+8 part 32+8 part 40+8 "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        zc_workers_split(part, &has, rows[i].n, rows[i].worth, rows[i].unit);
        expect(rows[i].parts);
        assert_int_equal(has.wanted, rows[i].wanted);
        assert_int_equal(has.puts, rows[i].wanted > 0);
        assert_int_equal(has.ends, has.puts);
        assert_int_equal(has.overs, has.puts);
    }
    anew(NULL);
    has.no_crew = true;
    zc_workers_split(part, &has, 20, 10, 1);
    expect("part 0+20 ");
    assert_int_equal(has.puts, 0);
    anew(NULL);
    has.grows = 3; /* Threads are started before each piece of the caller's. */
    zc_workers_split(part, &has, 20, 10, 8);
    expect("part 0+8 part 8+8 part 16+4 ");
    assert_int_equal(has.grows, 0);
}

static struct zc_fill *fill(size_t n, int node)
{
    struct zc_fill *f = zc_workers_fill((void *)HUGE, n, ZC_FILL_USED, node);
    return f;
}

static void steps_are_whole_huge_pages_up_to_a_most(void **state)
{
    static const struct {
        size_t n, step, wanted;
    } rows[] = {{1, 2, 0},
                {4, 2, 2},
                {17 * 2 * 2 - 1, 2, 33},
                {17 * 2 * 4, 4, 34},
                {17 * 2 * 4 - 1, 2, 67},
                {17 * 2 * 16, 16, 34},
                {17 * 2 * 18, 16, 38},
                {17 * 2 * 14, 14, 34}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_fill *f = fill(rows[i].n * MIB, -1);
        assert_true(f && f->step == rows[i].step * MIB && f->n == rows[i].n * MIB);
        assert_int_equal(has.wanted, rows[i].wanted);
        assert_true(f->node == -1 && f->next == 0 && f->at[0] == SIZE_MAX);
        assert_int_equal(f->at[ZC_CREW_MAX], SIZE_MAX);
        zc_workers_end_fill(f);
    }
    expect("");
}

static void threads_start_while_they_are_due(void **state)
{
    (void)state;
    has.grows = 5;
    struct zc_fill *f = fill(40 * MIB, 3);
    assert_true(has.grows == 0 && f->node == 3);
    zc_workers_end_fill(f);
    for (int i = 0; i < 2; i++) {
        has.policy = i == 0; /* The thread has chosen its nodes itself. */
        has.no_policy = i == 1;
        errno = 17;
        f = fill(40 * MIB, 3);
        assert_true(f->node == -1 && errno == 17);
        zc_workers_end_fill(f);
    }
    zc_workers_end_fill(NULL);
    zc_workers_filled(NULL, 5);
    assert_int_equal(has.puts, 3);
}

static void pages_come_from_the_node_that_was_asked_for(void **state)
{
    (void)state;
    has.no_crew = true;
    assert_null(fill(HUGE, 0));
    expect("node 1+0 write 512+512 node 0+0 ");
    assert_null(fill(HUGE, 63));
    expect("node 64+0 write 512+512 node 0+0 ");
    for (int node = -1; node <= 64; node += 65) {
        assert_null(fill(HUGE, node));
        expect("write 512+512 ");
    }
}

static void the_caller_helps_until_its_bytes_are_there(void **state)
{
    (void)state;
    struct zc_fill *f = fill(7 * MIB, -1);
    zc_workers_filled(f, 0);
    expect("");
    zc_workers_filled(f, 1);
    expect("write 512+512 ");
    zc_workers_filled(f, HUGE);
    expect("");
    zc_workers_filled(f, HUGE + 1);
    expect("write 1024+512 ");
    has.grows = 1; /* A thread is started first. */
    zc_workers_filled(f, 7 * MIB);
    expect("write 1536+512 write 2048+256 ");
    assert_true(has.grows == 0 && has.waits == 0 && has.overs == 0 && has.steps == 4);
    assert_true(f->at[0] == SIZE_MAX && f->news == 4);
    assert_false(fill_step(&f->crew, 1));
    assert_true(has.overs == 1 && f->at[1] == SIZE_MAX && f->news == 5);
    expect("");
    zc_workers_end_fill(f);
}

static void the_caller_waits_only_for_steps_that_others_are_in(void **state)
{
    (void)state;
    struct zc_fill *f = fill(4 * MIB, -1);
    f->next = HUGE; /* The first step is another's. */
    f->at[1] = 0;
    has.held = &f->at[1];
    zc_workers_filled(f, HUGE);
    expect("");
    assert_true(has.waits == 1 && has.overs == 0);
    f->at[1] = 0;
    zc_workers_filled(f, 4 * MIB);
    expect("write 1024+512 ");
    assert_int_equal(has.waits, 2);
    zc_workers_end_fill(f);
}

/* A step that another has begun is not there. */
static void the_least_step_that_somebody_is_in_counts(void **state)
{
    (void)state;
    struct zc_fill *f = fill(20 * MIB, -1);
    f->next = 10 * MIB;
    assert_int_equal(fill_done(f), 10 * MIB);
    f->at[ZC_CREW_MAX] = 4 * MIB;
    f->at[1] = 6 * MIB;
    assert_int_equal(fill_done(f), 4 * MIB);
    f->at[0] = 2 * MIB;
    assert_int_equal(fill_done(f), 2 * MIB);
    zc_workers_end_fill(f);
}

static void a_kernel_that_populates_nothing_is_asked_once(void **state)
{
    (void)state;
    has.fails_advice = 1;
    has.advice_error = EINVAL;
    populate_used((void *)HUGE, 0, 6 * MIB);
    expect("write 512+512 ");
    has.advices = 0;
    has.advice_error = ENOMEM; /* A hole; the rest may be there. */
    populate_used((void *)HUGE, HUGE, 3 * MIB);
    expect("write 1024+512 write 1536+256 ");
}

static void memory_of_a_file_is_touched_where_no_huge_page_comes(void **state)
{
    (void)state;
    size_t n = 8 * MIB, pages = n / 4096;
    unsigned char *p =
        mmap(NULL, n + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    unsigned char *m = p + (HUGE - (uintptr_t)p % HUGE) % HUGE;
    memset(m, 1, n);
    has.fails_advice = 2;
    collapse(m, HUGE, 5 * MIB);
    char want[200];
    size_t first = (uintptr_t)m / 4096;
    snprintf(want, sizeof(want), "collapse %zu+512 collapse %zu+512 collapse %zu+512 ",
             (first + 512) % 4096, (first + 1024) % 4096, (first + 1536) % 4096);
    expect(want);
    for (size_t i = 0; i < pages; i++) { /* Those of the second one, and the first of each. */
        bool touched = (i >= 1024 && i < 1536) || i == 512 || i == 1536;
        assert_int_equal(m[i * 4096], !touched);
        assert_int_equal(m[i * 4096 + 1], 1);
    }
    memset(m, 1, n);
    has.advices = 0;
    has.fails_advice = 2;
    collapse(m, 0, 3 * MIB); /* The last one is shorter. */
    for (size_t i = 0; i < pages; i++)
        assert_int_equal(m[i * 4096], !(i == 0 || (i >= 512 && i < 768)));
    has.trace[0] = 0;
    collapse(m, 0, HUGE);
    snprintf(want, sizeof(want), "collapse %zu+512 ", first % 4096);
    expect(want);
    munmap(p, n + HUGE);
}

static void memory_is_prefaulted_by_its_kind_and_all_of_it_is_there_then(void **state)
{
    (void)state;
    static char fresh[3 * 4096];
    memset(fresh, 1, sizeof(fresh));
    zc_workers_prefault(fresh, sizeof(fresh), false, -1);
    assert_true(fresh[0] == 0 && fresh[4096] == 0 && fresh[8192] == 0 && fresh[1] == 1);
    assert_true(has.puts == 1 && has.ends == 1 && has.advices == 0);
    zc_workers_prefault(fresh, sizeof(fresh), true, -1);
    assert_true(has.puts == 2 && has.advices == 1);
}

static void pages_are_reached_whole(void **state)
{
    (void)state;
    assert_true(zc_workers_reach((char *)HUGE + 5, 4096, false));
    expect("read 512+2 ");
    assert_true(zc_workers_reach((char *)HUGE, 4096, true));
    expect("write 512+1 ");
    has.fails_advice = 3;
    assert_false(zc_workers_reach((char *)HUGE, 1, true));
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_is_split_by_what_is_worth_a_thread),
        TEST(steps_are_whole_huge_pages_up_to_a_most),
        TEST(threads_start_while_they_are_due),
        TEST(pages_come_from_the_node_that_was_asked_for),
        TEST(the_caller_helps_until_its_bytes_are_there),
        TEST(the_caller_waits_only_for_steps_that_others_are_in),
        TEST(the_least_step_that_somebody_is_in_counts),
        TEST(a_kernel_that_populates_nothing_is_asked_once),
        TEST(memory_of_a_file_is_touched_where_no_huge_page_comes),
        TEST(memory_is_prefaulted_by_its_kind_and_all_of_it_is_there_then),
        TEST(pages_are_reached_whole),
    };
    return RUN_TESTS(tests);
}
