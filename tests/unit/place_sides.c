/* SPDX-License-Identifier: MIT */
/* Both sides of a copy: the memory there, and each step before and after it. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "child_test.h"

#include <stdio.h>
#include <string.h>

#include "copy/cpu.h"
#include "copy/links.h"
#include "copy/parallel.h"
#include "copy/staged.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/visits.h"
#include "ledger/rules.h"
#include "ledger/unwind.h"
#include "managed/hint.h"
#include "memory/device.h"
#include "place/migrate.h"
#include "place/placed.h"
#include "place/sides.h"
#include "real_test.h"
#include "vmm/access.h"

/* A heap of two blocks, and two on a device.  The neighbours write what they are asked for. */
#define HEAP ((uintptr_t)0x100000)
#define OTHER ((CUdeviceptr)0x900000)
static struct zc_extent ext[2];
static struct zc_block hosted[2], block[2];
static struct zc_movable movable[2];
static struct zc_rule rules[2];
static const struct zc_policy policy = {.rules = rules};
static struct zc_copy copy;
static char trace[512];
static struct {
    unsigned type;
    bool hides, beside, readable, reaches, uses, stale, stays, mends, captured, meets, awaited;
    bool first, threads, cpu, unwaited, idle, malformed, moves;
    CUresult open, far, home;
    uint32_t grow, cpu_facts, staged, shared, links, parallel;
} has;

static const char *name_of(const void *p)
{
    return p == &ext[0] || p == &hosted[0] || p == &block[0]   ? "0"
           : p == &ext[1] || p == &hosted[1] || p == &block[1] ? "1"
           : p                                                 ? "?"
                                                               : "-";
}

static bool note(const char *what, const void *p)
{
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof(trace) - n, "%s%s ", what, p == trace ? "" : name_of(p));
    return true;
}

static struct zc_block *fake_find(uint64_t address)
{
    for (unsigned i = 0; i < 2; i++) {
        if (address - hosted[i].base < 4096)
            return &hosted[i];
        if (address - block[i].base < block[i].size)
            return &block[i];
    }
    return NULL;
}

static struct zc_vmm *fake_move_of(const struct zc_block *b)
{
    for (unsigned i = 0; has.moves && i < 2; i++)
        if (b == &block[i])
            return &movable[i].vmm;
    return NULL;
}

static void fake_end_stale(struct zc_extent *e, bool needed)
{
    note(needed ? "need" : "settle", e);
    if (needed && has.mends)
        has.stays = false;
}

#define zc_memory_type(address) ((void)(address), has.type)
#define zc_device_has(device, attribute)                                                           \
    (assert_int_equal(attribute, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS), has.reaches)
#define zc_hostheap_owns(address) ((address)-HEAP < 0x2000)
#define zc_in_margin(address) ((void)(address), has.beside)
#define zc_pinned_hides(address) (zc_hostheap_owns(address) && has.hides)
#define zc_block_find fake_find
#define zc_hostheap_extent(address) (&ext[((address)-HEAP) / 4096])
#define zc_rules() (&policy)
#define zc_readable(address) ((void)(address), has.readable)
#define zc_pinned_use(e, bytes) (assert_int_equal(bytes, 500), note("use", e) && has.uses)
#define zc_pinned_end_stale fake_end_stale
#define zc_pinned_end_if_stale(e) ((e) && has.stale ? fake_end_stale(e, false) : (void)0)
#define zc_pinned_stuck(e) ((e) && has.stale && has.stays)
#define zc_pinned_refuse(e, fn, why) ((void)(fn), note("refuse", e), CUDA_ERROR_NOT_SUPPORTED)
#define zc_pinned_in_graph(e) note("graph", e)
#define zc_hostheap_visit(e) note("visit", e)
#define zc_hostheap_leave(e) note("part", e)
#define zc_parallel_first(c) ((void)(c), has.first)
#define zc_parallel_copy(c) ((void)(c), has.threads)
#define zc_parallel_facts(c) ((void)(c), has.parallel)
#define zc_links_facts(c) ((void)(c), has.links)
#define zc_capture_holds(stream, flavour) ((void)(stream), (void)(flavour), has.captured)
#define zc_vmm_open_far(c) (note("far", trace), (void)(c), has.far)
#define zc_vmm_open(c, batch) (note((batch) ? "batch" : "open", trace), (void)(c), has.open)
#define zc_grow_facts(c) (note("grow", trace), (void)(c), has.grow)
#define zc_hint_copy(c) (note("hint", trace), (void)(c))
#define zc_cpu_facts(c) ((void)(c), has.cpu_facts)
#define zc_cpu_able(c) ((void)(c), has.cpu)
#define zc_cpu_unwaited(c) ((void)(c), has.unwaited)
#define zc_staged_facts(c) ((void)(c), has.staged)
#define zc_shared_facts(c) ((void)(c), has.shared)
#define zc_copy_well_formed(c) ((void)(c), !has.malformed)
#define zc_await_any() has.awaited
#define zc_stream_idle(stream, flavour) ((void)(stream), (void)(flavour), has.idle)
#define zc_move_of fake_move_of
#define zc_move_enter() note("enter", trace)
#define zc_move_leave(held) note((held) ? "leave" : "free", trace)
#define zc_move_never(b, fn) (note("never", b), has.home)
#define zc_migrate_meets(b, stream, flavour) ((void)(b), (void)(stream), (void)(flavour), has.meets)
#define zc_migrate_to_host(b, fn, fills) (note((fills) ? "fill" : "home", b), has.home)
#include "../../shim/place/sides.c"

