/* SPDX-License-Identifier: MIT */
/* Copies of growing arrays: which stay pending, what makes them, and what makes them needless. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/life.h"
#include "base/module.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "memory/limits.h"
#include "real_test.h"
#include "vmm/grow.h"
#include "vmm/growth.h"
#include "vmm/lazy.h"

#define MIB ((size_t)1 << 20)
#define BASE(i) ((CUdeviceptr)0x10000000 * ((i) + 1))
#define HERE ((CUcontext)0x1000)

/* Three blocks; the neighbours write what they are asked for, with the number of the block. */
static struct zc_vmm vmm[3];
static struct zc_run run_of[3];
static struct zc_backing backing[3];
static struct zc_block entry[3];
static struct zc_growth growth[2];
static struct zc_copy copy;
static char trace[512];
static struct {
    CUresult attach[3], copied, drained, pushes, diagnosed;
    bool locked_out, awaits, awaits_host, capture, off, closing, peers, moves, leaving, no_record;
    bool covered, idle, rests, partly;
    unsigned locks, contexts, transfers, logged;
    CUcontext context;
    enum zc_outcome outcome;
    bool sides[2]; /* Of the last record: destination and source are known. */
    enum zc_log_level level;
    CUresult (*before)(const struct zc_launch *launch);
} has;

static bool note(const char *what, const void *p)
{
    size_t n = strlen(trace);
    int i = p == &vmm[0] || p == &entry[0] ? 0 : p == &vmm[1] || p == &entry[1] ? 1 : p ? 2 : -1;
    if (i < 0)
        snprintf(trace + n, sizeof(trace) - n, "%s ", what);
    else
        snprintf(trace + n, sizeof(trace) - n, "%s%d ", what, i);
    return true;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
}

static void hold(unsigned i, size_t from, size_t to)
{
    run_of[i] = (struct zc_run){from, to};
    vmm[i].va.run = &run_of[i];
    vmm[i].va.count = to > from;
}

static struct zc_block *fake_find(uint64_t address)
{
    for (unsigned i = 0; i < 3; i++)
        if (address == entry[i].base)
            return &entry[i];
    return NULL;
}

static void fake_record(const struct zc_transfer *t)
{
    has.transfers++;
    has.outcome = t->outcome;
    has.sides[0] = t->dst != NULL;
    has.sides[1] = t->src != NULL;
}

static CUresult fake_attach(struct zc_vmm *b, size_t from, size_t to, const char **why)
{
    note("attach", b);
    *why = "no memory";
    if (has.attach[b - vmm] != CUDA_SUCCESS && has.partly)
        hold((unsigned)(b - vmm), from, to);
    if (has.attach[b - vmm] != CUDA_SUCCESS)
        return has.attach[b - vmm];
    if (to > b->held)
        b->held = b->span;
    hold((unsigned)(b - vmm), from, to);
    return CUDA_SUCCESS;
}

static struct zc_growth *fake_begin(struct zc_vmm *new, struct zc_vmm *old)
{
    struct zc_growth *g = growth[0].new ? &growth[1] : &growth[0];
    note("begin", new);
    if (has.no_record)
        return NULL;
    *g = (struct zc_growth){.old = old, .new = new};
    new->as_new = old->as_old = g;
    return g;
}

static void fake_end(struct zc_growth *g)
{
    note("end", g->new);
    g->new->as_new = g->old->as_old = NULL;
    *g = (struct zc_growth){.pending = false};
}

static void fake_inherit(struct zc_growth *g, struct zc_block *b)
{
    note("inherit", b);
    g->new->held = g->old->held;
    g->old->held = 0;
}

static void fake_launch_call(CUresult (*call)(const struct zc_launch *launch))
{
    has.before = call;
}

static CUresult fake_diagnose(const struct zc_vmm *b, CUresult code, const char *why)
{
    note(why, b);
    has.diagnosed = code;
    return code;
}

#define zc_block_find fake_find
#define zc_traffic_record fake_record
#define zc_log_level() has.level
#define zc_log_transfer(t, call) ((void)(t), (void)(call), has.logged++)
#define zc_launch_call(which, call)                                                                \
    (assert_int_equal(which, ZC_LAUNCH_GROW), fake_launch_call(call))
