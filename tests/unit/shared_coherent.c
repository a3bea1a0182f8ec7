/* SPDX-License-Identifier: MIT */
/* A copy between a host block and a device block on the same pages moves their differences, which
 * the kernel knows. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/memory.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "memory/workers.h"
#include "shared/coherence.h"

#define PAGE ((uintptr_t)4096)
#define HOST ((uintptr_t)0x100000000)
#define DEVICE ((uintptr_t)0x900000000)
enum { PAGES = 64 };

static struct {
    bool apart[PAGES]; /* Pages of the host block's own. */
    bool not_shareable, not_private;
    size_t made_private, span;
    unsigned copies, asked;
    uintptr_t to[PAGES], from[PAGES];
    size_t bytes[PAGES];
} has;

static void fake_each(uintptr_t from, uintptr_t to,
                      void (*visit)(uintptr_t from, uintptr_t to, void *arg), void *arg)
{
    assert_true(from % PAGE == 0 && to % PAGE == 0 && from >= HOST && from < to);
    size_t end = (to - HOST) / PAGE;
    assert_true(end <= PAGES);
    has.asked++;
    for (size_t i = (from - HOST) / PAGE; i < end; i++) {
        size_t first = i;
        while (i < end && has.apart[i])
            i++;
        if (i > first)
            visit(HOST + first * PAGE, HOST + i * PAGE, arg);
    }
}

static void fake_copy(void *to, const void *from, size_t bytes)
{
    if (!bytes)
        return;
    assert_true(has.copies < PAGES);
    has.to[has.copies] = (uintptr_t)to;
    has.from[has.copies] = (uintptr_t)from;
    has.bytes[has.copies++] = bytes;
}

static bool fake_private(struct zc_extent *e, size_t bytes)
{
    assert_non_null(e);
    has.made_private = bytes;
    return !has.not_private;
}

#define zc_extent_base(e) ((void)(e), HOST)
#define zc_extent_span(e) ((void)(e), has.span)
#define zc_pagemap_each fake_each
#define zc_workers_copy fake_copy
#define zc_memfile_make_private fake_private
#define zc_memfile_shareable(e) ((void)(e), !has.not_shareable)
#include "../../shim/shared/coherence.c"

static struct zc_extent extent;
static struct zc_moved moved;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&extent, 0, sizeof(extent));
    return 0;
}

static bool copy(uint64_t low, uint64_t high, bool in)
{
    has.copies = 0;
    return zc_coherent_copy(&extent, DEVICE, low, high, in, &moved);
}

/* The copy is of [low, high), in bytes from both sides' beginnings. */
static void assert_copied(unsigned i, uint64_t low, uint64_t high, bool in)
{
    assert_true(i < has.copies);
    assert_int_equal(has.to[i], (in ? DEVICE : HOST) + low);
    assert_int_equal(has.from[i], (in ? HOST : DEVICE) + low);
    assert_int_equal(has.bytes[i], high - low);
}

static void nothing_moves_between_pages_that_are_the_same(void **state)
{
    (void)state;
    assert_true(copy(100, 3 * PAGE, true));
    assert_int_equal(has.made_private, 3 * PAGE);
    assert_true(copy(100, 3 * PAGE, false));
    assert_int_equal(has.copies, 0);
    assert_int_equal(moved.elided, 3 * PAGE - 100);
    assert_int_equal(moved.copied, 0);
    assert_int_equal(extent.elided, 2 * (3 * PAGE - 100));
    assert_int_equal(extent.cpu_copied, 0);
}

static void pages_of_its_own_are_copied_either_way_and_no_byte_beside(void **state)
{
    (void)state;
    has.apart[1] = true;
    for (unsigned in = 0; in < 2; in++) {
        assert_true(copy(0, 4 * PAGE, in));
        assert_int_equal(has.copies, 1);
        assert_copied(0, PAGE, 2 * PAGE, in);
        assert_int_equal(moved.copied, PAGE);
        assert_int_equal(moved.elided, 3 * PAGE);
        assert_true(copy(PAGE + 10, 2 * PAGE - 10, in));
        assert_copied(0, PAGE + 10, 2 * PAGE - 10, in);
        assert_true(copy(PAGE - 10, PAGE + 10, in));
        assert_copied(0, PAGE, PAGE + 10, in);
        assert_int_equal(moved.elided, 10);
        assert_true(copy(2 * PAGE - 10, 2 * PAGE + 5, in));
        assert_copied(0, 2 * PAGE - 10, 2 * PAGE, in);
    }
    assert_int_equal(extent.cpu_copied, 2 * (PAGE + PAGE - 20 + 10 + 10));
    assert_int_equal(extent.elided, 2 * (3 * PAGE + 10 + 5));
}