static CUresult get_device(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(ext, 0, sizeof(ext));
    zc_vmm_counts.far = 0;
    memset(rules, 0, sizeof(rules));
    memset(movable, 0, sizeof(movable));
    has.hides = has.meets = true;
    for (unsigned i = 0; i < 2; i++) {
        hosted[i] = (struct zc_block){.base = HEAP + i * 4096,
                                      .size = 4096,
                                      .flags = ZC_BLOCK_HOST,
                                      .rule = (int16_t)i,
                                      .asked = ZC_KIND_PAGEABLE,
                                      .real = ZC_KIND_PINNED};
        block[i] = (struct zc_block){.base = 0x500000 + i * 4096,
                                     .size = 4096,
                                     .asked = ZC_KIND_DEVICE,
                                     .real = ZC_KIND_MANAGED};
        movable[i].vmm.rule = &rules[i];
        movable[i].vmm.moves = true;
    }
    real_without_driver();
    zc_real.cuCtxGetDevice = get_device;
    zc_life_state = ZC_LIFE_ON; /* As of a process that has started long ago. */
    zc_copy_init(&copy, ZC_FN_cuMemcpyHtoD_v2, ZC_LEGACY);
    copy.bytes = 500;
    copy.shape = ZC_SHAPE_LINE;
    trace[0] = 0;
    return 0;
}

static void sides(CUdeviceptr dst, CUdeviceptr src)
{
    copy.dst.side = copy.src.side = ZC_SIDE_ANY;
    copy.dst.address = dst;
    copy.src.address = src;
    zc_copy_resolve(&copy);
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
}

static CUresult no_device(CUdevice *device)
{
    *device = 7;
    return CUDA_ERROR_INVALID_CONTEXT;
}

static void reach(void)
{
    struct zc_operand b = {.side = ZC_SIDE_DEVICE, .extent = &ext[0]};
    has.reaches = true;
    bool refused = zc_side_refused(&b);
    has.reaches = false;
    _exit(refused || zc_side_refused(&b) ? 1 : 7);
}

/* That is asked of the first device that there is, once; so this test comes first. */
static void a_device_that_reaches_pageable_memory_takes_it_for_its_own(void **state)
{
    struct zc_operand b = {.side = ZC_SIDE_DEVICE, .extent = &ext[0]};
    (void)state;
    zc_real.cuCtxGetDevice = no_device;
    has.reaches = true;
    assert_true(zc_side_refused(&b));
    zc_real.cuCtxGetDevice = get_device;
    int status = in_child(reach);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    has.reaches = false;
    assert_true(zc_side_refused(&b));
    has.reaches = true;
    assert_true(zc_side_refused(&b));
}