#define zc_growth_begin fake_begin
#define zc_growth_end fake_end
#define zc_growth_inherit fake_inherit
#define zc_lazy_update(b) note("update", b)
#define zc_lazy_attach fake_attach
#define zc_lazy_suspend(b) note("suspend", b)
#define zc_lazy_forget(b) note("forget", b)
#define zc_lazy_keep_promise(b, bytes) (assert_int_equal(bytes, 8 * MIB), note("promise", b))
#define zc_lazy_diagnose(b, fn, code, why) ((void)(fn), fake_diagnose(b, code, why))
#define zc_context_push(context, pushed)                                                           \
    (assert_ptr_equal(context, HERE), *(pushed) = has.pushes == CUDA_SUCCESS,                      \
     has.contexts += *(pushed), has.pushes)
#define zc_context_pop(pushed) (has.contexts -= (pushed))
#define zc_stream_drain(stream, flavour)                                                           \
    (assert_true((stream) == CU_STREAM_LEGACY && (flavour) == ZC_LEGACY), note("drain", NULL),     \
     has.drained)
#define zc_leaving(context) ((void)(context), has.leaving)
#define zc_await_host(fn) ((void)(fn), has.awaits_host)
#define zc_await_any() has.awaits
#define zc_await_note() note("await", NULL)
#define zc_driver_lock() (has.locks += !has.locked_out, !has.locked_out)
#define zc_driver_unlock() (has.locks--)
#include "held_test.h"
#define zc_stream_context(stream, flavour) ((void)(stream), (void)(flavour), has.context)
#define zc_stream_covered() has.covered
#define zc_stream_idle(stream, flavour) (assert_true((stream) == CU_STREAM_LEGACY), has.idle)
#define zc_stream_come_to_rest() has.rests
#define zc_copy_peers(c) ((void)(c), has.peers)
#define zc_capture_any() has.capture
#define zc_life_on() (!has.off)
#define zc_life_closing() has.closing
#define zc_copy_transfer(c)                                                                        \
    ((struct zc_transfer){.dst = (c)->dst.block, .src = (c)->src.block, .bytes = (c)->bytes})
#define zc_copy_call(c) ((void)(c), (struct zc_log_call){.range = "a range"})
#define zc_block_quarantine(b) note("quarantine", b)
#define zc_limits_give(place, device, bytes)                                                       \
    (assert_true((place) == ZC_PLACE_VMM && (device) == 0 && (bytes) == 5 * MIB),                  \
     note("limits", NULL))
#include "../../shim/vmm/grow.c"

static CUresult copy_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    assert_true(dst == BASE(1) && src == BASE(0) && bytes == 5 * MIB);
    assert_true(stream == CU_STREAM_LEGACY && has.contexts == 1);
    note("copy", NULL);
    return has.copied;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&grow, 0, sizeof(grow));
    memset(vmm, 0, sizeof(vmm));
    memset(growth, 0, sizeof(growth));
    trace[0] = 0;
    has.context = HERE;
    has.covered = true;
    for (unsigned i = 0; i < 3; i++) {
        vmm[i].va = (struct zc_va){.base = BASE(i), .size = 64 * MIB, .context = HERE};
        vmm[i].span = (8 + 8 * i) * MIB;
        vmm[i].lazy = vmm[i].grows = vmm[i].open = true;
        backing[i].vmm = &vmm[i];
        entry[i] = (struct zc_block){.base = BASE(i),
                                     .size = 5 * MIB,
                                     .place = ZC_PLACE_VMM,
                                     .flags = ZC_BLOCK_CONVERTED,
                                     .asked = ZC_KIND_DEVICE,
                                     .backing = &backing[i]};
    }
    vmm[0].held = vmm[0].span;
    hold(0, 0, vmm[0].span);
    real_without_driver();
    zc_real.cuMemcpyDtoDAsync_v2 = copy_async;
    zc_life_state = ZC_LIFE_ON; /* As of a process that has started long ago. */
    zc_copy_init(&copy, ZC_FN_cuMemcpyDtoD_v2, ZC_LEGACY);
    copy.shape = ZC_SHAPE_LINE;
    copy.bytes = 5 * MIB;
    copy.dst.block = &entry[1];
    copy.dst.address = BASE(1);
    copy.src.block = &entry[0];
    copy.src.address = BASE(0);
    copy.dst.span = copy.src.span = 5 * MIB;
    return 0;
}

