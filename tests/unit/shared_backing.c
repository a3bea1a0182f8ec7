/* SPDX-License-Identifier: MIT */
/* The way of a device block of `shared` from one backing to the other: the order of its calls, and
 * what each of them that fails leaves behind. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/life.h"
#include "base/lock.h"
#include "base/memory.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "host/pinned.h"
#include "memory/device.h"
#include "memory/place.h"
#include "real_test.h"
#include "shared/early.h"
#include "shared/reach.h"
#include "shared/report.h"
#include "vmm/grow.h"
#include "vmm/lazy.h"
#include "vmm/move.h"

#define DEVICE ((CUdeviceptr)0x40000000)
#define WINDOW ((uintptr_t)0xc0000000)
#define SPAN (3 * ZC_HOST_UNIT)
#define CONTEXT ((CUcontext)0x1000)
#define EARLY ((struct zc_early *)0x77)

static struct zc_extent pages;
static struct zc_vmm vmm;
static struct zc_shared both;
static struct zc_block block;

/* The neighbours; each says that it was called. */
static struct {
    char trace[400];
    unsigned locks, words, entered, relaxed, captures; /* `captures`: from which question on. */
    bool locked_out, awaits, closing, no_rest, no_pin_end, private, no_show, ready, stays_shared;
    bool leaves;
    CUresult wait, empty, create, move, unregister, attach, grow;
    enum zc_extent_pin pin, released;
    const char *why, *refused;
    uint32_t reach;
    bool no_read_only, two_addresses, no_pagemap;
} has;

static bool note(const char *what)
{
    size_t n = strlen(has.trace);
    snprintf(has.trace + n, sizeof(has.trace) - n, "%s ", what);
    return true;
}

