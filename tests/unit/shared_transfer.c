/* SPDX-License-Identifier: MIT */
/* Copies and sets that meet a pair: which make one of both blocks, which give the device block
 * memory of its own, and why, and what is recorded. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "copy/cpu.h"
#include "copy/staged.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/memfile.h"
#include "host/visits.h"
#include "ledger/site.h"
#include "shared/backing.h"
#include "shared/coherence.h"
#include "shared/heat.h"
#include "shared/reach.h"
#include "vmm/vmm.h"

#define DEVICE ((CUdeviceptr)0x40000000)
#define HOST ((CUdeviceptr)0x80000000)
#define WINDOW ((uintptr_t)0xc0000000)
#define MIB ((size_t)1 << 20)
#define SIZE (2 * ZC_HOST_UNIT)

static struct zc_extent pages;
static struct zc_vmm vmm;
static struct zc_shared both, another; /* A second both, for what is one with another block. */
static struct zc_block on_device, on_host;
static struct zc_copy copy;

/* The neighbours. */
static struct {
    char trace[300];
    bool claim_fails, unprofitable, foreign, shareable, differs, locked_out;
    bool no_private, captures, captured, malformed, cannot_copy, driver_locked_out;
    const char *not_one, *own;
    CUresult to_own, wait, staged, stream;
    uint32_t reach;
    bool whole, in;
    uint64_t low, high;
    uintptr_t to;
    struct zc_moved moved;
    struct zc_pair_counts all;
    unsigned locks, relaxed, launches, driver_locks, claims, watched;
} has;

static void say(const char *text)
{
    strncat(has.trace, text, sizeof(has.trace) - strlen(has.trace) - 1);
}

static struct zc_shared *fake_of(const struct zc_block *block)
{
    return block && block->place == ZC_PLACE_SHARED ? (struct zc_shared *)block->backing : NULL;
}

static bool fake_lock_host(struct zc_shared *which, const struct zc_extent *extent)
{
    assert_ptr_equal(which, &both);
    assert_ptr_equal(extent, &pages);
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void fake_word_unlock(uint32_t *word)
{
    assert_ptr_equal(word, &both.owner);
    has.locks--;
}

static bool fake_claim(struct zc_extent *extent)
{
    assert_ptr_equal(extent, &pages);
    has.claims += !has.claim_fails;
    return !has.claim_fails;
}

static void fake_unclaim(struct zc_extent *extent)
{
    assert_ptr_equal(extent, &pages);
    has.claims--;
}

static bool fake_make_private(struct zc_extent *extent, size_t bytes)
{
    assert_true(extent == &pages && has.locks == 1);
    has.high = bytes;
    say("private ");
    return !has.no_private;
}

static bool fake_differs(const struct zc_extent *extent, uint64_t low, uint64_t high)
{
    assert_ptr_equal(extent, &pages);
    has.low = low;
    has.high = high;
    say("differs? ");
    return has.differs;
}

static bool fake_copy(struct zc_extent *extent, uintptr_t d, uint64_t low, uint64_t high, bool in,
                      struct zc_moved *moved)
{
    assert_true(extent == &pages && has.locks == 1 && has.relaxed == 1);
    has.to = d;
    has.low = low;
    has.high = high;
    has.in = in;
    *moved = has.moved;
    say("copy ");
    return !has.cannot_copy;
}

static const char *fake_to_one(struct zc_shared *which, struct zc_extent *extent, bool whole)
{
    assert_true(which == &both && extent == &pages && has.claims == 1);
    has.whole = whole;
    say("one ");
    if (!has.not_one) {
        both.one = true;
        both.extent = &pages;
        pages.shared = &both;
    }
    return has.not_one;
}

static CUresult fake_to_own(struct zc_shared *which, enum zc_fn fn, const char *why)
{
    assert_true(which == &both && fn == ZC_FN_cuMemcpyHtoD_v2 && has.locks == 0);
    has.own = why;
    say("own ");
    on_device.real = ZC_KIND_DEVICE;
    return has.to_own;
}

static CUresult fake_stream(CUstream stream, enum zc_flavour flavour, CUdevice *out)
{
    assert_true(stream == (CUstream)7 && flavour == ZC_PER_THREAD && out);
    say("stream ");
    return has.stream;
}

static bool fake_holds(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == (CUstream)7 && flavour == ZC_PER_THREAD);
    return has.captured;
}