static bool stays_pending(void)
{
    uint32_t facts = zc_grow_facts(&copy);
    assert_int_equal(has.locks, 0);
    assert_int_equal(facts & ZC_FACT_FAILED, 0);
    assert_int_equal(copy.result, CUDA_SUCCESS);
    assert_true(!(facts & ZC_FACT_PENDING) == !grow.pending);
    assert_true(!grow.pending == !has.before);
    return facts & ZC_FACT_PENDING;
}

static void pend(void)
{
    assert_true(stays_pending());
    trace[0] = 0;
}

static void a_copy_into_a_larger_empty_block_stays_pending(void **state)
{
    (void)state;
    assert_true(stays_pending());
    expect("begin1 update0 update1 ");
    assert_true(growth[0].pending && growth[0].transfer.bytes == 5 * MIB);
    assert_string_equal(growth[0].call.range, "a range");
    assert_ptr_equal(growth[0].call.range, growth[0].range);
    assert_int_equal(has.transfers, 0);
}

static void no_other_copy_stays_pending(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 27; i++) {
        anew(NULL);
        vmm[1].grows = i != 0;
        vmm[0].grows = i != 1;
        has.peers = i == 2;
        has.awaits = i == 3;
        copy.bytes = i == 4 ? 2 * MIB : 5 * MIB; /* Less than half. */
        vmm[1].held = i == 5 ? MIB : 0;
        vmm[0].held = i == 6 ? 7 * MIB : 8 * MIB;
        vmm[1].span = i == 7 ? 7 * MIB : i == 8 ? 8 * MIB : 16 * MIB;
        vmm[1].va.size = i == 9 ? 8 * MIB - 1 : i == 10 ? 8 * MIB : 64 * MIB;
        vmm[1].va.device = i == 11;
        vmm[1].va.context = i == 12 ? NULL : HERE;
        vmm[0].rdma = i == 13 ? ZC_RDMA_NO : vmm[1].rdma;
        has.capture = i == 14;
        has.context = i == 15 ? NULL : HERE;
        has.covered = i < 16 || i > 17;
        has.rests = i == 17;
        copy.stream = i == 18   ? (CUstream)5
                      : i == 19 ? CU_STREAM_LEGACY
                      : i == 20 ? (CUstream)5
                                : NULL;
        copy.flavour = i == 21 || i == 22 ? ZC_PER_THREAD : ZC_LEGACY;
        has.idle = i == 20 || i == 22;
        has.no_record = i == 23;
        vmm[0].lazy = i != 24;
        vmm[1].lazy = i != 25;
        has.locked_out = i == 26;
        bool pends_still = i == 8 || i == 10 || i == 17 || i == 19 || i == 20 || i == 22;
        if (stays_pending() != pends_still)
            fail_msg("row %u", i);
    }
    anew(NULL);
    copy.dst.block = &entry[0];
    assert_false(stays_pending());
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        growth[0] = (struct zc_growth){.old = &vmm[2], .new = &vmm[2], .pending = true};
        *(i & 1 ? &vmm[i / 2].as_new : &vmm[i / 2].as_old) = &growth[0];
        assert_false(grows(&copy, &vmm[1], &vmm[0]));
        growth[0].pending = false;
        assert_true(grows(&copy, &vmm[1], &vmm[0]));
    }
    anew(NULL);
    vmm[0].open = false;
    assert_true(stays_pending());
    anew(NULL);
    vmm[1].open = false;
    assert_true(stays_pending());
    anew(NULL);
    vmm[0].open = vmm[1].open = false; /* Nothing is pending of them. */
    assert_false(stays_pending());
    expect("");
}

/* Its memory, the copy, and its record. */
static void a_launch_makes_the_pending_copy(void **state)
{
    const struct zc_launch launch = {.fn = ZC_FN_cuLaunchKernel};
    (void)state;
    pend();
    has.level = ZC_LOG_EVENTS;
    assert_int_equal(has.before(&launch), CUDA_SUCCESS);
    expect("attach1 copy drain end1 update0 update1 ");
    assert_true(has.transfers == 1 && has.outcome == ZC_MOVED && has.logged == 1);
    assert_true(has.sides[0] && has.sides[1] && !grow.pending && !has.before);
    assert_true(has.locks == 0 && has.contexts == 0);
    anew(NULL);
    pend();
    hold(0, 0, MIB);
    assert_int_equal(has.before(&launch), CUDA_SUCCESS);
    expect("attach1 attach0 copy drain end1 update0 update1 ");
    assert_int_equal(has.logged, 0);
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        pend();
        has.awaits_host = i == 0;
        has.locked_out = i == 1;
        has.leaving = i == 2;
        vmm[1].held = i == 3 ? vmm[1].span : 0;
        if (i == 3)
            hold(1, 0, vmm[1].span);
        assert_int_equal(has.before(&launch), CUDA_SUCCESS);
        expect(i == 3 ? "copy drain end1 update0 update1 " : "");
    }
}

