/* SPDX-License-Identifier: MIT */
/* Lazy blocks: which are admitted, what is promised, the list of those with something pending, and
 * when memory is attached. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/message.h"
#include "driver/await.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "ledger/rules.h"
#include "log/refusals.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "real_test.h"
#include "vmm/access.h"
#include "vmm/growth.h"

#define MIB ((size_t)1 << 20)
#define UNIT (2 * MIB)
#define CONTEXT ((CUcontext)0x1000)

/* The neighbours.  Attaching gives a block the memory from `held` up to its span and the ahead. */
static struct {
    char trace[400], said[300];
    unsigned locks, relaxed, lent;
    bool locked_out, awaits, leaves, unrelated, no_block, enters;
    uint64_t ticks, free, taken;
    size_t headroom, largest, largest_any;
    CUresult attach, attach_ahead, detach, arrive, create, unmap, reserve, device;
    int on;
    zc_launch_fn launch;
    unsigned refusals, watched;
} has;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t n = strlen(has.trace);
    vsnprintf(has.trace + n, sizeof(has.trace) - n, fmt, args);
    va_end(args);
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void fake_unlock(void)
{
    has.locks--;
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

static uint64_t fake_free(int device)
{
    say("free%d ", device);
    return has.free;
}

static CUresult fake_attach(struct zc_vmm *v, size_t from, size_t to, size_t ahead,
                            const char **why)
{
    assert_int_equal(from % UNIT, 0);
    say("attach %zu-%zu+%zu ", from / MIB, to / MIB, ahead / MIB);
    CUresult result = ahead ? has.attach_ahead : has.attach;
    *why = "the driver says so";
    if (result == CUDA_SUCCESS) {
        if (to > v->held)
            v->held = v->span + ahead;
        v->va.count = 1;
        v->va.run->from = 0;
        v->va.run->to = to > v->va.run->to ? to : v->va.run->to;
    }
    return result;
}

static CUresult fake_detach(struct zc_vmm *v, const char **why)
{
    (void)v;
    say("detach ");
    *why = "it is not detached";
    return has.detach;
}

static CUresult fake_arrive(struct zc_vmm *v)
{
    (void)v;
    say("arrive ");
    return has.arrive;
}

static CUresult fake_create(struct zc_vmm *v, size_t ahead)
{
    assert_int_equal(ahead, 0);
    if (has.create == CUDA_SUCCESS)
        v->held = v->span;
    return has.create;
}

static CUresult fake_drop_chunks(struct zc_vmm *v, unsigned count)
{
    assert_int_equal(count, 0);
    say("drop ");
    v->held = 0;
    return CUDA_SUCCESS;
}

static CUresult fake_unmap(struct zc_va *va)
{
    say("unmap ");
    va->count = has.unmap == CUDA_SUCCESS ? 0 : va->count;
    return has.unmap;
}

static bool fake_holds(const struct zc_va *va, size_t from, size_t to)
{
    return va->count && va->run->from <= from && to <= va->run->to;
}

static CUresult fake_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                             const char **why)
{
    assert_int_equal(granularity, UNIT);
    say("reserve %zu%s ", span / MIB, wide ? " wide" : "");
    *why = "cuMemAddressReserve refuses";
    if (has.reserve == CUDA_SUCCESS)
        va->base = 0x10000;
    return has.reserve;
}

static void fake_enter(struct zc_vmm *v)
{
    static struct zc_growth step;
    say("enter ");
    v->as_new = has.enters ? &step : NULL;
}

static void fake_leave(struct zc_vmm *v)
{
    (void)v;
    say("leave ");
}

static void fake_count(const struct zc_vmm *v, size_t held)
{
    say("count %zu->%zu ", held / MIB, v->held / MIB);
}

static size_t fake_largest(int device, CUcontext context, size_t span)
{
    say("largest%d ", device);
    assert_true(context ? context == CONTEXT : span == SIZE_MAX);
    return context ? has.largest : has.largest_any;
}