static CUresult say(const char *what, CUresult result)
{
    note(what);
    return result;
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void fake_word_lock(uint32_t *word)
{
    assert_true(word == &both.owner && has.words == 0);
    has.words++;
}

static void fake_word_unlock(uint32_t *word)
{
    assert_true(word == &both.owner && has.words == 1);
    has.words--;
}

static bool fake_captures(void)
{
    return has.captures && --has.captures == 0;
}

static bool fake_enter(CUcontext context, bool *entered)
{
    assert_true(context == CONTEXT && has.relaxed == 1);
    has.entered++;
    *entered = true;
    return true;
}

static void fake_leave(bool entered)
{
    assert_true(entered && has.relaxed == 1);
    has.entered--;
}

static CUresult fake_wait(CUcontext context)
{
    assert_ptr_equal(context, CONTEXT);
    return say("wait", has.wait);
}

static CUresult fake_empty(struct zc_vmm *v)
{
    assert_ptr_equal(v, &vmm);
    v->held = has.empty == CUDA_SUCCESS ? 0 : v->held;
    return say("empty", has.empty);
}

static void fake_reserve(uintptr_t at, size_t span)
{
    assert_true(at == DEVICE && span == SPAN);
    note("reserve");
}

static int fake_unmap(void *at, size_t span)
{
    assert_true((uintptr_t)at == WINDOW && span == SPAN);
    note("unmap");
    return 0;
}

static void fake_release(struct zc_extent *e, enum zc_extent_pin pin)
{
    assert_ptr_equal(e, &pages);
    has.released = pin;
    note("release");
}

static bool fake_end(struct zc_early *early, const struct zc_extent *e)
{
    assert_ptr_equal(early, EARLY);
    note(e ? "end" : "end0");
    return e && has.ready;
}

static bool fake_register(struct zc_extent *e, CUdeviceptr base, uintptr_t *window,
                          const char **why)
{
    assert_true(e == &pages && base == DEVICE && window == &both.window);
    note("register");
    *why = has.no_show ? "the driver registers nothing" : *why;
    return !has.no_show;
}

static CUresult fake_unregister(void *at)
{
    assert_int_equal((uintptr_t)at, DEVICE);
    return say("unregister", has.unregister);
}

static CUresult fake_attach(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    assert_true(v == &vmm && from == 0 && to == SPAN && has.words == 0);
    *why = "nothing is attached";
    return say("attach", has.attach);
}

static CUresult fake_move_in(struct zc_vmm *v, size_t span, const char **why)
{
    assert_true(v == &vmm && span == SPAN && has.words == 1);
    *why = "it does not move";
    return say("move", has.move);
}

static CUresult fake_refused(const struct zc_shared *p, enum zc_fn fn, CUresult code,
                             const char *why)
{
    assert_true(p == &both && fn == ZC_FN_cuMemAlloc_v2);
    has.refused = why;
    return code == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

static CUresult fake_diagnose(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why)
{
    assert_true(v == &vmm && fn == ZC_FN_cuLaunchKernel);
    assert_string_equal(why, "nothing is attached");
    return say("diagnose", code);
}

static struct zc_shared *fake_find(bool (*wanted)(const struct zc_shared *))
{
    return wanted(&both) ? &both : NULL;
}

static bool fake_pagemap(const char **why)
{
    *why = has.no_pagemap ? "the kernel does not say" : NULL;
    return !has.no_pagemap;
}

#define zc_driver_lock fake_lock
#define zc_driver_unlock() (assert_int_equal(has.words, 0), has.locks--)
#include "held_test.h"
#define zc_word_lock fake_word_lock
#define zc_word_unlock fake_word_unlock
#define zc_capture_any fake_captures
#define zc_capture_relax() (has.relaxed++, (CUstreamCaptureMode)5)
#define zc_capture_restore(mode) (assert_int_equal(mode, 5), has.relaxed--)
#define zc_context_push(context, entered) (void)fake_enter(context, entered)
#define zc_context_pop(entered) fake_leave(entered)
#define zc_await_any() has.awaits
#define zc_life_closing() has.closing
#define zc_stream_come_to_rest() (note("rest"), !has.no_rest)
#define zc_stream_wait_context fake_wait
#define zc_lazy_empty fake_empty
#define zc_lazy_update(v) (assert_ptr_equal(v, &vmm), note("update"))
#define zc_lazy_suspend(v) (assert_ptr_equal(v, &vmm), note("suspend"))
#define zc_lazy_create(v) (assert_int_equal(has.words, 1), say("create", has.create))
#define zc_lazy_attach fake_attach
#define zc_lazy_diagnose fake_diagnose
#define zc_memfile_reserve fake_reserve
#define zc_memory_unmap fake_unmap
#define zc_memfile_shareable(e) (!has.private)
#define zc_pinned_hold(e) (note("hold"), has.pin)
#define zc_pinned_release fake_release
#define zc_pinned_lasts(e) has.stays_shared
#define zc_pinned_unregister(e) (note("unpin"), !has.no_pin_end)
#define zc_early_end fake_end
#define zc_early_register fake_register
#define zc_early_used(e) (assert_ptr_equal(e, &pages), note("used"))
#define zc_launch_recheck() note("recheck")
#define zc_launch_drain() note("drain")
#define zc_move_in fake_move_in
#define zc_shared_refused fake_refused
#define zc_shared_find fake_find
#define zc_leaving(context) has.leaves
#define zc_grow_drain(fn) say("grow", has.grow)
#define zc_pagemap_works fake_pagemap
#define zc_reach() has.reach
#define zc_device_has(device, what)                                                                \
    (assert_int_equal(what, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),                \
     !has.no_read_only)
#define zc_device_one_address(device) (!has.two_addresses)
#include "../../shim/shared/backing.c"

/* A device block without memory, and a host block that the program may copy into it. */
static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&vmm, 0, sizeof(vmm));
    memset(&both, 0, sizeof(both));
    memset(&pages, 0, sizeof(pages));
    memset(&block, 0, sizeof(block));
    real_without_driver();
    zc_real.cuMemHostUnregister = fake_unregister;
    has.pin = ZC_PIN_NONE;
    has.released = ZC_PIN_MAKING;
    vmm.va.base = DEVICE;
    vmm.va.context = CONTEXT;
    vmm.span = SPAN;
    pages.units = 3;
    both.vmm = &vmm;
    both.block = &block;
    block.real = ZC_KIND_DEVICE;
    zc_shared_ones = zc_shared_undecided = 0;
    return 0;
}