static void a_copy_that_fails_is_still_pending_and_told(void **state)
{
    const struct zc_launch launch = {.fn = ZC_FN_cuLaunchKernel};
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        anew(NULL);
        pend();
        hold(0, 0, i == 1 ? 0 : vmm[0].span);
        has.attach[1] = i == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.attach[0] = i == 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.pushes = i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.copied = i == 3 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.drained = i == 4 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        assert_int_equal(has.before(&launch), CUDA_ERROR_OUT_OF_MEMORY);
        expect(i == 0   ? "attach1 no memory1 "
               : i == 1 ? "attach1 attach0 no memory1 "
               : i == 2 ? "attach1 the driver refuses the copy1 "
               : i == 3 ? "attach1 copy the driver refuses the copy1 "
                        : "attach1 copy drain the driver refuses the copy1 ");
        assert_true(grow.pending && growth[0].pending && has.transfers == 0);
        assert_true(has.locks == 0 && has.contexts == 0);
    }
}

static void before_streams_wait_all_copies_are_made_once(void **state)
{
    (void)state;
    pend();
    has.off = true;
    zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2);
    has.off = false;
    has.closing = true;
    zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2);
    has.closing = false;
    has.locked_out = true;
    zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2);
    has.locked_out = false;
    expect("");
    has.capture = true;
    zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2);
    expect("await ");
    has.capture = false;
    has.copied = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2), CUDA_ERROR_UNKNOWN);
    has.copied = CUDA_SUCCESS;
    trace[0] = 0;
    assert_int_equal(zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2), CUDA_SUCCESS);
    expect("await copy drain end1 update0 update1 ");
    assert_int_equal(zc_grow_drain(ZC_FN_cuStreamWaitValue32_v2), CUDA_SUCCESS);
    expect("");
    assert_int_equal(has.locks, 0);
}

static void freed(struct zc_block *b)
{
    note("freed", b);
}

static void a_free_hands_over_or_makes_the_copy(void **state)
{
    bool kept = true;
    (void)state;
    pend();
    assert_int_equal(zc_grow_freeing(&entry[0], freed, &kept), CUDA_SUCCESS);
    expect("inherit0 end1 update0 update1 suspend0 promise1 freed0 quarantine0 limits ");
    assert_true(kept && has.outcome == ZC_ELIDED && has.transfers == 1 && has.locks == 0);
    anew(NULL);
    pend();
    vmm[1].held = MIB; /* A copy that failed gave it memory. */
    assert_int_equal(zc_grow_freeing(&entry[0], freed, &kept), CUDA_SUCCESS);
    expect("attach1 copy drain end1 update0 update1 ");
    assert_true(!kept && has.outcome == ZC_MOVED);
    anew(NULL);
    pend();
    vmm[1].held = MIB;
    has.copied = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_grow_freeing(&entry[0], freed, &kept), CUDA_ERROR_UNKNOWN);
    expect("attach1 copy the driver refuses the copy0 ");
    assert_true(!kept && grow.pending && has.locks == 0);
    anew(NULL);
    pend();
    assert_int_equal(zc_grow_freeing(&entry[1], freed, &kept), CUDA_SUCCESS);
    expect("end1 update0 update1 ");
    assert_true(!kept && has.outcome == ZC_ELIDED);
    anew(NULL);
    pend();
    has.locked_out = true;
    assert_int_equal(zc_grow_freeing(&entry[0], freed, &kept), CUDA_SUCCESS);
    has.locked_out = false;
    vmm[0].lazy = false;
    assert_int_equal(zc_grow_freeing(&entry[0], freed, &kept), CUDA_SUCCESS);
    expect("");
}