static CUresult get_device(CUdevice *device)
{
    *device = has.on;
    return has.device;
}

static struct zc_block block = {.id = 77, .size = 5, .base = 0x10000};
static struct zc_rule rules[2] = {{.name = "zero"}, {.name = "one", .line = 12}};
static const struct zc_policy rule_set = {.rules = rules, .rule_count = 2, .file = "p.conf"};

static struct zc_block *fake_find(uint64_t address)
{
    assert_int_equal(address, 0x10000);
    return has.no_block ? NULL : &block;
}

static void fake_refusal(const struct zc_policy *policy, const struct zc_rule *rule)
{
    assert_true(policy == &rule_set && rule == &rules[1]);
    has.refusals++;
}

static void fake_launch_call(enum zc_launch_party party, zc_launch_fn fn)
{
    assert_int_equal(party, ZC_LAUNCH_LAZY);
    has.launch = fn;
    has.watched++;
}

static void fake_message(enum zc_severity severity, const char *code, const char *fmt, ...)
{
    va_list args;
    assert_int_equal(severity, ZC_ERROR);
    assert_string_equal(code, "late");
    assert_string_equal(
        fmt, "%s returned %u: block %U (%B at %x) gets its memory lazily by rule %s (%s:%u), and "
             "%s; with 'commit = eager' and without 'grow' its request takes the next place");
    va_start(args, fmt);
    const char *fn = va_arg(args, const char *);
    unsigned result = va_arg(args, unsigned);
    uint64_t id = va_arg(args, uint64_t), size = va_arg(args, uint64_t);
    uint64_t base = va_arg(args, uint64_t);
    const char *rule = va_arg(args, const char *), *file = va_arg(args, const char *);
    unsigned line = va_arg(args, unsigned);
    const char *why = va_arg(args, const char *);
    va_end(args);
    snprintf(has.said, sizeof(has.said), "%s %u %d %d %x %s %s:%u %s", fn, result, (int)id,
             (int)size, (unsigned)base, rule, file, line, why);
}

#define zc_driver_lock fake_lock
#define zc_driver_unlock fake_unlock
#include "held_test.h"
#define zc_capture_relax fake_relax
#define zc_capture_restore fake_restore
#define zc_ticks() has.ticks
#define zc_ticks_to_ns(ticks) ((ticks)*1000)
#define zc_limits_on_devices() has.taken
#define zc_device_free fake_free
#define zc_vmm_attach fake_attach
#define zc_growth_detach fake_detach
#define zc_vmm_arrive fake_arrive
#define zc_vmm_create fake_create
#define zc_vmm_drop_chunks fake_drop_chunks
#define zc_va_unmap fake_unmap
#define zc_va_holds fake_holds
#define zc_vmm_whole(v) ((v)->held >= (v)->span && fake_holds(&(v)->va, 0, (v)->span))
#define zc_access_reserve fake_reserve
#define zc_growth_enter fake_enter
#define zc_growth_leave fake_leave
#define zc_growth_count fake_count
#define zc_growth_headroom(v) has.headroom
#define zc_growth_largest fake_largest
#define zc_block_find fake_find
#define zc_refusal_count fake_refusal
#define zc_rules() (&rule_set)
#define zc_error_unrelated(code) has.unrelated
#define zc_await_host(fn) (assert_int_equal(fn, ZC_FN_cuLaunchKernel), has.awaits)
#define zc_leaving(context) ((context) == CONTEXT && has.leaves)
#define zc_launch_call fake_launch_call
#define zc_message fake_message
#include "../../shim/vmm/lazy.c"

static struct zc_movable records[3];
static struct zc_run runs[3];
static struct zc_rule rule;
static const char *why;