static void an_address_outside_of_blocks_is_of_the_kind_that_call_and_driver_say(void **state)
{
    static const struct {
        enum zc_side side;
        unsigned type;
        enum zc_kind kind;
    } rows[] = {{ZC_SIDE_ARRAY, 0, ZC_KIND_ARRAY},
                {ZC_SIDE_DEVICE, 0, ZC_KIND_DEVICE},
                {ZC_SIDE_HOST, CU_MEMORYTYPE_DEVICE, ZC_KIND_PAGEABLE},
                {ZC_SIDE_ANY, 0, ZC_KIND_PAGEABLE},
                {ZC_SIDE_ANY, CU_MEMORYTYPE_DEVICE, ZC_KIND_DEVICE},
                {ZC_SIDE_ANY, CU_MEMORYTYPE_HOST, ZC_KIND_PINNED},
                {ZC_SIDE_ANY, CU_MEMORYTYPE_UNIFIED, ZC_KIND_PINNED}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_operand b = {.side = rows[i].side, .address = OTHER};
        has.type = rows[i].type;
        resolve_operand(&b);
        assert_true(b.asked == rows[i].kind && b.real == rows[i].kind && !b.block && !b.extent);
    }
    struct zc_operand none = {.side = ZC_SIDE_NONE, .address = HEAP, .in_margin = true};
    resolve_operand(&none);
    assert_true(!none.block && !none.extent && !none.in_margin);
}

static void memory_beside_a_block_is_told_where_the_driver_knows_it(void **state)
{
    static const struct {
        enum zc_side side;
        bool heap, known, hides, beside;
    } rows[] = {{ZC_SIDE_DEVICE, 0, 1, 0, 1}, {ZC_SIDE_ANY, 0, 1, 0, 1},
                {ZC_SIDE_HOST, 0, 1, 0, 0},   {ZC_SIDE_DEVICE, 0, 0, 0, 0},
                {ZC_SIDE_DEVICE, 1, 0, 1, 1}, {ZC_SIDE_DEVICE, 1, 1, 0, 0},
                {ZC_SIDE_ANY, 1, 1, 1, 0},    {ZC_SIDE_HOST, 1, 1, 1, 0}};
    (void)state;
    hosted[1].base = 0; /* Its part of the heap has no block. */
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_operand b = {.side = rows[i].side, .address = rows[i].heap ? HEAP + 4096 : OTHER};
        has.beside = rows[i].known;
        has.hides = rows[i].hides;
        resolve_operand(&b);
        assert_int_equal(b.in_margin, rows[i].beside);
    }
}

static void a_block_says_what_was_asked_for_and_what_it_is(void **state)
{
    (void)state;
    sides(block[0].base + 7, hosted[1].base + 9);
    assert_true(copy.dst.block == &block[0] && !copy.dst.extent && !copy.dst.in_margin);
    assert_true(copy.dst.asked == ZC_KIND_DEVICE && copy.dst.real == ZC_KIND_MANAGED);
    assert_true(copy.src.block == &hosted[1] && copy.src.extent == &ext[1]);
    assert_true(copy.src.asked == ZC_KIND_PAGEABLE && copy.src.real == ZC_KIND_PINNED);
    anew(NULL);
    has.hides = false;
    sides(block[0].base, hosted[1].base);
    assert_null(copy.src.extent);
    anew(NULL);
    hosted[1].flags = 0;
    sides(block[0].base, hosted[1].base);
    assert_null(copy.src.extent);
    anew(NULL);
    block[0].size = 2 * ZC_BLOCK_UNIT + 5;
    block[0].real = ZC_KIND_DEVICE;
    block[0].flags = ZC_BLOCK_SPILLED;
    block[0].behind = 1 << ZC_BLOCK_BEHIND_BITS;
    sides(block[0].base + ZC_BLOCK_UNIT - 1, block[0].base + ZC_BLOCK_UNIT);
    assert_true(copy.dst.real == ZC_KIND_DEVICE && copy.src.real == ZC_KIND_PINNED);
    assert_true(copy.dst.asked == ZC_KIND_DEVICE && copy.src.asked == ZC_KIND_DEVICE);
}

static void pageable_memory_named_as_device_memory_is_refused(void **state)
{
    struct zc_operand b = {.side = ZC_SIDE_DEVICE, .extent = &ext[0]};
    (void)state;
    assert_true(zc_side_refused(&b));
    b.side = ZC_SIDE_ANY;
    assert_false(zc_side_refused(&b));
    b = (struct zc_operand){.side = ZC_SIDE_DEVICE};
    assert_false(zc_side_refused(&b));
}