/* Both are one. */
static void paired(void)
{
    anew(NULL);
    both.one = true;
    both.extent = &pages;
    both.span = SPAN;
    pages.shared = &both;
    pages.pin = ZC_PIN_SHARED;
    block.real = ZC_KIND_PINNED;
    zc_shared_ones = 1;
}

static void expect(const char *text)
{
    assert_string_equal(has.trace, text);
    assert_true(has.locks == 0 && has.words == 0 && has.entered == 0 && has.relaxed == 0);
    has.trace[0] = 0;
}

static void expect_one(void)
{
    assert_true(both.one && both.extent == &pages && pages.shared == &both);
    assert_true(zc_shared_ones == 1 && block.real == ZC_KIND_PINNED);
}

static void expect_own(void)
{
    assert_true(!both.one && !both.extent && !pages.shared && zc_shared_ones == 0);
    assert_int_equal(block.real, ZC_KIND_DEVICE);
}

static void what_keeps_a_request_from_being_shared_is_told(void **state)
{
    static const char *const texts[] = {
        NULL,
        NULL,
        "stream-ordered requests can't be",
        "its rule does not say 'access = read'",
        "a device reaches pageable memory (HMM, ATS), where 'zc doctor --measure' has to find "
        "pairs "
        "exact first",
        "the device can't keep kernels from writing host memory",
        "the device can't use host addresses",
        "no rule gives host blocks 'shared'",
        "it is not larger than 1 MiB",
        "the kernel does not say",
        NULL,
        NULL,
        NULL,
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct zc_rule rule = {.access = ZC_ACCESS_READ};
        struct zc_want want = {.api = ZC_API_cuMemAlloc, .rule = &rule, .host_heap = true};
        const char *why = "none";
        anew(NULL);
        want.size = ZC_HOST_UNIT / 2 + 1;
        if (i == 1)
            want.api = ZC_API_cuMemAllocPitch;
        if (i == 2)
            want.api = ZC_API_cuMemAllocAsync;
        if (i == 3)
            rule.access = (enum zc_access)0;
        has.reach = i == 4 ? ZC_REACH_ANY : i == 10 ? ZC_REACH_ANY | ZC_REACH_EXACT : 0;
        has.reach = i == 11 ? ZC_REACH_EXACT : i == 12 ? ZC_REACH_ATS : has.reach;
        has.no_read_only = i == 5 || i == 10;
        has.two_addresses = i == 6;
        want.host_heap = i != 7;
        want.size -= i == 8;
        has.no_pagemap = i == 9;
        assert_int_equal(zc_shared_possible(&want, &why), !texts[i]);
        if (texts[i])
            assert_string_equal(why, texts[i]);
        else
            assert_null(why);
    }
}

static void a_block_becomes_one_with_the_host_block(void **state)
{
    (void)state;
    assert_null(zc_shared_to_one(&both, &pages, false));
    expect("hold register release used suspend ");
    expect_one();
    assert_true(both.span == SPAN && !both.names.why && has.released == ZC_PIN_SHARED);
    anew(NULL);
    both.block = NULL; /* It is not in the ledger yet. */
    vmm.held = SPAN;
    assert_null(zc_shared_to_one(&both, &pages, true));
    expect("rest wait empty hold register release used suspend ");
    assert_true(both.one && block.real == ZC_KIND_DEVICE);
}