static CUstreamCaptureMode fake_relax(void)
{
    has.relaxed++;
    return (CUstreamCaptureMode)5;
}

static void fake_restore(CUstreamCaptureMode mode)
{
    assert_int_equal(mode, 5);
    has.relaxed--;
}

static bool fake_driver_lock(void)
{
    say("lock ");
    has.driver_locks += !has.driver_locked_out;
    vmm.open = false;
    return !has.driver_locked_out;
}

static CUresult fake_enter(CUresult (*ready)(const void *arg), const void *arg)
{
    CUresult result = ready(arg);
    has.launches += result == CUDA_SUCCESS;
    return result;
}

static CUresult wait_as(const char *how, CUresult result)
{
    assert_int_equal(has.relaxed, 1);
    say(how);
    return result;
}

#define zc_shared_of fake_of
#define zc_shared_lock_host fake_lock_host
#define zc_word_unlock fake_word_unlock
#define zc_extent_base(extent) ((extent) == &pages ? (uintptr_t)HOST : 0)
#define zc_hostheap_mine(extent) (!has.foreign)
#define zc_hostheap_claim_for_device fake_claim
#define zc_hostheap_unclaim fake_unclaim
#define zc_coherent_unprofitable(extent) has.unprofitable
#define zc_memfile_shareable(extent) has.shareable
#define zc_memfile_make_private fake_make_private
#define zc_coherent_differs fake_differs
#define zc_coherent_copy fake_copy
#define zc_shared_to_one fake_to_one
#define zc_shared_to_own fake_to_own
#define zc_shared_decide(which) (assert_ptr_equal(which, &both), say("decide "))
#define zc_heat_watch() has.watched++
#define zc_site_id(site) ((site) + 1000u)
#define zc_reach() has.reach
#define zc_log_pairs has.all
#define zc_stream_device fake_stream
#define zc_capture_any() has.captures
#define zc_capture_holds fake_holds
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_staged_wait(c) wait_as("staged ", has.staged)
#define zc_copy_drain(c) wait_as("drain ", has.wait)
#define zc_copy_well_formed(c) (!has.malformed)
#define zc_driver_lock fake_driver_lock
#define zc_driver_unlock() has.driver_locks--
#define zc_launch_enter fake_enter
#define zc_launch_leave() has.launches--
#include "../../shim/shared/transfer.c"

/* A copy of a whole host block into a device block that was not used yet. */
static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&vmm, 0, sizeof(vmm));
    memset(&copy, 0, sizeof(copy));
    memset(&pages, 0, sizeof(pages));
    memset(&both, 0, sizeof(both));
    has.shareable = true;
    vmm.va.base = DEVICE;
    vmm.span = SIZE;
    both.vmm = &vmm;
    on_device = (struct zc_block){.base = DEVICE, .size = SIZE, .real = ZC_KIND_PINNED};
    on_device.place = ZC_PLACE_SHARED;
    on_device.backing = &both;
    on_host = (struct zc_block){.base = HOST, .size = SIZE, .id = 41, .site = 6};
    on_host.real = ZC_KIND_PAGEABLE;
    pages.units = 2;
    pages.use = ZC_EXTENT_BLOCK;
    pages.slot[0].size = SIZE;
    pages.visits = 1;
    pages.inode = 9;
    copy.fn = ZC_FN_cuMemcpyHtoD_v2;
    copy.stream = (CUstream)7;
    copy.flavour = ZC_PER_THREAD;
    copy.shape = ZC_SHAPE_LINE;
    copy.bytes = SIZE;
    copy.dst.block = &on_device;
    copy.dst.address = DEVICE;
    copy.src.block = &on_host;
    copy.src.address = HOST;
    copy.src.extent = &pages;
    return 0;
}