static void an_address_is_nobodys_where_no_side_has_it(void **state)
{
    static const struct {
        enum zc_side side;
        CUdeviceptr address;
        unsigned type;
        bool readable, nobodys;
    } rows[] = {{ZC_SIDE_ANY, 0, 1, 1, 1},        {ZC_SIDE_HOST, 0, 1, 1, 1},
                {ZC_SIDE_NONE, 0, 0, 0, 0},       {ZC_SIDE_ARRAY, 0, 0, 0, 0},
                {ZC_SIDE_DEVICE, OTHER, 0, 1, 1}, {ZC_SIDE_DEVICE, OTHER, 1, 0, 0},
                {ZC_SIDE_ANY, OTHER, 0, 1, 0},    {ZC_SIDE_ANY, OTHER, 0, 0, 1},
                {ZC_SIDE_ANY, OTHER, 1, 0, 0},    {ZC_SIDE_HOST, OTHER, 0, 0, 0}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_operand b = {.side = rows[i].side, .address = rows[i].address};
        has.type = rows[i].type;
        has.readable = rows[i].readable;
        assert_int_equal(zc_side_nobodys(&b), rows[i].nobodys);
        b.block = &block[0];
        assert_false(zc_side_nobodys(&b));
    }
}

static void registered_memory_of_staged_rules_keeps_its_meaning(void **state)
{
    static const bool keeps[] = {[ZC_PIN_NONE] = 0,    [ZC_PIN_MAKING] = 1,  [ZC_PIN_DONE] = 1,
                                 [ZC_PIN_REFUSED] = 1, [ZC_PIN_PROGRAM] = 1, [ZC_PIN_SHARED] = 0};
    (void)state;
    rules[0].async = ZC_ASYNC_STAGED;
    rules[1].async = ZC_ASYNC_OVERLAP;
    for (unsigned turn = 0; turn < 2; turn++) {
        sides(turn ? hosted[0].base : block[0].base, turn ? block[0].base : hosted[0].base);
        for (unsigned pin = 0; pin <= ZC_PIN_SHARED; pin++) {
            ext[0].pin = pin;
            assert_int_equal(zc_copy_staged(&copy), keeps[pin]);
        }
        copy.dst.extent = copy.src.extent = NULL;
    }
    ext[1].pin = ZC_PIN_DONE;
    sides(block[0].base, hosted[1].base);
    assert_false(zc_copy_staged(&copy));
    sides(block[0].base, block[1].base);
    copy.src.extent = NULL;
    assert_false(zc_copy_staged(&copy));
}

static void both_sides_are_visited_until_they_are_parted_from(void **state)
{
    (void)state;
    sides(hosted[1].base, hosted[0].base);
    zc_sides_visit(&copy);
    expect("visit1 visit0 ");
    zc_sides_leave(&copy);
    expect("part1 part0 ");
    zc_sides_leave(&copy);
    expect("");
    copy.dst.extent = NULL;
    zc_sides_visit(&copy);
    copy.held = true;
    zc_sides_end(&copy);
    expect("visit0 leave part0 ");
}

static uint32_t ready(void)
{
    return zc_sides_answer(&copy, ZC_WAY_ASK_READY);
}

static void host_blocks_are_registered_and_what_is_known_of_the_copy_told(void **state)
{
    (void)state;
    rules[0].async = ZC_ASYNC_STAGED;
    rules[1].async = ZC_ASYNC_OVERLAP;
    ext[0].pin = ext[1].pin = ZC_PIN_DONE;
    has.uses = true;
    has.cpu_facts = 1u << 30;
    has.staged = 1u << 29;
    sides(hosted[1].base, hosted[0].base);
    hosted[0].real = hosted[1].real = 99;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | 3u << 29);
    expect("use1 use0 open grow hint ");
    assert_true(copy.dst.real == ZC_KIND_PINNED && hosted[1].real == ZC_KIND_PINNED);
    assert_true(hosted[0].real == ZC_KIND_PINNED && copy.src.staged && !copy.dst.staged);
    has.uses = false;
    has.stale = has.stays = true;
    ready();
    expect("settle1 settle0 use1 use0 open grow hint ");
    assert_true(copy.src.real == ZC_KIND_PAGEABLE && hosted[0].real == ZC_KIND_PAGEABLE);
    assert_true(copy.dst.staged); /* The driver has other pages of it. */
}

