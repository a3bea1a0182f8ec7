/* SPDX-License-Identifier: MIT */
/* Which blocks of `shared` get memory of their own for the kernels that use them, and when. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/life.h"
#include "driver/capture.h"
#include "ledger/site.h"
#include "memory/regret.h"
#include "shared/backing.h"
#include "shared/heat.h"

enum { PAIRS = 12 };
#define SIZE 6400 /* Bytes of each device block: 100 threads read all of it. */

static struct zc_shared pairs[PAIRS];
static struct zc_block blocks[PAIRS];

/* The neighbours. */
static struct {
    unsigned words[PAIRS + 4], count;  /* The blocks that a launch names; PAIRS: no block. */
    bool full, capture, closing, busy; /* `full`: the device has no memory. */
    CUresult decided;
    unsigned demoted, collected, waits, timed;
    struct zc_shared *last_demoted;
    const char *why;
    uint64_t cost;
    zc_timed_fn told;
    char noted[ZC_REGRET_NOTED];
    zc_launch_fn party;
    unsigned calls, watched;
    uint32_t ones_after; /* Blocks that another thread made ONE while the watch ended. */
} has;

static struct zc_block *fake_find(uint64_t word)
{
    return word < PAIRS ? &blocks[word] : NULL;
}

static struct zc_shared *fake_of(const struct zc_block *block)
{
    return block ? &pairs[block - blocks] : NULL;
}

static bool fake_demote(struct zc_shared *p, const char *why)
{
    has.last_demoted = p;
    has.why = why;
    if (has.full)
        return false;
    has.demoted++;
    p->one = false;
    return true;
}

static bool fake_words(const struct zc_launch *launch, void (*word)(uint64_t word, void *arg),
                       void *arg)
{
    assert_non_null(launch);
    for (unsigned i = 0; i < has.count; i++)
        word(has.words[i], arg);
    return true;
}

static void fake_call(enum zc_launch_party party, zc_launch_fn fn)
{
    assert_int_equal(party, ZC_LAUNCH_SHARED);
    has.calls++;
    has.party = fn;
    if (!fn)
        zc_shared_ones = has.ones_after;
}

static bool fake_owes(uint64_t *owed, uint64_t lost, uint64_t bytes)
{
    assert_int_equal(bytes, SIZE);
    *owed += lost;
    if (*owed <= has.cost)
        return false;
    *owed = 0;
    return true;
}

static bool fake_time(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                      size_t bytes)
{
    assert_true(launch && bytes <= ZC_REGRET_NOTED);
    if (has.busy)
        return false;
    has.timed++;
    has.told = told;
    memcpy(has.noted, noted, bytes);
    return true;
}

static void fake_wait(bool (*unknown)(const void *arg), const void *arg, unsigned most_ms)
{
    assert_true(unknown(arg) && most_ms > 0);
    has.waits++;
}

static CUresult fake_decide(enum zc_fn fn, bool kernels)
{
    assert_true(fn == ZC_FN_cuLaunchKernel && kernels);
    return has.decided;
}

#define zc_block_find fake_find
#define zc_shared_of fake_of
#define zc_shared_demote fake_demote
#define zc_shared_decide_all fake_decide
#define zc_launch_words fake_words
#define zc_launch_call fake_call
#define zc_regret_owes fake_owes
#define zc_regret_time fake_time
#define zc_regret_wait fake_wait
#define zc_regret_collect() has.collected++
#define zc_life_closing() has.closing
#define zc_capture_any() has.capture
#define zc_site_id(site) (site)
#include "../../shim/shared/heat.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(pairs, 0, sizeof(pairs));
    memset(blocks, 0, sizeof(blocks));
    memset(hot, 0, sizeof(hot));
    has.cost = 1000;
    for (unsigned i = 0; i < PAIRS; i++) {
        blocks[i] = (struct zc_block){.id = i + 1, .size = SIZE, .site = (uint16_t)(i + 1)};
        zc_heat_new(&blocks[i]);
        pairs[i].one = true;
    }
    zc_shared_ones = PAIRS;
    zc_shared_undecided = 0;
    return 0;
}