/* Both are one already. */
static void paired(bool in)
{
    anew(NULL);
    both.one = true;
    both.extent = &pages;
    pages.shared = &both;
    if (in)
        return;
    struct zc_operand d = copy.dst;
    copy.dst = copy.src;
    copy.src = d;
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    assert_true(has.locks == 0 && has.relaxed == 0 && has.claims == 0 && has.driver_locks == 0);
    has.trace[0] = 0;
}

static void expect_own(const char *why)
{
    assert_int_equal(zc_shared_facts(&copy), 0);
    if (!strstr(has.trace, "own "))
        fail_msg("it stays one: %s", why);
    assert_string_equal(has.own, why);
    assert_true(!copy.answered && copy.result == CUDA_SUCCESS);
    assert_int_equal(copy.dst.real, copy.dst.block->real);
    if (copy.src.block)
        assert_int_equal(copy.src.real, copy.src.block->real);
    assert_true(has.locks == 0 && has.claims == 0);
    has.trace[0] = 0;
}

static void the_first_copy_makes_one_of_both(void **state)
{
    (void)state;
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
    expect("one private ");
    assert_true(has.whole && has.watched == 1 && both.names.host_block == 41 &&
                both.names.host_site == 1006);
    assert_int_equal(has.high, SIZE);
    anew(NULL);
    copy.bytes = SIZE - 1;
    copy.src.block = NULL; /* The ledger had no memory for it. */
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
    assert_true(!has.whole && both.names.host_block == 0 && has.watched == 1 &&
                has.high == SIZE - 1);
}

static void blocks_that_are_alike_become_one(void **state)
{
    static const struct {
        size_t device, held, bytes, vmm, at, from;
        bool suits;
    } rows[] = {
        {SIZE, SIZE, SIZE, SIZE, 0, 0, true},
        {SIZE, SIZE, 1, SIZE, 0, 0, true}, /* A part of one as large. */
        {SIZE, SIZE, 1, SIZE, 64, 64, true},
        {SIZE, SIZE, 1, SIZE, 64, 0, false},
        {SIZE, SIZE, 1, SIZE, 0, 64, false},
        {SIZE, SIZE - ZC_HOST_UNIT + 1, 1, SIZE, 0, 0, true},
        {SIZE, SIZE - ZC_HOST_UNIT, 1, SIZE, 0, 0, false},
        {SIZE, SIZE - ZC_HOST_UNIT, SIZE / 2 - 1, SIZE, 0, 0, false},
        {SIZE, SIZE - ZC_HOST_UNIT, SIZE / 2, SIZE, 0, 0, true},
        {SIZE - 8, SIZE - 7, 1, SIZE, 0, 0, false},
        {SIZE - 8, SIZE - 8, 1, SIZE, 0, 0, true},
        {SIZE - 8, SIZE, SIZE / 2, SIZE, 0, 0, true},
        {SIZE + 1, SIZE, SIZE, SIZE + ZC_HOST_UNIT, 0, 0, false},
        {SIZE, SIZE, SIZE, SIZE - 1, 0, 0, false},
        {SIZE, SIZE, SIZE, SIZE + 1, 0, 0, true},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        on_device.size = rows[i].device;
        pages.slot[0].size = rows[i].held;
        copy.bytes = rows[i].bytes;
        vmm.span = rows[i].vmm;
        copy.dst.address += rows[i].at;
        copy.src.address += rows[i].from;
        if (rows[i].suits)
            assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
        else
            expect_own("the host block copied into it does not fit");
        assert_int_equal(both.one, rows[i].suits);
    }
    anew(NULL);
    copy.shape = ZC_SHAPE_STRIDED;
    expect_own("the host block copied into it does not fit");
}

