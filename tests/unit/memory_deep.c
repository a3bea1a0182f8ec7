/* SPDX-License-Identifier: MIT */
/* What copies have left in the pages of a block: the edges of pages and pieces, and that random
 * copies keep the sums that follow from the bytes. */
#include "memory/deep_pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB ((uint64_t)1 << 10)
#define PAGE ZC_DEEP_PAGE
#define HOST ((uint64_t)1 << 40)

static struct zc_deep_pair sums;

static struct zc_deep_carried copy(struct zc_deep_block *b, uint64_t at, uint32_t bytes,
                                   uint64_t hash, bool in)
{
    struct zc_deep_carried c = {.pair = &sums};
    if (in) {
        zc_deep_sent(b, at, bytes, hash, &c);
    } else {
        struct zc_deep_before before = zc_deep_called(b, at, bytes, HOST);
        zc_deep_came(b, at, bytes, hash, HOST, &before, &c);
    }
    return c;
}

static uint64_t unused(void)
{
    return sums.bytes[ZC_DEEP_UNUSED];
}

static int fresh(void **state)
{
    (void)state;
    memset(&sums, 0, sizeof(sums));
    return 0;
}

/* A block of two pages and a byte: each byte is in one page, and the last one is no grain. */
static void untouched_bytes_are_counted_to_the_block_s_end(void **state)
{
    struct zc_deep_block b = {.bytes = 2 * PAGE + 1}, none = b;
    (void)state;
    copy(&b, PAGE - 1, 1, 1, true);
    zc_deep_range(&b, 2 * PAGE, 100, true, false); /* Beyond the end there is nothing. */
    assert_int_equal(zc_deep_end(&b, false), 2 * PAGE - 32 * KIB);
    assert_int_equal(zc_deep_end(&none, false), 2 * PAGE + 1);
    b = none;
    assert_int_equal(zc_deep_end(&b, true), 0);
    assert_int_equal(unused(), 1);
    b = none;
    zc_deep_range(&b, 3 * PAGE, 1, true, false);
    zc_deep_range(&b, 0, 3 * PAGE, false, false); /* A range may span all pages. */
    assert_int_equal(zc_deep_end(&b, false), 0);
}

static void bytes_that_are_overwritten_in_part_are_of_no_use_in_that_part(void **state)
{
    struct zc_deep_block b = {.bytes = PAGE};
    (void)state;
    copy(&b, 0, 1000, 1, true);
    copy(&b, 999, 2, 2, true);
    assert_int_equal(unused(), 1);
    zc_deep_range(&b, 0, PAGE, true, true); /* Rows of it: what they are is not known. */
    assert_int_equal(unused(), 1);
    copy(&b, 0, 10, 3, true);
    zc_deep_range(&b, 5, 1, false, false); /* Read. */
    zc_deep_end(&b, false);
    assert_int_equal(unused(), 1);
}

static void a_launch_between_makes_bytes_used_and_duplicates_doubtful(void **state)
{
    struct zc_deep_block b = {.bytes = PAGE};
    (void)state;
    copy(&b, 0, 10, 1, true);
    assert_int_equal(copy(&b, 0, 10, 1, true).bytes[ZC_DEEP_DUPLICATE], 10);
    b.age++;
    struct zc_deep_carried c = copy(&b, 0, 10, 1, true);
    assert_int_equal(c.bytes[ZC_DEEP_DUPLICATE], 10);
    assert_int_equal(c.bytes[ZC_DEEP_RELAUNCHED], 10);
    /* What a kernel made, and the host sends again, is a duplicate until the next launch. */
    assert_int_equal(copy(&b, 0, 10, 2, false).bytes[ZC_DEEP_CHANGED], 10);
    assert_int_equal(copy(&b, 0, 10, 2, false).bytes[ZC_DEEP_DUPLICATE], 10);
    b.age++;
    assert_int_equal(copy(&b, 0, 10, 2, true).bytes[ZC_DEEP_DUPLICATE], 0);
    assert_int_equal(copy(&b, 0, 10, 2, false).bytes[ZC_DEEP_ROUND_TRIP], 10);
    zc_deep_end(&b, false);
    assert_int_equal(unused(), 0);
}

/* Copies to the host may come when others have been called since: they are compared with what was
 * known at their own call, and what the later ones tell stays. */