/* A launch of so many threads that names the block alone, or what was said before. */
static void launch(unsigned block, uint64_t threads)
{
    struct zc_launch l = {.fn = ZC_FN_cuLaunchKernel, .threads = threads};
    if (block < PAIRS) {
        has.words[0] = block;
        has.count = 1;
    }
    assert_int_equal(heat_before_launch(&l), CUDA_SUCCESS);
}

/* The launch that was timed last has ended. */
static void took(uint64_t microseconds)
{
    has.told(has.noted, microseconds);
}

static void a_kernel_with_threads_for_all_of_a_block_gets_it_before_it_begins(void **state)
{
    (void)state;
    launch(3, 99);
    assert_int_equal(has.demoted, 0);
    assert_int_equal(has.timed, 1);
    launch(3, 100);
    assert_int_equal(has.demoted, 1);
    assert_ptr_equal(has.last_demoted, &pairs[3]);
    assert_string_equal(has.why, "a kernel had threads enough to read all of it");
    assert_int_equal(has.timed, 1); /* It names no block any more that is ONE. */
    launch(3, 100);
    assert_int_equal(has.demoted, 1);
}

static void what_kernels_have_used_is_judged_by_their_times_alone(void **state)
{
    (void)state;
    launch(3, 1);
    took(400);
    launch(3, 100000);
    assert_int_equal(has.demoted, 0);
    assert_int_equal(has.timed, 2);
}

static void where_the_device_is_full_a_first_kernel_is_not_helped_again(void **state)
{
    (void)state;
    has.full = true;
    launch(3, 100);
    assert_ptr_equal(has.last_demoted, &pairs[3]);
    assert_int_equal(has.timed, 1);
    has.last_demoted = NULL;
    has.full = false;
    launch(3, 100);
    assert_null(has.last_demoted);
    assert_int_equal(has.timed, 2);
}

static void a_block_that_kernels_use_for_longer_than_its_move_takes_moves(void **state)
{
    (void)state;
    launch(3, 1);
    took(600);
    assert_int_equal(pairs[3].last, 601);
    launch(3, 1);
    assert_int_equal(has.demoted, 0);
    took(401);
    assert_int_equal(has.demoted, 1);
    assert_ptr_equal(has.last_demoted, &pairs[3]);
    assert_string_equal(has.why, "kernels used it for long");
    took(5000); /* It is not ONE any more. */
    assert_int_equal(pairs[3].last, 402);
}

static void launches_while_another_is_timed_count_as_long_as_the_last_one(void **state)
{
    (void)state;
    launch(3, 1);
    took(400);
    has.busy = true;
    launch(3, 1);
    launch(4, 1); /* Nothing is known of it. */
    assert_int_equal(pairs[4].used, 0);
    assert_int_equal(pairs[3].used, 800);
    launch(3, 1);
    assert_int_equal(has.demoted, 1);
    assert_ptr_equal(has.last_demoted, &pairs[3]);
    launch(5, 1);
    pairs[5].last = 1; /* A kernel that took no time. */
    launch(5, 1);
    assert_int_equal(pairs[5].used, 0);
    pairs[5].last = 2;
    launch(5, 1);
    assert_int_equal(pairs[5].used, 1);
}

static void the_second_launch_with_a_block_waits_for_the_time_of_the_first(void **state)
{
    (void)state;
    launch(3, 1);
    assert_int_equal(has.waits, 1); /* Which ends at once where none is timed. */
    launch(3, 1);
    assert_int_equal(has.waits, 2);
    took(5);
    launch(3, 1);
    assert_int_equal(has.waits, 2);
    has.words[0] = 4;
    has.words[1] = 5;
    has.count = 2;
    launch(PAIRS, 1); /* For each of its blocks. */
    assert_int_equal(has.waits, 4);
    took(7);
    has.busy = true;
    launch(PAIRS, 1);
    assert_int_equal(pairs[4].used, 14);
    assert_int_equal(pairs[5].used, 14);
}

static void each_block_of_a_launch_counts_once_and_of_many_the_first_eight(void **state)
{
    (void)state;
    static const unsigned words[] = {PAIRS, 0, 1, 0, 2, 3, 4, 5, 6, 1, 7, 8, 9};
    memcpy(has.words, words, sizeof(words));
    has.count = sizeof(words) / sizeof(words[0]);
    pairs[2].one = false;
    launch(PAIRS, 1);
    took(300);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(pairs[i].used, i == 2 || i == 9 ? 0 : 300);
}