/* Block `i`, of so many MiB, on device 3. */
static struct zc_vmm *new_block(unsigned i, size_t mib)
{
    struct zc_vmm *v = &records[i].vmm;
    memset(&records[i], 0, sizeof(records[i]));
    runs[i] = (struct zc_run){0, 0};
    v->va.run = &runs[i];
    v->va.device = 3;
    v->va.context = CONTEXT;
    v->span = mib * MIB;
    v->granularity = UNIT;
    v->rule = &rule;
    v->lazy = true;
    return v;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&lazy, 0, sizeof(lazy));
    memset(&rule, 0, sizeof(rule));
    memset(&zc_vmm_counts, 0, sizeof(zc_vmm_counts));
    rule.spill = ZC_SPILL_NONE;
    block.rule = 1;
    real_without_driver();
    zc_real.cuCtxGetDevice = get_device;
    has.on = 3;
    has.ticks = 1000000;
    return 0;
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    assert_true(has.locks == 0 && has.relaxed == 0);
    has.trace[0] = 0;
}

static size_t promised(void)
{
    return zc_lazy_promised(3) / MIB;
}

static void a_block_is_promised_its_memory_until_it_has_it(void **state)
{
    (void)state;
    struct zc_vmm *a = new_block(0, 10), *b = new_block(1, 6);
    assert_int_equal(zc_lazy_admit(a, &why), CUDA_SUCCESS);
    expect("reserve 10 ");
    assert_true(lazy.open == a && a->open && has.launch == lazy_before_launch);
    assert_int_equal(zc_lazy_admit(b, &why), CUDA_SUCCESS);
    assert_true(lazy.open == b && b->next == a && promised() == 16);
    expect("reserve 6 ");
    assert_int_equal(zc_lazy_promised(2), 0);
    lazy.answer.device = 7; /* It lies behind the promises. */
    assert_int_equal(zc_lazy_promised(ZC_DEVICES), 0);
    zc_lazy_keep_promise(a, MIB);
    assert_int_equal(promised(), 15);
    zc_lazy_keep_promise(a, (size_t)-1 * MIB);
    assert_int_equal(zc_lazy_attach(a, 0, a->span, &why), CUDA_SUCCESS);
    expect("detach attach 0-10+0 count 0->10 ");
    assert_true(promised() == 6 && !a->open && lazy.open == b && !b->next);
    assert_non_null(has.launch);
    zc_lazy_forget(b);
    expect("leave ");
    assert_true(promised() == 0 && !b->open && !lazy.open && !has.launch);
    zc_lazy_forget(a);
    assert_int_equal(promised(), 0);
}

static void what_is_pending_keeps_a_block_in_the_list(void **state)
{
    static struct zc_growth step;
    (void)state;
    struct zc_vmm *a = new_block(0, 10);
    a->va.count = 1;
    a->va.run->to = a->span;
    a->held = a->span;
    zc_lazy_update(a);
    assert_false(a->open);
    for (unsigned i = 0; i < 2; i++) {
        *(i ? &a->as_new : &a->as_old) = &step;
        step.pending = true;
        zc_lazy_update(a);
        zc_lazy_update(a);
        assert_true(a->open && lazy.open == a && !a->next && zc_lazy_pending(a));
        step.pending = false;
        zc_lazy_update(a);
        zc_lazy_update(a);
        assert_true(!a->open && !lazy.open && !has.launch);
    }
    a->held--;
    zc_lazy_update(a);
    assert_true(a->open);
    a->held++;
    a->va.run->to--;
    zc_lazy_update(a);
    assert_true(a->open);
    zc_lazy_suspend(a);
    assert_true(!a->open && !lazy.open);
    expect("");
}

/* Launches map those that they name. */
static void blocks_that_are_fetched_are_counted_and_not_listed(void **state)
{
    (void)state;
    rule.spill = ZC_SPILL_FETCH;
    struct zc_vmm *a = new_block(0, 10);
    a->moves = true;
    for (unsigned i = 0; i < 2; i++) {
        zc_lazy_update(a);
        assert_true(a->open && !lazy.open && zc_vmm_counts.away == 1 && !has.launch);
    }
    for (unsigned i = 0; i < 2; i++) {
        zc_lazy_suspend(a);
        assert_true(!a->open && zc_vmm_counts.away == 0 && !has.launch);
    }
    a->moves = false;
    zc_lazy_update(a);
    assert_true(lazy.open == a && zc_vmm_counts.away == 0);
}

