/* SPDX-License-Identifier: MIT */
/* realloc(3) of large blocks by page tables: which blocks it refuses, what a block takes along, and
 * what is left where a step fails. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "trace_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "host/extent.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/limits.h"

#define UNIT ZC_HOST_UNIT
#define AT(units) (0x40000000 + (uintptr_t)(units)*UNIT)

/* The block, what is cut off, and other addresses; each call leaves its name. */
static struct zc_extent block, cut_off, other;
static struct {
    bool foreign, locked_out, no_stretch, no_back, no_cut, no_carve, no_move, torn, no_limit;
    bool pool;    /* Its memory is in the way of the limit. */
    size_t bytes; /* Of the heap. */
    int64_t taken;
    int locked;
    size_t touched_from, touched_to;
    uint32_t pin_while[2]; /* Of the block, and of other addresses, when pages change. */
} has;

static const char *name(const struct zc_extent *e)
{
    return e == &block ? "block" : e == &cut_off ? "tail" : e == &other ? "other" : "?";
}

static uintptr_t fake_base(const struct zc_extent *e)
{
    return e == &block ? AT(0) : e == &other ? AT(100) : AT(50);
}

static bool fake_lock(void)
{
    has.locked += !has.locked_out;
    return !has.locked_out;
}

static void fake_unlock(void)
{
    has.locked--;
}

static bool fake_take(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    assert_true(place == ZC_PLACE_PINNED && device == -1);
    *why = "over max_pinned";
    bool taken = !has.no_limit && !has.pool;
    has.taken += taken ? (int64_t)bytes : 0;
    return taken;
}

static void fake_tidy(bool all)
{
    assert_true(all);
    has.pool = false;
}

static void fake_give(enum zc_place_id place, int device, size_t bytes)
{
    assert_true(place == ZC_PLACE_PINNED && device == -1);
    has.taken -= (int64_t)bytes;
}

static struct zc_extent *fake_cut(struct zc_extent *e, uint32_t units)
{
    assert_true(e == &block && units < e->units);
    say("cut %u ", units);
    if (has.no_cut)
        return NULL;
    cut_off.units = e->units - units;
    e->units = units;
    return &cut_off;
}

static bool fake_stretch(struct zc_extent *e, uint32_t units)
{
    assert_true(e == &block && units > e->units && has.locked == 1);
    if (has.no_stretch)
        return false;
    say("stretch %u ", units);
    e->units = units;
    return true;
}

static bool fake_back(const struct zc_extent *e, uint32_t first)
{
    assert_int_equal(has.locked, 0);
    say("back %s %u ", name(e), first);
    return !has.no_back;
}

static void fake_unback(struct zc_extent *e)
{
    say("unback %s ", name(e));
}

static void fake_bury(struct zc_extent *e)
{
    assert_int_equal(has.locked, 0);
    say("bury %s ", name(e));
}

static void fake_bury_locked(struct zc_extent *e)
{
    assert_true(has.locked == 1 && e->use == ZC_EXTENT_NONE && e->pin == ZC_PIN_NONE);
    assert_int_equal(e->prefaulted, 0);
    say("bury-locked %s ", name(e));
}

static struct zc_extent *fake_carve(uint32_t units)
{
    say("carve %u ", units);
    other.units = units;
    return has.no_carve || has.locked_out ? NULL : &other;
}

static bool fake_move(struct zc_extent *from, const struct zc_extent *to, bool *intact)
{
    assert_true(from == &block && to == &other && *intact);
    assert_int_equal(from->pin, ZC_PIN_MAKING); /* Nobody registers it meanwhile. */
    say("move ");
    *intact = !has.torn;
    return !has.no_move;
}

static void fake_release(struct zc_extent *e, enum zc_extent_pin pin)
{
    assert_int_equal(e->pin, ZC_PIN_MAKING);
    e->pin = pin;
}

static struct zc_extent *fake_extent(uint64_t address)
{
    assert_true(address >= AT(0) && address < AT(10));
    return &block;
}

static bool fake_mine(const struct zc_extent *e)
{
    assert_ptr_equal(e, &block);
    return !has.foreign;
}

static void fake_prefault(const struct zc_extent *e, size_t from, size_t to)
{
    say("touch %s ", name(e));
    has.touched_from = from;
    has.touched_to = to;
}

/* Threads may touch half of it. */
static size_t fake_may_prefault(struct zc_extent *e, size_t bytes)
{
    assert_non_null(e);
    return bytes / 2;
}