static void what_was_registered_before_serves(void **state)
{
    (void)state;
    for (unsigned ready = 0; ready < 2; ready++) {
        anew(NULL);
        assert_false(zc_shared_begin(&both, NULL));
        has.locked_out = true;
        assert_false(zc_shared_begin(&both, EARLY));
        has.locked_out = false;
        assert_true(zc_shared_undecided == 0 && !both.early);
        expect("");
        assert_true(zc_shared_begin(&both, EARLY));
        expect("suspend ");
        assert_true(zc_shared_undecided == 1 && both.undecided && both.early == EARLY);
        has.ready = ready;
        assert_null(zc_shared_to_one(&both, &pages, false));
        expect(ready ? "hold end update recheck release used suspend "
                     : "hold end update recheck register release used suspend ");
        expect_one();
        assert_true(zc_shared_undecided == 0 && !both.undecided && !both.early);
    }
}

static void a_use_before_the_first_copy_decides(void **state)
{
    (void)state;
    zc_shared_decide(&both); /* It is decided. */
    expect("");
    for (unsigned drop = 0; drop < 2; drop++) {
        zc_shared_begin(&both, EARLY);
        has.trace[0] = 0;
        has.locked_out = !drop;
        zc_shared_decide(&both);
        has.locked_out = false;
        assert_int_equal(both.undecided, !drop);
        if (drop)
            both.undecided = true, zc_shared_undecided = 1, both.early = EARLY;
        has.trace[0] = 0;
        (drop ? zc_shared_drop : zc_shared_decide)(&both);
        expect("end0 update recheck ");
        assert_true(zc_shared_undecided == 0 && !both.undecided && !both.early);
    }
    zc_shared_drop(&both);
    expect("");
}

static void whatever_stands_in_the_way_nothing_has_changed(void **state)
{
    static const char *const cant = "its host block can't be mapped for the device now";
    static const struct {
        const char *why, *calls;
        bool hides;
    } rows[] = {
        {NULL, "", false}, /* 0: a capture. */
        {NULL, "", false}, /* 1: one that has just begun. */
        {NULL, "", false}, /* 2: in a signal handler. */
        {NULL, "", false}, /* 3: a stream may wait. */
        {NULL, "", false}, /* 4: the process exits. */
        {"a kernel may have written more than is copied", "", false},
        {NULL, "", false},                         /* 6: it was one. */
        {NULL, "rest ", false},                    /* 7: kernels run on. */
        {NULL, "rest wait ", false},               /* 8 */
        {NULL, "rest wait empty ", false},         /* 9 */
        {NULL, "hold release ", false},            /* 10: another one registers it. */
        {NULL, "hold release ", false},            /* 11: a graph relies on it. */
        {NULL, "hold rest release ", false},       /* 12 */
        {NULL, "hold rest unpin release ", false}, /* 13 */
        {"the driver registers nothing", "hold register release ", false},
        {NULL, "hold register unregister reserve release ", false}, /* 15: a fork. */
        {NULL, "hold register unregister reserve release ", false}, /* 16: the program did. */
        {NULL, "hold register unregister release ", false},         /* 17: the driver keeps it. */
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.captures = i < 2 ? i + 1 : 0;
        has.locked_out = i == 2;
        has.awaits = i == 3;
        has.closing = i == 4;
        vmm.held = i == 5 || (i >= 7 && i <= 9) ? SPAN : 0;
        both.stays_own = i == 6;
        has.no_rest = i == 7 || i == 12;
        has.wait = i == 8 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
        has.empty = i == 9 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        has.pin = i == 10 ? ZC_PIN_PROGRAM : i >= 11 && i <= 13 ? ZC_PIN_DONE : ZC_PIN_NONE;
        has.stays_shared = i == 11;
        has.no_pin_end = i == 13;
        has.no_show = i == 14;
        has.private = i == 15;
        pages.no_reuse = i == 16;
        if (i == 17)
            has.unregister = CUDA_ERROR_UNKNOWN, has.private = true;
        const char *why = zc_shared_to_one(&both, &pages, i != 5);
        assert_string_equal(why, rows[i].why ? rows[i].why : cant);
        expect(rows[i].calls);
        assert_true(!both.one && !both.extent && !pages.shared && zc_shared_ones == 0);
        assert_int_equal(block.real, ZC_KIND_DEVICE);
        if (i >= 10)
            assert_int_equal(has.released, i < 14 ? has.pin : ZC_PIN_NONE);
    }
    paired();
    assert_string_equal(zc_shared_to_one(&both, &pages, true), cant);
    expect("");
    expect_one();
}