static void what_keeps_two_blocks_apart_is_told(void **state)
{
    static const char *const texts[] = {
        "its host block is in use, or the program changed its pages",
        "its host block is one with another device block",
        "the CPU rewrites the host block before most copies",
        "the kernel or a limit gives its host block no file",
        "its host block has private pages since a fork or its registration",
        "the driver says so",
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        anew(NULL);
        has.claim_fails = i == 0;
        pages.shared = i == 1 ? &another : NULL;
        has.unprofitable = i == 2;
        pages.inode = i != 3;
        has.shareable = i != 4;
        has.not_one = i == 5 ? texts[5] : NULL;
        expect_own(texts[i]);
        assert_true(has.watched == 0 && both.names.host_block == 0);
    }
}

static void nobody_else_may_be_at_the_host_block(void **state)
{
    const char *why = "its host block is in use, or the program changed its pages";
    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        anew(NULL);
        if (i == 1)
            pages.use = ZC_EXTENT_SLAB;
        pages.lead = i == 2;
        has.foreign = i == 3;
        pages.no_reuse = i == 4;
        pages.visits = i == 5 ? 2 : i == 6 ? 0 : 1;
        uint32_t facts = zc_shared_facts(&copy);
        assert_int_equal(facts, i ? 0 : ZC_FACT_PAIR);
        assert_int_equal(both.one, i == 0);
        if (i)
            assert_string_equal(has.own, why);
    }
}

static void something_else_gives_the_device_block_memory_of_its_own(void **state)
{
    const char *why = "something else than its host block is copied into it";
    (void)state;
    copy.src.extent = NULL;
    expect_own(why);
    anew(NULL);
    both.stays_own = true;
    expect_own(why);
    anew(NULL);
    copy.async = true;
    has.captures = has.captured = true;
    expect_own(why);
    paired(true);
    copy.async = true;
    has.captures = has.captured = true;
    expect_own(why);
    paired(true);
    pages.shared = &another;
    expect_own(why);
    paired(true);
    copy.src.address += 64;
    expect_own(why);
    paired(true);
    copy.shape = ZC_SHAPE_SET;
    copy.src = (struct zc_operand){0};
    expect_own(why);
    anew(NULL);
    has.to_own = CUDA_ERROR_OUT_OF_MEMORY;
    both.stays_own = true;
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_FAILED);
    assert_true(copy.answered && copy.result == CUDA_ERROR_OUT_OF_MEMORY);
}

static void a_pair_is_parted_where_a_copy_must_not_write_its_pages(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        paired(true);
        copy.dst.address += 4096;
        copy.src.address += 4096;
        copy.bytes = 100;
        pages.no_reuse = i == 1;
        has.unprofitable = i == 2;
        has.shareable = i != 3 && i != 4;
        has.differs = i == 3;
        has.no_private = i == 5;
        has.locked_out = i == 6;
        if (i == 1)
            expect_own("the program changed the pages of its host block");
        else if (i == 2)
            expect_own("the CPU rewrites the host block before most copies");
        else if (i == 3)
            expect_own("the host block is private after a fork");
        else if (i == 5)
            expect_own("the kernel gives the host block no private view");
        else
            assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
        if (i == 3 || i == 4)
            assert_true(has.low == 4096 && has.high == 4196);
        if (i == 0 || i == 5)
            assert_int_equal(has.high, 4196);
        if (i == 6)
            expect("");
    }
}