static void a_block_is_admitted_where_the_device_has_room(void **state)
{
    static const struct {
        size_t mib, promised, free, largest;
        enum zc_spill spill;
        bool grows, enters, fits;
        const char *calls;
    } rows[] = {
        {62, 0, 0, 0, ZC_SPILL_NONE, 0, 0, true, "reserve 62 "},
        {64, 0, 63, 0, ZC_SPILL_NONE, 0, 0, false, "free3 "},
        {64, 0, 64, 0, ZC_SPILL_NONE, 0, 0, true, "free3 reserve 64 "},
        {64, 8, 71, 0, ZC_SPILL_NONE, 0, 0, false, "free3 "},
        {64, 8, 72, 0, ZC_SPILL_NONE, 0, 0, true, "free3 reserve 64 "},
        {2, 0, 1, 0, ZC_SPILL_MOVE, 0, 0, false, "free3 "},
        {2, 0, 2, 0, ZC_SPILL_MOVE, 0, 0, true, "free3 reserve 2 "},
        {64, 0, 4, 60, ZC_SPILL_NONE, 0, 0, false, "free3 "},
        {64, 0, 4, 60, ZC_SPILL_NONE, 1, 0, true, "free3 largest3 enter reserve 64 wide "},
        {64, 0, 4, 60, ZC_SPILL_NONE, 1, 1, true, "free3 largest3 enter "},
        {64, 0, 4, 59, ZC_SPILL_NONE, 1, 0, false, "free3 largest3 free3 "},
        {64, 0, 0, 64, ZC_SPILL_NONE, 1, 1, true, "free3 largest3 enter "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_vmm *v = new_block(0, rows[i].mib);
        lazy.promised[3] = rows[i].promised * MIB;
        has.free = rows[i].free * MIB;
        has.largest = rows[i].largest * MIB;
        has.enters = rows[i].enters;
        rule.spill = rows[i].spill;
        v->grows = rows[i].grows;
        assert_int_equal(zc_lazy_admit(v, &why),
                         rows[i].fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
        expect(rows[i].calls);
        if (!rows[i].fits)
            assert_string_equal(why, "more than the device has free");
        assert_int_equal(promised(), rows[i].promised + (rows[i].fits ? rows[i].mib : 0));
        assert_int_equal(v->open, rows[i].fits);
    }
}

/* Such blocks take more than limits count, so an answer of before says nothing. */
static void a_block_that_may_move_is_admitted_by_a_fresh_answer(void **state)
{
    (void)state;
    has.free = 100 * MIB;
    assert_true(lazy_has_room(3, MIB, 0));
    has.trace[0] = 0;
    struct zc_vmm *v = new_block(0, 64);
    assert_int_equal(zc_lazy_admit(v, &why), CUDA_SUCCESS);
    expect("reserve 64 ");
    rule.spill = ZC_SPILL_MOVE;
    v = new_block(1, 2);
    assert_int_equal(zc_lazy_admit(v, &why), CUDA_SUCCESS);
    expect("free3 reserve 2 ");
}

static void a_block_that_is_not_entered_is_promised_nothing(void **state)
{
    (void)state;
    struct zc_vmm *v = new_block(0, 10);
    has.locked_out = true;
    assert_int_equal(zc_lazy_admit(v, &why), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(why, "called from a signal handler");
    has.locked_out = false;
    expect("");
    has.reserve = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_lazy_admit(v, &why), CUDA_ERROR_INVALID_VALUE);
    assert_string_equal(why, "cuMemAddressReserve refuses");
    expect("reserve 10 ");
    assert_true(promised() == 0 && !v->open);
    has.reserve = CUDA_SUCCESS;
    v->va.base = 0x2000; /* Addresses that it was given; its memory is not its own yet. */
    assert_int_equal(zc_lazy_admit(v, &why), CUDA_SUCCESS);
    assert_true(promised() == 10 && !v->open);
    expect("reserve 10 ");
}

/* Of the last answer, less what the program has taken since; for so long and of that device. */
static void the_driver_is_asked_again_when_its_answer_is_old_or_says_no(void **state)
{
    (void)state;
    has.free = 100 * MIB;
    has.taken = 50;
    assert_true(lazy_has_room(3, 100 * MIB, 0));
    expect("free3 ");
    assert_true(lazy_has_room(3, 100 * MIB, 0));
    expect("");
    has.taken = 40; /* It gave some back, which is not counted. */
    assert_true(lazy_has_room(3, 100 * MIB, 0));
    expect("");
    has.taken = 51;
    assert_true(lazy_has_room(3, 100 * MIB - 1, 0));
    expect("");
    assert_true(lazy_has_room(3, 100 * MIB, 0));
    expect("free3 ");
    assert_true(lazy_has_room(3, 101 * MIB, MIB) && lazy_has_room(3, 5 * MIB, 6 * MIB));
    expect("");
    assert_false(lazy_has_room(3, 102 * MIB, MIB));
    expect("free3 ");
    assert_true(lazy_has_room(4, MIB, 0));
    expect("free4 ");
    has.ticks += 10000;
    assert_true(lazy_has_room(4, MIB, 0));
    expect("");
    has.ticks++;
    assert_true(lazy_has_room(4, MIB, 0));
    expect("free4 ");
    has.taken += 200 * MIB; /* More than was free. */
    assert_false(surely_free(4) != 0);
    lazy.answer.ticks = 0;
    has.taken = 0;
    assert_int_equal(surely_free(4), 0);
    assert_true(lazy_has_room(4, 7, 7));
    expect("");
}

static void headroom_takes_nothing_that_was_promised(void **state)
{
    static const struct {
        size_t others, free;
        CUresult device;
        int on;
        const char *calls;
    } rows[] = {
        {0, 0, CUDA_SUCCESS, 3, "detach attach 0-10+4 count 0->14 "},
        {2, 16, CUDA_SUCCESS, 3, "detach free3 attach 0-10+4 count 0->14 "},
        {2, 15, CUDA_SUCCESS, 3, "detach free3 attach 0-10+0 count 0->10 "},
        {2, 99, CUDA_ERROR_INVALID_CONTEXT, 3, "detach attach 0-10+0 count 0->10 "},
        {2, 99, CUDA_SUCCESS, 2, "detach attach 0-10+0 count 0->10 "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_vmm *v = new_block(0, 10);
        lazy.promised[3] = (10 + rows[i].others) * MIB;
        has.headroom = 4 * MIB;
        has.free = rows[i].free * MIB;
        has.device = rows[i].device;
        has.on = rows[i].on;
        assert_int_equal(zc_lazy_attach(v, 0, v->span, &why), CUDA_SUCCESS);
        expect(rows[i].calls);
        assert_int_equal(promised(), rows[i].others);
    }
}

static void headroom_that_the_driver_refuses_is_left_out(void **state)
{
    (void)state;
    struct zc_vmm *v = new_block(0, 10);
    lazy.promised[3] = 10 * MIB;
    lazy.answer.ticks = 5;
    has.headroom = 4 * MIB;
    has.attach_ahead = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_lazy_attach(v, 2 * MIB, 4 * MIB, &why), CUDA_SUCCESS);
    expect("detach attach 2-4+4 attach 2-4+0 count 0->10 ");
    assert_int_equal(lazy.answer.ticks, 0);
    lazy.answer.ticks = 5; /* It has memory for all of that: no headroom. */
    assert_int_equal(zc_lazy_attach(v, 4 * MIB, 10 * MIB, &why), CUDA_SUCCESS);
    expect("detach attach 4-10+0 count 10->10 ");
    assert_int_equal(lazy.answer.ticks, 5);
}

static void whatever_fails_the_rest_stays_promised(void **state)
{
    (void)state;
    struct zc_vmm *v = new_block(0, 10);
    lazy.promised[3] = 10 * MIB;
    has.attach = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_lazy_attach(v, 0, 2 * MIB, &why), CUDA_ERROR_UNKNOWN);
    expect("detach attach 0-2+0 count 0->0 ");
    has.detach = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(zc_lazy_attach(v, 0, 2 * MIB, &why), CUDA_ERROR_INVALID_VALUE);
    expect("detach ");
    assert_string_equal(why, "it is not detached");
    assert_true(promised() == 10 && v->open);
    has.detach = CUDA_SUCCESS;
    has.attach = CUDA_SUCCESS;
    v->moves = true; /* It is whole, or not at all. */
    assert_int_equal(zc_lazy_attach(v, 2 * MIB, 4 * MIB, &why), CUDA_SUCCESS);
    expect("arrive attach 0-10+0 count 0->10 ");
    has.arrive = CUDA_ERROR_NOT_READY;
    assert_int_equal(zc_lazy_attach(v, 2 * MIB, 4 * MIB, &why), CUDA_ERROR_NOT_READY);
    expect("arrive ");
}

static void memory_is_created_and_taken_back(void **state)
{
    (void)state;
    struct zc_vmm *v = new_block(0, 10);
    lazy.promised[3] = 12 * MIB;
    has.create = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_lazy_create(v), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(promised(), 12);
    has.create = CUDA_SUCCESS;
    assert_int_equal(zc_lazy_create(v), CUDA_SUCCESS);
    assert_int_equal(promised(), 2);
    has.unmap = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_lazy_empty(v), CUDA_ERROR_UNKNOWN);
    expect("unmap ");
    assert_int_equal(promised(), 2);
    has.unmap = CUDA_SUCCESS;
    v->open = false;
    assert_int_equal(zc_lazy_empty(v), CUDA_SUCCESS);
    expect("unmap drop ");
    assert_true(promised() == 12 && v->open);
    v->held = 4 * MIB; /* The other six are promised. */
    lazy.promised[3] = 8 * MIB;
    assert_int_equal(zc_lazy_empty(v), CUDA_SUCCESS);
    assert_int_equal(promised(), 12);
}