#define zc_extent_base fake_base
#define zc_heap_lock fake_lock
#define zc_heap_unlock fake_unlock
#define zc_limits_take fake_take
#define zc_hostheap_tidy fake_tidy
#define zc_limits_give fake_give
#define zc_extent_cut fake_cut
#define zc_extent_stretch fake_stretch
#define zc_extent_back fake_back
#define zc_extent_unback fake_unback
#define zc_heap_bury fake_bury
#define zc_extent_bury fake_bury_locked
#define zc_heap_carve fake_carve
#define zc_extent_move fake_move
#define zc_pinned_release fake_release
#define zc_hostheap_extent fake_extent
#define zc_hostheap_mine fake_mine
#define zc_extent_prefault fake_prefault
#define zc_heap_may_prefault fake_may_prefault
#include "../../shim/host/resize.c"

static struct zc_slot *slot;

/* A block of two units and a half, which begins 128 bytes behind its extent's first. */
static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&block, 0, sizeof(block));
    memset(&cut_off, 0, sizeof(cut_off));
    memset(&other, 0, sizeof(other));
    trace[0] = '\0';
    zc_hostheap.bytes = 1000 * UNIT;
    block.use = ZC_EXTENT_BLOCK;
    block.units = 3;
    block.lead = 128;
    block.live = 1;
    block.era = 7;
    block.copied = 55;
    block.prefaulted = 66;
    block.small = block.inherited = true;
    block.slot[0] = (struct zc_slot){.size = UNIT * 5 / 2, .site = 9, .known = true};
    slot = NULL;
    return 0;
}

static uintptr_t resize(size_t size)
{
    trace[0] = '\0';
    slot = NULL;
    uintptr_t at = (uintptr_t)zc_hostheap_resize((void *)(AT(0) + 128), size, &slot);
    assert_int_equal(has.locked, 0);
    assert_int_equal(!!at, slot != NULL);
    return at;
}

static void assert_as_it_was(void)
{
    assert_true(block.units == 3 && block.use == ZC_EXTENT_BLOCK && block.live == 1);
    assert_true(block.pin == ZC_PIN_NONE && block.prefaulted == 66);
    assert_int_equal(has.taken, 0);
}

static void a_block_shrinks_and_gives_back_whole_units(void **state)
{
    (void)state;
    assert_int_equal(resize(2 * UNIT - 128), AT(0) + 128);
    assert_string_equal(trace, "cut 2 unback tail bury tail ");
    assert_int_equal(has.taken, -(int64_t)UNIT);
    assert_ptr_equal(slot, &block.slot[0]);
    assert_int_equal(block.pin, ZC_PIN_NONE);
    anew(NULL);
    has.no_cut = true;
    assert_int_equal(resize(UNIT), 0);
    assert_string_equal(trace, "cut 2 ");
    assert_as_it_was();
}

static void a_block_that_keeps_its_units_stays(void **state)
{
    (void)state;
    assert_int_equal(resize(3 * UNIT - 128), AT(0) + 128);
    assert_string_equal(trace, "");
    assert_as_it_was();
    assert_int_equal(resize(3 * UNIT - 127), AT(0) + 128);
    assert_non_null(strstr(trace, "stretch 4 "));
}

static void a_block_grows_in_place_where_nothing_lies_behind_it(void **state)
{
    (void)state;
    assert_int_equal(resize(5 * UNIT - 128), AT(0) + 128);
    assert_string_equal(trace, "stretch 5 back block 3 touch block ");
    assert_int_equal(has.taken, 2 * UNIT);
    assert_int_equal(has.touched_from, 3 * UNIT);
    assert_int_equal(has.touched_to, 4 * UNIT);
    assert_ptr_equal(slot, &block.slot[0]);
    anew(NULL);
    block.slot[0].dirty = true; /* Its memory was used before. */
    assert_int_equal(resize(5 * UNIT - 128), AT(0) + 128);
    assert_string_equal(trace, "stretch 5 back block 3 ");
    assert_int_equal(block.pin, ZC_PIN_NONE);
}

static void a_block_that_can_not_grow_in_place_moves_with_all_that_is_known_of_it(void **state)
{
    (void)state;
    has.no_stretch = true;
    assert_int_equal(resize(5 * UNIT - 128), AT(100) + 128);
    assert_string_equal(trace, "carve 5 back other 3 move bury-locked block touch other ");
    assert_ptr_equal(slot, &other.slot[0]);
    assert_true(other.use == ZC_EXTENT_BLOCK && other.live == 1 && other.lead == 128);
    assert_true(other.era == 7 && other.copied == 55 && other.prefaulted == 66);
    assert_true(other.small && other.inherited && other.pin == ZC_PIN_NONE);
    assert_true(other.slot[0].site == 9 && other.slot[0].known);
    assert_int_equal(other.slot[0].size, UNIT * 5 / 2);
    assert_int_equal(has.taken, 2 * UNIT);
}