static void a_copy_out_of_a_pair_decides_what_is_undecided(void **state)
{
    (void)state;
    paired(false);
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
    expect("decide ");
    both.one = false;
    assert_int_equal(zc_shared_facts(&copy), 0);
    paired(false);
    copy.dst.address++;
    assert_int_equal(zc_shared_facts(&copy), 0);
    paired(false);
    pages.shared = NULL;
    assert_int_equal(zc_shared_facts(&copy), 0);
    paired(false);
    copy.dst.extent = NULL;
    assert_int_equal(zc_shared_facts(&copy), 0);
    paired(false);
    copy.shape = ZC_SHAPE_STRIDED;
    assert_int_equal(zc_shared_facts(&copy), 0);
    expect("decide ");
    paired(false);
    pages.no_reuse = true;
    expect_own("the program changed the pages of its host block");
    paired(false);
    copy.async = true;
    has.captures = has.captured = true;
    expect_own("a graph copies it");
    has.to_own = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_FAILED);
    copy.async = false; /* Of a call without a stream no graph has a copy. */
    has.trace[0] = 0;
    assert_int_equal(zc_shared_facts(&copy), ZC_FACT_PAIR);
    expect("decide ");
}

static void calls_that_the_driver_refuses_change_nothing(void **state)
{
    (void)state;
    copy.shape = ZC_SHAPE_PREFETCH;
    assert_int_equal(zc_shared_facts(&copy), 0);
    copy.shape = ZC_SHAPE_LINE;
    copy.order = -1;
    assert_int_equal(zc_shared_facts(&copy), 0);
    copy.order = 0;
    copy.shape = ZC_SHAPE_SET;
    has.malformed = true;
    assert_int_equal(zc_shared_facts(&copy), 0);
    copy.shape = ZC_SHAPE_LINE;
    copy.dst = copy.src;
    assert_int_equal(zc_shared_facts(&copy), 0);
    expect("");
}

static void a_source_stays_one_while_the_driver_reads_it(void **state)
{
    (void)state;
    for (enum zc_way way = 0; way < ZC_WAY_COUNT; way++) {
        bool reads = way == ZC_WAY_FORWARD || way == ZC_WAY_FORWARD_WAIT || way == ZC_WAY_CPU ||
                     way == ZC_WAY_CPU_WAIT || way == ZC_WAY_CPU_ORDERED ||
                     way == ZC_WAY_CPU_STAGED;
        paired(false);
        copy.way = way;
        copy.src.real = ZC_KIND_PINNED;
        assert_true(zc_shared_keep(&copy));
        assert_int_equal(copy.kept, reads);
        assert_int_equal(has.launches, reads);
        zc_shared_release(&copy);
        assert_true(!copy.kept && has.launches == 0);
        zc_shared_release(&copy);
        assert_int_equal(has.launches, 0);
    }
    paired(false);
    copy.src.real = ZC_KIND_DEVICE;
    assert_true(zc_shared_keep(&copy) && !copy.kept);
    paired(true);
    copy.src.real = ZC_KIND_PINNED;
    assert_true(zc_shared_keep(&copy) && !copy.kept);
    paired(false);
    copy.src.real = ZC_KIND_PINNED;
    both.one = false;
    on_device.real = ZC_KIND_DEVICE;
    assert_false(zc_shared_keep(&copy));
    assert_true(!copy.kept && has.launches == 0 && copy.src.real == ZC_KIND_DEVICE);
    expect("");
}

static void a_source_that_gets_its_memory_is_waited_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        paired(false);
        copy.src.real = ZC_KIND_PINNED;
        vmm.open = true;
        has.driver_locked_out = i;
        assert_true(zc_shared_keep(&copy) && copy.kept);
        expect("lock ");
    }
}

static void a_copy_of_a_pair_is_recorded_by_what_it_moved(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        bool in = i & 1, window = i & 2;
        paired(in);
        both.window = window ? WINDOW : 0;
        copy.dst.address += 4096;
        copy.src.address += 4096;
        copy.bytes = 100;
        copy.part[ZC_MOVED] = 100;
        has.moved = (struct zc_moved){.elided = 60, .copied = 40};
        assert_true(zc_shared_copy(&copy));
        expect("drain copy ");
        assert_true(has.low == 4096 && has.high == 4196 && has.in == in);
        assert_int_equal(has.to, window ? WINDOW : DEVICE);
        assert_true(copy.answered && copy.result == CUDA_SUCCESS);
        assert_true(copy.part[ZC_MOVED] == 0 && copy.part[ZC_ELIDED] == 60);
        assert_int_equal(copy.part[ZC_CPU], 40);
        assert_true(both.counts.elided_bytes == 60 && both.counts.copied_bytes == 40);
        assert_int_equal(both.counts.elided_copies, 0);
        has.moved = (struct zc_moved){.elided = 100};
        assert_true(zc_shared_copy(&copy));
        assert_true(both.counts.elided_copies == 1 && both.counts.elided_bytes == 160);
        assert_true(has.all.elided_copies == 1 && has.all.elided_bytes == 160);
        assert_int_equal(has.all.copied_bytes, 40);
    }
}