static const struct zc_launch launch = {.fn = ZC_FN_cuLaunchKernel};

static void a_launch_attaches_all_that_is_pending(void **state)
{
    (void)state;
    struct zc_vmm *v[3];
    for (unsigned i = 0; i < 3; i++) {
        v[i] = new_block(i, 4 + 2 * i);
        zc_lazy_admit(v[i], &why);
    }
    has.trace[0] = 0;
    has.awaits = true;
    assert_int_equal(has.launch(&launch), CUDA_SUCCESS);
    has.awaits = false;
    has.locked_out = true;
    assert_int_equal(has.launch(&launch), CUDA_SUCCESS);
    has.locked_out = false;
    expect("");
    has.leaves = true;
    v[1]->va.context = (CUcontext)0x2000;
    assert_int_equal(has.launch(&launch), CUDA_SUCCESS);
    expect("detach attach 0-6+0 count 0->6 ");
    has.leaves = false;
    has.attach = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(has.launch(&launch), CUDA_ERROR_OUT_OF_MEMORY);
    expect("detach attach 0-8+0 count 0->0 ");
    assert_string_equal(has.said, "cuLaunchKernel 2 77 5 10000 one p.conf:12 the driver says so");
    assert_int_equal(has.refusals, 1);
    has.attach = CUDA_SUCCESS;
    zc_launch_fn fn = has.launch;
    assert_int_equal(fn(&launch), CUDA_SUCCESS);
    expect("detach attach 0-8+0 count 0->8 detach attach 0-4+0 count 0->4 ");
    assert_true(!lazy.open && promised() == 0 && !has.launch && has.refusals == 1);
}