static void the_facts_of_a_copy_are_those_that_hold(void **state)
{
    (void)state;
    sides(block[0].base, hosted[0].base);
    has.malformed = true;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | ZC_FACT_MALFORMED);
    has.malformed = false;
    has.awaited = true;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN);
    copy.sync = true;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | ZC_FACT_AWAITED);
    has.awaited = false;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN);
    trace[0] = 0;
    has.captured = true;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | ZC_FACT_CAPTURED);
    expect("use0 graph- graph0 far open grow hint ");
    has.captured = false;
    has.far = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_sides_in_graph(&copy), CUDA_ERROR_UNKNOWN);
    expect("graph- graph0 far ");
    has.first = true;
    const uint32_t threads =
        ZC_FACT_LARGE | ZC_FACT_IDLE_KNOWN | ZC_FACT_IDLE | ZC_FACT_THREADS_KNOWN | ZC_FACT_THREADS;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | threads | ZC_FACT_INWARD);
    expect("open grow hint ");
    assert_true(copy.first);
    copy.src.extent = NULL;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | threads);
    trace[0] = 0;
    has.grow = 1u << 28;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | 1u << 28);
    expect("open grow ");
    has.open = CUDA_ERROR_UNKNOWN;
    assert_int_equal(ready(), ZC_FACT_READY_KNOWN | ZC_FACT_FAILED);
    expect("open ");
    assert_int_equal(copy.result, CUDA_ERROR_UNKNOWN);
}

static void each_question_of_the_plan_is_answered_by_who_knows(void **state)
{
    (void)state;
    has.shared = 1u << 30;
    has.parallel = 1u << 29;
    has.links = 1u << 28;
    for (unsigned on = 0; on < 2; on++) {
        has.cpu = has.unwaited = has.idle = on;
        assert_int_equal(zc_sides_answer(&copy, ZC_WAY_ASK_PAIR), ZC_FACT_PAIR_KNOWN | 1u << 30);
        assert_int_equal(zc_sides_answer(&copy, ZC_WAY_ASK_UNWAITED),
                         ZC_FACT_UNWAITED_KNOWN | (on ? ZC_FACT_UNWAITED : 0));
        assert_int_equal(zc_sides_answer(&copy, ZC_WAY_ASK_CPU),
                         ZC_FACT_CPU_KNOWN | (on ? ZC_FACT_CPU : 0));
        assert_int_equal(zc_sides_answer(&copy, ZC_WAY_ASK_IDLE),
                         ZC_FACT_IDLE_KNOWN | (on ? ZC_FACT_IDLE : 0));
        assert_int_equal(zc_sides_answer(&copy, ZC_WAY_ASK_THREADS),
                         ZC_FACT_THREADS_KNOWN | 3u << 28);
    }
}

static void a_copy_that_threads_do_not_make_registers_its_block_after_all(void **state)
{
    (void)state;
    sides(block[0].base, hosted[0].base);
    has.threads = true;
    copy.first = true;
    assert_true(zc_sides_by_threads(&copy));
    expect("");
    has.threads = false;
    copy.first = false;
    assert_false(zc_sides_by_threads(&copy));
    expect("");
    rules[0].async = ZC_ASYNC_STAGED;
    ext[0].pin = ZC_PIN_DONE;
    for (unsigned i = 0; i < 4; i++) {
        copy.first = true;
        copy.async = i & 1;
        ext[0].pin = i & 2 ? ZC_PIN_DONE : ZC_PIN_NONE;
        copy.way = ZC_WAY_THREADS;
        assert_false(zc_sides_by_threads(&copy));
        expect("use0 ");
        assert_int_equal(copy.way, i == 3 ? ZC_WAY_FORWARD_WAIT : ZC_WAY_FORWARD);
    }
    copy.src.extent = NULL;
    sides(hosted[1].base, block[0].base);
    copy.src.extent = NULL;
    zc_sides_by_threads(&copy);
    expect("use1 ");
}

/* Pages that the program has changed are not copied as they were. */
static void changed_pages_are_settled_or_the_copy_is_refused(void **state)
{
    (void)state;
    sides(hosted[1].base, hosted[0].base);
    assert_int_equal(zc_sides_end_stale_pins(&copy), CUDA_SUCCESS);
    expect("");
    has.stale = true;
    assert_int_equal(zc_sides_end_stale_pins(&copy), CUDA_SUCCESS);
    expect("settle1 settle0 ");
    has.stays = true;
    assert_int_equal(zc_sides_end_stale_pins(&copy), CUDA_ERROR_NOT_SUPPORTED);
    expect("settle1 settle0 need1 refuse1 ");
    copy.dst.extent = NULL;
    assert_int_equal(zc_sides_end_stale_pins(&copy), CUDA_ERROR_NOT_SUPPORTED);
    expect("settle0 need0 refuse0 ");
    has.mends = true;
    assert_int_equal(zc_sides_end_stale_pins(&copy), CUDA_SUCCESS);
    expect("settle0 need0 ");
}