static void copies_that_come_late_tell_of_the_time_of_their_call(void **state)
{
    struct zc_deep_block b = {.bytes = PAGE};
    struct zc_deep_carried c = {.pair = &sums};
    (void)state;
    copy(&b, 0, 10, 1, true);
    struct zc_deep_before first = zc_deep_called(&b, 0, 10, HOST);
    struct zc_deep_before second = zc_deep_called(&b, 0, 10, HOST + 1);
    copy(&b, 0, 10, 2, true);
    zc_deep_came(&b, 0, 10, 1, HOST, &first, &c);
    zc_deep_came(&b, 0, 10, 3, HOST + 1, &second, &c);
    assert_int_equal(c.bytes[ZC_DEEP_ROUND_TRIP], 10);
    assert_int_equal(c.bytes[ZC_DEEP_CHANGED], 10);
    assert_int_equal(copy(&b, 0, 10, 2, true).bytes[ZC_DEEP_DUPLICATE], 10);
    /* Of bytes that no copy brought nothing is known until the first of them has come. */
    first = zc_deep_called(&b, 20, 10, HOST);
    second = zc_deep_called(&b, 20, 10, HOST);
    zc_deep_came(&b, 20, 10, 5, HOST, &first, &c);
    zc_deep_came(&b, 20, 10, 5, HOST, &second, &c);
    assert_int_equal(c.bytes[ZC_DEEP_CHANGED], 10);
    assert_int_equal(copy(&b, 20, 10, 5, false).bytes[ZC_DEEP_DUPLICATE], 10);
    /* Of a block that has ended they tell all the same. */
    first = zc_deep_called(&b, 0, 10, HOST);
    zc_deep_end(&b, true);
    zc_deep_came(NULL, 0, 10, 2, HOST, &first, &c);
    assert_int_equal(c.bytes[ZC_DEEP_ROUND_TRIP], 20);
}

/* Copies of whole units of 4 KiB: with few of them in a page all is remembered, so that what is a
 * duplicate, and what nothing used, follow from a table of the units. */
static void random_copies_keep_the_sums(void **state)
{
    enum { UNITS = 16 };
    struct zc_deep_block b = {.bytes = UNITS * 4 * KIB};
    uint64_t held[UNITS] = {0}, duplicates = 0, wanted = 0, lost = 0;
    bool used[UNITS];
    unsigned short seed[3] = {1, 2, 3};
    (void)state;
    memset(used, true, sizeof(used));
    for (int step = 0; step < 20000; step++) {
        unsigned i = (unsigned)nrand48(seed) % UNITS, what = (unsigned)nrand48(seed) % 8;
        uint64_t hash = 1 + (uint64_t)nrand48(seed) % 3;
        if (what == 0) {
            zc_deep_range(&b, i * 4 * KIB, 4 * KIB, false, false);
            used[i] = true;
        } else if (what == 1) {
            zc_deep_range(&b, i * 4 * KIB, 4 * KIB, true, false);
            lost += used[i] ? 0 : 4 * KIB;
            held[i] = 0;
            used[i] = true;
        } else {
            duplicates += copy(&b, i * 4 * KIB, 4 * KIB, hash, true).bytes[ZC_DEEP_DUPLICATE];
            wanted += held[i] == hash ? 4 * KIB : 0;
            lost += held[i] != hash && !used[i] ? 4 * KIB : 0;
            used[i] = held[i] == hash ? used[i] : false;
            held[i] = hash;
        }
        assert_int_equal(duplicates, wanted);
        assert_int_equal(unused(), lost);
    }
    for (unsigned i = 0; i < UNITS; i++)
        lost += used[i] ? 0 : 4 * KIB;
    zc_deep_end(&b, false);
    assert_int_equal(unused(), lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(untouched_bytes_are_counted_to_the_block_s_end, fresh),
        cmocka_unit_test_setup(bytes_that_are_overwritten_in_part_are_of_no_use_in_that_part,
                               fresh),
        cmocka_unit_test_setup(a_launch_between_makes_bytes_used_and_duplicates_doubtful, fresh),
        cmocka_unit_test_setup(copies_that_come_late_tell_of_the_time_of_their_call, fresh),
        cmocka_unit_test_setup(random_copies_keep_the_sums, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