static void only_refusals_of_blocks_by_a_rule_are_explained(void **state)
{
    (void)state;
    struct zc_vmm *v = new_block(0, 10);
    v->va.base = 0x10000;
    for (unsigned i = 0; i < 4; i++) {
        has.unrelated = i == 0;
        has.no_block = i == 1;
        block.rule = i == 2 ? -1 : 1;
        assert_int_equal(zc_lazy_diagnose(v, ZC_FN_cuMemcpyHtoD_v2, (CUresult)9, "so"), 9);
        assert_int_equal(has.refusals, i == 3);
    }
    assert_string_equal(has.said, "cuMemcpyHtoD_v2 9 77 5 10000 one p.conf:12 so");
    memset(has.said, 0, sizeof(has.said));
    block.rule = 0;
    has.no_block = true;
    zc_lazy_diagnose(v, ZC_FN_cuMemcpyHtoD_v2, (CUresult)9, "so");
    assert_string_equal(has.said, "");
}

/* If too little would be left, everything of that device is attached first. */
static void a_request_of_the_programs_own_comes_behind_what_was_promised(void **state)
{
    static const struct {
        size_t bytes, free, largest;
        const char *calls;
    } rows[] = {
        {UNIT, 12 * MIB, 0, "free3 "},
        {UNIT - 1, 12 * MIB, 0, "free3 "},
        {1, 10 * MIB + ZC_BLOCK_UNIT, 0, "free3 "},
        {UNIT, 12 * MIB - 1, 0, "free3 largest3 free3 detach attach 0-10+0 count 0->10 "},
        {UNIT, 5 * MIB, 7 * MIB, "free3 largest3 "},
        {UNIT, 5 * MIB, 7 * MIB - 1, "free3 largest3 free3 detach attach 0-10+0 count 0->10 "},
        {SIZE_MAX / 2, 12 * MIB, 0, "free3 largest3 free3 detach attach 0-10+0 count 0->10 "},
        {SIZE_MAX, 12 * MIB, 0, "free3 largest3 free3 detach attach 0-10+0 count 0->10 "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_vmm *a = new_block(0, 10), *other = new_block(1, 4);
        other->va.device = 2;
        zc_lazy_admit(a, &why);
        zc_lazy_admit(other, &why);
        has.trace[0] = 0;
        has.free = rows[i].free;
        has.largest_any = rows[i].largest;
        zc_lazy_before_request(3, rows[i].bytes);
        expect(rows[i].calls);
        assert_true(other->open);
        has.locked_out = true;
        zc_lazy_before_request(3, rows[i].bytes);
        has.locked_out = false;
        zc_lazy_before_request(1, rows[i].bytes);
        expect("");
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_block_is_promised_its_memory_until_it_has_it),
        TEST(what_is_pending_keeps_a_block_in_the_list),
        TEST(blocks_that_are_fetched_are_counted_and_not_listed),
        TEST(a_block_is_admitted_where_the_device_has_room),
        TEST(a_block_that_may_move_is_admitted_by_a_fresh_answer),
        TEST(a_block_that_is_not_entered_is_promised_nothing),
        TEST(the_driver_is_asked_again_when_its_answer_is_old_or_says_no),
        TEST(headroom_takes_nothing_that_was_promised),
        TEST(headroom_that_the_driver_refuses_is_left_out),
        TEST(whatever_fails_the_rest_stays_promised),
        TEST(memory_is_created_and_taken_back),
        TEST(a_launch_attaches_all_that_is_pending),
        TEST(only_refusals_of_blocks_by_a_rule_are_explained),
        TEST(a_request_of_the_programs_own_comes_behind_what_was_promised),
    };
    return RUN_TESTS(tests);
}