static void an_asynchronous_copy_of_equal_pages_waits_for_nothing(void **state)
{
    static const struct {
        bool async, differs, captures;
        uint32_t reach;
        const char *calls;
    } rows[] = {
        {true, false, false, 0, "differs? stream copy "},
        {true, true, false, 0, "differs? drain copy "},
        {true, true, true, 0, "differs? staged copy "},
        {true, false, false, ZC_REACH_ANY, "drain copy "},
        {true, false, false, ZC_REACH_EXACT, "differs? stream copy "},
        {false, false, false, 0, "drain copy "},
        {false, false, true, 0, "staged copy "},
    };
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        paired(i & 1);
        copy.async = rows[i / 2].async;
        has.differs = rows[i / 2].differs;
        has.captures = rows[i / 2].captures;
        has.reach = rows[i / 2].reach;
        assert_true(zc_shared_copy(&copy));
        expect(rows[i / 2].calls);
        assert_true(has.low == 0 && has.high == SIZE);
    }
}

static void a_copy_that_fails_moves_nothing_and_one_that_can_not_is_planned_anew(void **state)
{
    (void)state;
    paired(true);
    has.moved.elided = 7;
    has.wait = CUDA_ERROR_LAUNCH_FAILED;
    assert_true(zc_shared_copy(&copy));
    expect("drain ");
    assert_true(copy.answered && copy.result == CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(both.counts.elided_bytes, 0);
    for (unsigned i = 0; i < 3; i++) {
        paired(true);
        has.locked_out = i == 0;
        has.cannot_copy = i > 0;
        has.to_own = i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        assert_int_equal(zc_shared_copy(&copy), i == 2);
        expect(i ? "drain copy own " : "drain own ");
        assert_string_equal(has.own, "the host block is private after a fork");
        assert_true(copy.result == has.to_own && copy.answered == (i == 2));
        assert_int_equal(both.counts.elided_bytes, 0);
    }
}

static void only_operands_of_that_place_meet_it(void **state)
{
    (void)state;
    assert_true(zc_shared_meets(&copy.dst));
    assert_false(zc_shared_meets(&copy.src));
    copy.dst.block = NULL;
    assert_false(zc_shared_meets(&copy.dst));
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_copy_makes_one_of_both),
        TEST(blocks_that_are_alike_become_one),
        TEST(what_keeps_two_blocks_apart_is_told),
        TEST(nobody_else_may_be_at_the_host_block),
        TEST(something_else_gives_the_device_block_memory_of_its_own),
        TEST(a_pair_is_parted_where_a_copy_must_not_write_its_pages),
        TEST(a_copy_out_of_a_pair_decides_what_is_undecided),
        TEST(calls_that_the_driver_refuses_change_nothing),
        TEST(a_source_stays_one_while_the_driver_reads_it),
        TEST(a_source_that_gets_its_memory_is_waited_for),
        TEST(a_copy_of_a_pair_is_recorded_by_what_it_moved),
        TEST(an_asynchronous_copy_of_equal_pages_waits_for_nothing),
        TEST(a_copy_that_fails_moves_nothing_and_one_that_can_not_is_planned_anew),
        TEST(only_operands_of_that_place_meet_it),
    };
    return RUN_TESTS(tests);
}