/* The record of a freed block serves the next one. */
static void the_time_of_a_launch_counts_for_no_later_block(void **state)
{
    (void)state;
    launch(3, 1);
    pairs[3].names.device_block = 77;
    took(5000);
    assert_int_equal(has.demoted, 0);
    assert_int_equal(pairs[3].last, 0);
}

static void a_later_block_of_a_hot_site_has_its_own_memory(void **state)
{
    (void)state;
    launch(3, 100);
    launch(4, 1);
    took(1001);
    assert_int_equal(has.demoted, 2);
    memset(pairs, 0, sizeof(pairs));
    for (unsigned i = 0; i < PAIRS; i++) {
        zc_heat_new(&blocks[i]);
        assert_int_equal(pairs[i].stays_own, i == 3 || i == 4);
        assert_ptr_equal(pairs[i].block, &blocks[i]);
        assert_true(pairs[i].names.device_block == i + 1 && pairs[i].names.bytes == SIZE);
        assert_int_equal(pairs[i].names.device_site, i + 1);
        assert_true(!pairs[i].names.why == !pairs[i].stays_own);
    }
    blocks[5].site = 4 + 1024; /* In the place of the hot one. */
    zc_heat_new(&blocks[5]);
    assert_false(pairs[5].stays_own);
    blocks[6].site = 0;
    zc_heat_new(&blocks[6]);
    assert_false(pairs[6].stays_own);
}

static void a_full_device_makes_no_site_hot(void **state)
{
    (void)state;
    has.full = true;
    launch(3, 100);
    took(1001);
    assert_int_equal(pairs[3].used, 0); /* It is used as long again before the next try. */
    zc_heat_new(&blocks[3]);
    assert_false(pairs[3].stays_own);
}

static void nothing_is_counted_in_captures_and_at_the_end(void **state)
{
    (void)state;
    has.capture = true;
    launch(3, 1);
    has.capture = false;
    has.closing = true;
    launch(3, 1);
    has.closing = false;
    assert_int_equal(has.collected, 0);
    assert_int_equal(has.timed, 0);
    launch(3, 1);
    assert_int_equal(has.collected, 1);
    struct zc_launch l = {.fn = ZC_FN_cuLaunchKernel, .threads = 1};
    has.decided = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(heat_before_launch(&l), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(has.collected, 1);
}

static void launches_are_watched_while_a_block_is_one_or_undecided(void **state)
{
    (void)state;
    zc_heat_watch();
    assert_ptr_equal(has.party, heat_before_launch);
    launch(3, 1);
    assert_int_equal(has.calls, 1);
    zc_shared_ones = 0;
    zc_shared_undecided = 1;
    launch(3, 1);
    assert_int_equal(has.calls, 1);
    zc_shared_undecided = 0;
    launch(3, 1);
    assert_int_equal(has.calls, 2);
    assert_null(has.party);
    has.ones_after = 1;
    launch(3, 1);
    assert_ptr_equal(has.party, heat_before_launch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_kernel_with_threads_for_all_of_a_block_gets_it_before_it_begins,
                               anew),
        cmocka_unit_test_setup(what_kernels_have_used_is_judged_by_their_times_alone, anew),
        cmocka_unit_test_setup(where_the_device_is_full_a_first_kernel_is_not_helped_again, anew),
        cmocka_unit_test_setup(a_block_that_kernels_use_for_longer_than_its_move_takes_moves, anew),
        cmocka_unit_test_setup(launches_while_another_is_timed_count_as_long_as_the_last_one, anew),
        cmocka_unit_test_setup(the_second_launch_with_a_block_waits_for_the_time_of_the_first,
                               anew),
        cmocka_unit_test_setup(each_block_of_a_launch_counts_once_and_of_many_the_first_eight,
                               anew),
        cmocka_unit_test_setup(the_time_of_a_launch_counts_for_no_later_block, anew),
        cmocka_unit_test_setup(a_later_block_of_a_hot_site_has_its_own_memory, anew),
        cmocka_unit_test_setup(a_full_device_makes_no_site_hot, anew),
        cmocka_unit_test_setup(nothing_is_counted_in_captures_and_at_the_end, anew),
        cmocka_unit_test_setup(launches_are_watched_while_a_block_is_one_or_undecided, anew)};
    return RUN_TESTS(tests);
}