static void a_free_in_stream_order_makes_the_copy_out_and_drops_that_in(void **state)
{
    (void)state;
    pend();
    assert_int_equal(zc_grow_leaving(&entry[0]), CUDA_SUCCESS);
    expect("attach1 copy drain end1 update0 update1 forget0 ");
    assert_true(!vmm[0].lazy && has.locks == 0);
    anew(NULL);
    pend();
    assert_int_equal(zc_grow_leaving(&entry[1]), CUDA_SUCCESS);
    expect("end1 update0 update1 forget1 ");
    assert_true(!vmm[1].lazy && has.outcome == ZC_ELIDED);
    anew(NULL);
    pend();
    has.copied = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_grow_leaving(&entry[0]), CUDA_ERROR_UNKNOWN);
    expect("attach1 copy the driver refuses the copy0 ");
    assert_true(vmm[0].lazy && has.locks == 0);
    has.locked_out = true;
    assert_int_equal(zc_grow_leaving(&entry[0]), CUDA_SUCCESS);
    assert_true(vmm[0].lazy);
}

static void a_block_that_goes_leaves_no_copy(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        pend();
        entry[!i].base = 0; /* The ledger has forgotten it. */
        has.locked_out = i;
        zc_grow_forget(&vmm[i]);
        expect(i ? "end1 update0 update1 forget1 " : "end1 update0 update1 forget0 ");
        assert_true(has.outcome == ZC_ELIDED && !grow.pending && has.locks == 0);
        assert_true(has.sides[0] == i && has.sides[1] == !i);
    }
    anew(NULL);
    pend();
    zc_module_grow.finish();
    assert_true(!grow.pending && has.transfers == 1 && has.outcome == ZC_ELIDED);
}

/* Before a call reads or writes a block: what it needs, and no more. */
static void a_side_is_made_ready_for_a_call(void **state)
{
    (void)state;
    pend();
    copy.shape = ZC_SHAPE_SET;
    copy.src.block = NULL;
    copy.dst.block = &entry[0]; /* A set overwrites what the pending copy reads. */
    copy.dst.address = BASE(0);
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("attach1 copy drain end1 update0 update1 ");
    anew(NULL);
    pend();
    copy.dst.block = NULL;
    copy.src.address = BASE(0) + MIB; /* Reads leave it pending. */
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("");
    copy.src.block = &entry[1];
    copy.src.address = BASE(1);
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("attach1 copy drain end1 update0 update1 ");
    anew(NULL);
    copy.dst.block = NULL;
    copy.src.block = &entry[1];
    copy.src.address = BASE(1) + MIB;
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("attach1 ");
    assert_true(run_of[1].from == MIB && run_of[1].to == 6 * MIB);
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("");
    growth[0].mapped = true;
    vmm[1].as_new = &growth[0]; /* Another block has its memory there. */
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("attach1 ");
    hold(1, 0, 0);
    vmm[1].as_new = NULL;
    has.attach[1] = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_grow_facts(&copy), ZC_FACT_FAILED);
    expect("attach1 no memory1 ");
    assert_true(copy.answered && copy.result == CUDA_ERROR_OUT_OF_MEMORY && has.locks == 0);
    vmm[1].open = false;
    assert_int_equal(zc_grow_facts(&copy), 0);
    expect("");
}

static void a_question_about_a_block_makes_it_whole(void **state)
{
    (void)state;
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    expect("attach1 ");
    assert_true(run_of[1].from == 0 && run_of[1].to == vmm[1].span && has.locks == 0);
    anew(NULL);
    has.closing = true;
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    has.closing = false;
    has.locked_out = true;
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    has.locked_out = false;
    vmm[1].open = false;
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    expect("");
    vmm[1].open = true;
    has.attach[1] = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_ERROR_OUT_OF_MEMORY);
    expect("attach1 no memory1 ");
    has.partly = true; /* It had that before. */
    assert_int_equal(zc_grow_materialize(&entry[1], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    anew(NULL);
    pend();
    assert_int_equal(zc_grow_materialize(&entry[0], ZC_FN_cuMemFree_v2), CUDA_SUCCESS);
    expect("attach1 copy drain end1 update0 update1 "); /* It may be written. */
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_into_a_larger_empty_block_stays_pending),
        TEST(no_other_copy_stays_pending),
        TEST(a_launch_makes_the_pending_copy),
        TEST(a_copy_that_fails_is_still_pending_and_told),
        TEST(before_streams_wait_all_copies_are_made_once),
        TEST(a_free_hands_over_or_makes_the_copy),
        TEST(a_free_in_stream_order_makes_the_copy_out_and_drops_that_in),
        TEST(a_block_that_goes_leaves_no_copy),
        TEST(a_side_is_made_ready_for_a_call),
        TEST(a_question_about_a_block_makes_it_whole),
    };
    return RUN_TESTS(tests);
}