static void a_registration_of_the_host_block_ends_first(void **state)
{
    (void)state;
    has.pin = ZC_PIN_DONE;
    assert_null(zc_shared_to_one(&both, &pages, false));
    expect("hold rest unpin register release used suspend ");
    anew(NULL);
    has.pin = ZC_PIN_REFUSED;
    assert_null(zc_shared_to_one(&both, &pages, false));
    expect("hold register release used suspend ");
}

static void a_block_gets_memory_of_its_own_with_the_same_content(void **state)
{
    (void)state;
    paired();
    assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "so"), CUDA_SUCCESS);
    expect("update drain create move unregister reserve attach ");
    expect_own();
    assert_true(both.stays_own && pages.pin == ZC_PIN_NONE);
    assert_string_equal(both.names.why, "so");
    assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "again"), CUDA_SUCCESS);
    assert_string_equal(both.names.why, "so"); /* The first reason. */
    anew(NULL);
    assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "first"), CUDA_SUCCESS);
    assert_string_equal(both.names.why, "first");
    assert_true(both.stays_own);
    assert_int_equal(zc_shared_to_own(NULL, ZC_FN_cuMemAlloc_v2, "none"), CUDA_SUCCESS);
    zc_shared_begin(&both, EARLY);
    has.trace[0] = 0;
    zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "undecided");
    expect("end0 update recheck ");
    paired();
    both.extent = NULL; /* The host block was freed. */
    pages.shared = NULL;
    assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "so"), CUDA_SUCCESS);
    expect_own();
    assert_int_equal(pages.pin, ZC_PIN_SHARED); /* It is another's by now. */
}

static void memory_that_the_device_lacks_leaves_a_pair(void **state)
{
    static const struct {
        const char *why, *calls;
        CUresult result;
    } rows[] = {
        {"the device has no memory for it", "update drain create empty suspend ",
         CUDA_ERROR_OUT_OF_MEMORY},
        {"it does not move", "update drain create move empty suspend ", CUDA_ERROR_UNKNOWN},
        {"the driver keeps the host block", "update drain create move unregister empty suspend ",
         CUDA_ERROR_UNKNOWN},
        {"nothing is attached", "update drain create move unregister reserve attach ",
         CUDA_ERROR_UNKNOWN},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        paired();
        both.names.why = "before";
        has.create = i == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.move = i == 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        has.unregister = i == 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        has.attach = i == 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "so"), rows[i].result);
        expect(rows[i].calls);
        assert_string_equal(has.refused, rows[i].why);
        assert_string_equal(both.names.why, "before");
        if (i < 3)
            expect_one();
        else
            expect_own();
    }
}

static void a_block_that_may_not_change_stays(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        paired();
        has.locked_out = i == 0;
        both.freed = i == 1;
        assert_int_equal(zc_shared_to_own(&both, ZC_FN_cuMemAlloc_v2, "so"), CUDA_SUCCESS);
        has.locked_out = false;
        expect("");
        expect_one();
    }
}

static void a_block_is_demoted_only_where_the_context_rests(void **state)
{
    (void)state;
    paired();
    assert_true(zc_shared_demote(&both, "so"));
    expect("rest update drain create move unregister reserve attach ");
    expect_own();
    assert_true(both.stays_own);
    assert_string_equal(both.names.why, "so");
    assert_false(zc_shared_demote(&both, "so"));
    for (unsigned i = 0; i < 4; i++) {
        paired();
        has.no_rest = i == 0;
        has.captures = i == 1;
        has.locked_out = i == 2;
        has.move = i == 3 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        assert_false(zc_shared_demote(&both, "so"));
        has.locked_out = false;
        expect(i == 0 ? "rest " : i == 3 ? "rest update drain create move empty suspend " : "");
        expect_one();
        assert_false(both.stays_own);
    }
}