static void where_a_step_fails_the_block_is_as_it_was(void **state)
{
    (void)state;
    has.no_limit = true;
    assert_int_equal(resize(5 * UNIT), 0);
    assert_string_equal(trace, "");
    assert_as_it_was();
    has.no_limit = false;
    has.pool = has.no_stretch = has.no_carve = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "carve 5 ");
    assert_as_it_was();
    assert_false(has.pool);
    has.no_carve = false;
    has.no_back = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "carve 5 back other 3 unback other bury other ");
    assert_as_it_was();
    has.no_back = false;
    has.no_move = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "carve 5 back other 3 move unback other bury other ");
    assert_as_it_was();
    has.torn = true; /* The addresses are lost. */
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "carve 5 back other 3 move ");
    assert_as_it_was();
}

static void memory_that_the_kernel_does_not_give_in_place_may_come_elsewhere(void **state)
{
    (void)state;
    has.no_back = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "stretch 5 back block 3 cut 3 bury tail "
                               "carve 5 back other 3 unback other bury other ");
    assert_as_it_was();
    anew(NULL);
    has.no_back = has.no_cut = has.no_carve = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "stretch 5 back block 3 cut 3 carve 5 ");
}

static void blocks_that_others_know_by_their_addresses_are_not_resized(void **state)
{
    (void)state;
    block.pin = ZC_PIN_DONE;
    assert_int_equal(resize(5 * UNIT), 0);
    assert_int_equal(block.pin, ZC_PIN_DONE);
    block.pin = ZC_PIN_NONE;
    block.use = ZC_EXTENT_SLAB;
    assert_int_equal(resize(5 * UNIT), 0);
    block.use = ZC_EXTENT_BLOCK;
    block.inode = 5;
    assert_int_equal(resize(5 * UNIT), 0);
    block.inode = 0;
    block.no_reuse = true;
    assert_int_equal(resize(5 * UNIT), 0);
    block.no_reuse = false;
    has.foreign = true;
    assert_int_equal(resize(5 * UNIT), 0);
    has.foreign = false;
    assert_int_equal(block.pin, ZC_PIN_NONE);
    assert_string_equal(trace, "");
    assert_as_it_was();
}

static void sizes_of_slabs_and_sizes_beyond_the_heap_are_refused(void **state)
{
    (void)state;
    assert_int_equal(resize(UNIT / 2), 0);
    assert_int_equal(resize(SIZE_MAX), 0);
    assert_int_equal(resize(1000 * UNIT - 127), 0);
    assert_string_equal(trace, "");
    assert_as_it_was();
    assert_int_equal(resize(UNIT / 2 + 1), AT(0) + 128);
    assert_string_equal(trace, "cut 1 unback tail bury tail ");
    anew(NULL);
    assert_int_equal(resize(1000 * UNIT - 128), AT(0) + 128);
    assert_int_equal(has.taken, 997 * UNIT);
}

static void a_signal_handler_inside_the_heap_grows_nothing(void **state)
{
    (void)state;
    has.locked_out = true;
    assert_int_equal(resize(5 * UNIT - 128), 0);
    assert_string_equal(trace, "carve 5 ");
    assert_as_it_was();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_block_shrinks_and_gives_back_whole_units, anew),
        cmocka_unit_test_setup(a_block_that_keeps_its_units_stays, anew),
        cmocka_unit_test_setup(a_block_grows_in_place_where_nothing_lies_behind_it, anew),
        cmocka_unit_test_setup(
            a_block_that_can_not_grow_in_place_moves_with_all_that_is_known_of_it, anew),
        cmocka_unit_test_setup(where_a_step_fails_the_block_is_as_it_was, anew),
        cmocka_unit_test_setup(memory_that_the_kernel_does_not_give_in_place_may_come_elsewhere,
                               anew),
        cmocka_unit_test_setup(blocks_that_others_know_by_their_addresses_are_not_resized, anew),
        cmocka_unit_test_setup(sizes_of_slabs_and_sizes_beyond_the_heap_are_refused, anew),
        cmocka_unit_test_setup(a_signal_handler_inside_the_heap_grows_nothing, anew)};
    return RUN_TESTS(tests);
}