/* Both sides show the pages between them: writing the host block's would part them. */
static void near_pages_go_in_one_copy_to_the_device_and_apart_to_the_host(void **state)
{
    (void)state;
    has.apart[1] = has.apart[10] = has.apart[20] = true; /* 8 pages between, and 9. */
    assert_true(copy(0, 30 * PAGE, true));
    assert_int_equal(has.copies, 2);
    assert_copied(0, PAGE, 11 * PAGE, true);
    assert_copied(1, 20 * PAGE, 21 * PAGE, true);
    assert_int_equal(moved.copied, 11 * PAGE);
    assert_true(copy(0, 30 * PAGE, false));
    assert_int_equal(has.copies, 3);
    assert_copied(0, PAGE, 2 * PAGE, false);
    assert_copied(1, 10 * PAGE, 11 * PAGE, false);
    assert_copied(2, 20 * PAGE, 21 * PAGE, false);
    assert_int_equal(moved.copied, 3 * PAGE);
    assert_int_equal(moved.elided, 27 * PAGE);
}

static void nothing_is_written_to_pages_that_a_child_shows(void **state)
{
    (void)state;
    has.not_shareable = true;
    assert_true(copy(0, 4 * PAGE, true)); /* Nothing differs. */
    has.apart[1] = has.apart[20] = true;
    assert_false(copy(0, 30 * PAGE, true));
    assert_int_equal(has.copies, 0);
    assert_int_equal(moved.copied, 0);
    assert_true(copy(0, 30 * PAGE, false)); /* The host block's own pages may be written. */
    assert_int_equal(has.copies, 2);
}

static void without_a_private_view_there_is_no_copy_to_the_device(void **state)
{
    (void)state;
    has.not_private = true;
    assert_false(copy(0, PAGE, true));
    assert_int_equal(has.asked, 0);
    assert_true(copy(0, PAGE, false));
    assert_int_equal(has.asked, 1);
}

static void sides_differ_where_the_host_block_has_pages_of_its_own(void **state)
{
    (void)state;
    has.apart[2] = true;
    assert_false(zc_coherent_differs(&extent, 0, 2 * PAGE));
    assert_true(zc_coherent_differs(&extent, 0, 2 * PAGE + 1));
    assert_true(zc_coherent_differs(&extent, 3 * PAGE - 1, 5 * PAGE));
    assert_false(zc_coherent_differs(&extent, 3 * PAGE, 5 * PAGE));
}

/* One that was only elided never loses; one that was only copied has lost as much as the change
 * costs once five times what it copied is more than its size twice and 32 MiB. */
static void one_memory_pays_until_more_was_lost_than_a_change_costs(void **state)
{
    const uint64_t MIB = 1 << 20;
    (void)state;
    has.span = 64 * MIB;
    extent.elided = 1000 * MIB;
    assert_false(zc_coherent_unprofitable(&extent));
    extent.elided = 0;
    extent.cpu_copied = 32 * MIB;
    assert_false(zc_coherent_unprofitable(&extent));
    extent.cpu_copied++;
    assert_true(zc_coherent_unprofitable(&extent));
    extent.elided = 6;
    assert_false(zc_coherent_unprofitable(&extent));
    has.span -= PAGE;
    assert_true(zc_coherent_unprofitable(&extent));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_moves_between_pages_that_are_the_same, anew),
        cmocka_unit_test_setup(pages_of_its_own_are_copied_either_way_and_no_byte_beside, anew),
        cmocka_unit_test_setup(near_pages_go_in_one_copy_to_the_device_and_apart_to_the_host, anew),
        cmocka_unit_test_setup(nothing_is_written_to_pages_that_a_child_shows, anew),
        cmocka_unit_test_setup(without_a_private_view_there_is_no_copy_to_the_device, anew),
        cmocka_unit_test_setup(sides_differ_where_the_host_block_has_pages_of_its_own, anew),
        cmocka_unit_test_setup(one_memory_pays_until_more_was_lost_than_a_change_costs, anew)};
    return RUN_TESTS(tests);
}