static void what_a_graph_reads_is_settled_and_its_late_rule_named(void **state)
{
    const struct zc_rule *late = NULL;
    (void)state;
    assert_int_equal(zc_side_launched(OTHER, 0, &late), CUDA_SUCCESS);
    assert_null(late);
    has.stale = true;
    rules[1].async = ZC_ASYNC_STAGED;
    for (unsigned pin = 0; pin <= ZC_PIN_SHARED; pin++) {
        late = NULL;
        ext[1].pin = pin;
        assert_int_equal(zc_side_launched(hosted[1].base, 0, &late), CUDA_SUCCESS);
        assert_ptr_equal(late, pin == ZC_PIN_DONE ? &rules[1] : NULL);
        expect("settle1 ");
    }
    ext[1].pin = ZC_PIN_DONE;
    has.stays = true;
    assert_int_equal(zc_side_launched(hosted[1].base, 0, NULL), CUDA_ERROR_NOT_SUPPORTED);
    expect("settle1 need1 refuse1 ");
}

/* Held where their stream is known; else they stay for good. */
static void blocks_that_move_are_held_while_they_are_copied(void **state)
{
    (void)state;
    sides(block[0].base, block[1].base);
    zc_sides_hold(&copy);
    assert_false(copy.held);
    expect("");
    has.moves = true;
    zc_sides_hold(&copy);
    assert_true(copy.held);
    expect("enter home0 home1 ");
    assert_int_equal(zc_sides_open(&copy), CUDA_SUCCESS);
    expect("home0 home1 batch ");
    has.captured = true;
    zc_sides_open(&copy);
    expect("never0 never1 batch ");
    has.captured = has.meets = false;
    zc_sides_open(&copy);
    expect("never0 never1 batch ");
    assert_true(movable[0].far == 0 && zc_vmm_counts.far == 0);
    movable[0].vmm.va.device = 3; /* The stream is of another one, 0. */
    zc_sides_open(&copy);
    expect("home0 never1 batch ");
    movable[1].vmm.va.device = 3;
    zc_sides_open(&copy);
    expect("home0 home1 batch ");
    assert_true(movable[0].far == 2 && movable[1].far == 3 && zc_vmm_counts.far == 3);
    zc_real.cuCtxGetDevice = no_device;
    zc_sides_open(&copy);
    expect("never0 never1 batch ");
    has.meets = true;
    rules[1].spill = ZC_SPILL_FETCH;
    zc_sides_open(&copy);
    expect("home0 never1 batch ");
    zc_sides_hold(&copy);
    expect("enter home0 home1 ");
    sides(block[0].base, hosted[0].base);
    zc_sides_hold(&copy);
    expect("enter fill0 ");
    hosted[0].asked = ZC_KIND_PINNED;
    zc_sides_hold(&copy);
    expect("enter fill0 ");
    copy.shape = ZC_SHAPE_SET;
    zc_sides_hold(&copy);
    expect("enter home0 ");
    copy.shape = ZC_SHAPE_LINE;
    sides(hosted[0].base, block[1].base);
    zc_sides_hold(&copy);
    expect("enter home1 ");
    sides(block[0].base, block[1].base);
    has.home = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_sides_open(&copy), CUDA_ERROR_UNKNOWN);
    expect("home0 ");
    has.home = CUDA_SUCCESS;
    has.open = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_sides_open(&copy), CUDA_ERROR_UNKNOWN);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_device_that_reaches_pageable_memory_takes_it_for_its_own),
        TEST(an_address_outside_of_blocks_is_of_the_kind_that_call_and_driver_say),
        TEST(memory_beside_a_block_is_told_where_the_driver_knows_it),
        TEST(a_block_says_what_was_asked_for_and_what_it_is),
        TEST(pageable_memory_named_as_device_memory_is_refused),
        TEST(an_address_is_nobodys_where_no_side_has_it),
        TEST(registered_memory_of_staged_rules_keeps_its_meaning),
        TEST(both_sides_are_visited_until_they_are_parted_from),
        TEST(host_blocks_are_registered_and_what_is_known_of_the_copy_told),
        TEST(the_facts_of_a_copy_are_those_that_hold),
        TEST(each_question_of_the_plan_is_answered_by_who_knows),
        TEST(a_copy_that_threads_do_not_make_registers_its_block_after_all),
        TEST(changed_pages_are_settled_or_the_copy_is_refused),
        TEST(what_a_graph_reads_is_settled_and_its_late_rule_named),
        TEST(blocks_that_move_are_held_while_they_are_copied),
    };
    return RUN_TESTS(tests);
}