static void the_driver_forgets_a_registration_or_there_is_none(void **state)
{
    static const struct {
        CUresult driver, result;
    } rows[] = {{CUDA_SUCCESS, CUDA_SUCCESS},
                {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_SUCCESS},
                {CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED},
                {CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN}};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        paired();
        both.window = i & 1 ? WINDOW : 0;
        has.unregister = has.wait = rows[i / 2].driver;
        bool gone = i / 2 == 2 && both.window;
        assert_int_equal(zc_shared_unregister(&both), gone ? CUDA_SUCCESS : rows[i / 2].result);
        expect(both.window ? "wait " : "unregister ");
    }
    paired();
    both.window = WINDOW;
    zc_shared_detach(&both);
    expect("reserve unmap ");
    expect_own();
    assert_int_equal(both.window, 0);
}

static void before_launches_all_are_decided(void **state)
{
    (void)state;
    assert_int_equal(zc_shared_decide_all(ZC_FN_cuLaunchKernel, true), CUDA_SUCCESS);
    expect("");
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        zc_shared_begin(&both, EARLY);
        has.trace[0] = 0;
        has.attach = i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.locked_out = i == 3;
        has.leaves = i == 4;
        both.block = i == 5 ? NULL : &block;
        assert_int_equal(zc_shared_decide_all(ZC_FN_cuLaunchKernel, i != 1),
                         i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        has.locked_out = false;
        expect(i == 0   ? "end0 update recheck attach "
               : i == 1 ? "end0 update recheck "
               : i == 2 ? "end0 update recheck attach diagnose "
                        : "");
        assert_int_equal(zc_shared_undecided, i > 2);
        assert_int_equal(both.undecided, i > 2);
    }
}

static void before_a_stream_waits_for_the_cpu_all_have_memory_of_their_own(void **state)
{
    (void)state;
    has.grow = CUDA_ERROR_NOT_READY;
    assert_int_equal(zc_shared_drain(ZC_FN_cuMemAlloc_v2), CUDA_ERROR_NOT_READY);
    expect("grow ");
    paired();
    assert_int_equal(zc_shared_drain(ZC_FN_cuMemAlloc_v2), CUDA_SUCCESS);
    expect("update drain create move unregister reserve attach grow ");
    expect_own();
    assert_true(both.stays_own);
    assert_string_equal(both.names.why, "a stream may wait for the CPU");
    paired();
    has.create = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_shared_drain(ZC_FN_cuMemAlloc_v2), CUDA_ERROR_OUT_OF_MEMORY);
    expect("update drain create empty suspend ");
    assert_string_equal(has.refused, "the device has no memory for it");
    for (unsigned i = 0; i < 2; i++) {
        paired();
        both.freed = i == 0;
        has.locked_out = i == 1;
        assert_int_equal(zc_shared_drain(ZC_FN_cuMemAlloc_v2), CUDA_SUCCESS);
        expect("grow ");
        expect_one();
    }
    anew(NULL);
    zc_shared_begin(&both, EARLY);
    has.trace[0] = 0;
    assert_int_equal(zc_shared_drain(ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    expect("end0 update recheck grow ");
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_keeps_a_request_from_being_shared_is_told),
        TEST(a_block_becomes_one_with_the_host_block),
        TEST(what_was_registered_before_serves),
        TEST(a_use_before_the_first_copy_decides),
        TEST(whatever_stands_in_the_way_nothing_has_changed),
        TEST(a_registration_of_the_host_block_ends_first),
        TEST(a_block_gets_memory_of_its_own_with_the_same_content),
        TEST(memory_that_the_device_lacks_leaves_a_pair),
        TEST(a_block_that_may_not_change_stays),
        TEST(a_block_is_demoted_only_where_the_context_rests),
        TEST(the_driver_forgets_a_registration_or_there_is_none),
        TEST(before_launches_all_are_decided),
        TEST(before_a_stream_waits_for_the_cpu_all_have_memory_of_their_own),
    };
    return RUN_TESTS(tests);
}
