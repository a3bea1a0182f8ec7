/* SPDX-License-Identifier: MIT */
/* Which host blocks are registered before their first copy, who gets their addresses, and what ends
 * that.  The thread runs where the test lets it. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/module.h"
#include "base/wait.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/memfile.h"
#include "memory/cgroup.h"
#include "memory/device.h"
#include "memory/thread.h"
#include "real_test.h"
#include "shared/early.h"
#include "shared/reach.h"

enum { DEVICES = 3 };
#define FIRST ((CUdeviceptr)0x40000000)
#define CONTEXT(i) ((CUcontext)(uintptr_t)(0x1000 * ((i) + 1)))

static struct zc_extent ext[40];
static struct zc_rule rule;
static struct {
    uint64_t now, available; /* The time in microseconds. */
    int devices, active;     /* Bits of devices with a context. */
    unsigned unfit;          /* Of those that register nothing to be read only. */
    unsigned reach, locks, naps, nap, threads, contexts;
    bool closing, capture, awaits, busy, too_much, no_thread, locked_out, changed;
    CUresult reserve, registers, push, count;
    bool no_show, window;
    CUdeviceptr next;
    unsigned reserved, registered, given_back; /* At this time; times. */
    void *(*run)(void *);
    unsigned woken, waited, pairs;
} has;
static char trace[256];

static bool note(const char *what)
{
    strncat(trace, what, sizeof(trace) - strlen(trace) - 2);
    strcat(trace, " ");
    return true;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static void fake_unlock(void)
{
    has.locks -= !has.locked_out;
}

static void fake_nap(unsigned us)
{
    has.naps++;
    has.nap = us;
    has.now += us;
    if (has.changed)
        ext[0].visits = 1;
}

static CUcontext fake_primary(int device)
{
    return has.active & 1 << device ? CONTEXT(device) : NULL;
}

static bool fake_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    assert_true(thread && !arg);
    has.threads++;
    has.run = run;
    return !has.no_thread;
}

static void fake_reserve_file(uintptr_t at, size_t span)
{
    assert_true(at >= FIRST && span >= ZC_HOST_UNIT);
    has.given_back++;
}

static CUstreamCaptureMode fake_relax(void)
{
    note("relax");
    return CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static struct zc_shared pairs[3];
static void fake_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg)
{
    for (unsigned i = 0; i < has.pairs; i++)
        visit(&pairs[i], arg);
}

#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) ((ticks)*1000)
#define zc_nap fake_nap
#define zc_driver_lock fake_lock
#define zc_driver_unlock fake_unlock
#include "held_test.h"
#define zc_capture_any() has.capture
#define zc_capture_relax fake_relax
#define zc_capture_restore(mode) ((void)(mode), note("restore"))
#define zc_context_pop(pushed) ((pushed) ? note("pop") : false)
#define zc_life_closing() has.closing
#define zc_memfile_shareable(e) ((e)->inode != 0)
#define zc_memfile_show(e, at) (assert_true((at) >= FIRST), (void)(e), !has.no_show)
#define zc_memfile_reserve fake_reserve_file
#define zc_context_primary fake_primary
#define zc_device_has(i, what)                                                                     \
    (assert_int_equal(what, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),                \
     !(has.unfit & 1u << (i)))
#define zc_reach() has.reach
#define zc_reach_show(base, span, window) ((void)(base), (void)(span), (void)(window), has.window)
#define zc_shared_each fake_each
#define zc_available() has.available
#define zc_await_any() has.awaits
#define zc_stream_all_rest(context, ms) (assert_true((context) && (ms) == 0), !has.busy)
#define zc_hostheap_too_much(e) ((void)(e), has.too_much)
#define zc_thread_start fake_start
#define zc_wait_until(word, value, ms)                                                             \
    (assert_true((value) == 0 && (ms) == 1000), (void)(word), has.waited++)
#define zc_wake(word) ((void)(word), has.woken++)
#define pthread_detach(thread) ((void)(thread))
#define zc_extent_span(e) ((size_t)(e)->units * ZC_HOST_UNIT)
#include "../../shim/shared/early.c"

static CUresult address_reserve(CUdeviceptr *base, size_t bytes, size_t alignment, CUdeviceptr at,
                                unsigned long long flags)
{
    assert_true(alignment == ZC_HOST_UNIT && !at && !flags && bytes % ZC_HOST_UNIT == 0);
    if (has.reserve != CUDA_SUCCESS)
        return has.reserve;
    *base = has.next;
    has.next += bytes;
    has.reserved++;
    return CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr base, size_t bytes)
{
    assert_true(base >= FIRST && bytes >= ZC_HOST_UNIT);
    has.reserved--;
    return CUDA_SUCCESS;
}

static CUresult host_register(void *p, size_t bytes, unsigned flags)
{
    assert_true((CUdeviceptr)p >= FIRST && bytes >= ZC_HOST_UNIT && has.locks == 1);
    assert_int_equal(flags, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_READ_ONLY);
    has.registered += has.registers == CUDA_SUCCESS;
    return has.registers;
}

static CUresult host_unregister(void *p)
{
    assert_true((CUdeviceptr)p >= FIRST && has.contexts == 1);
    has.registered--;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    assert_true(context == CONTEXT(0) || context == CONTEXT(1) || context == CONTEXT(2));
    has.contexts += has.push == CUDA_SUCCESS;
    return has.push;
}

static CUresult pop(CUcontext *context)
{
    *context = NULL;
    has.contexts--;
    return CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
    *count = has.devices;
    return has.count;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&early, 0, sizeof(early));
    memset(ext, 0, sizeof(ext));
    memset(pairs, 0, sizeof(pairs));
    zc_early_entries = 0;
    trace[0] = 0;
    for (unsigned i = 0; i < 40; i++) {
        ext[i].units = 2;
        ext[i].use = ZC_EXTENT_BLOCK;
        ext[i].inode = 7;
        ext[i].slot[0].site = 100 + i;
    }
    rule.access = ZC_ACCESS_READ;
    has.now = 1000000;
    has.available = UINT64_MAX;
    has.devices = 1;
    has.active = 1;
    has.next = FIRST;
    __atomic_store_n(&zc_life_state, ZC_LIFE_ON, __ATOMIC_RELEASE);
    real_without_driver();
    zc_real.cuMemAddressReserve = address_reserve;
    zc_real.cuMemAddressFree = address_free;
    zc_real.cuMemHostRegister_v2 = host_register;
    zc_real.cuMemHostUnregister = host_unregister;
    zc_real.cuCtxPushCurrent_v2 = push;
    zc_real.cuCtxPopCurrent_v2 = pop;
    zc_real.cuDeviceGetCount = get_count;
    return 0;
}

static void run(void)
{
    assert_non_null(has.run);
    has.run(NULL);
    expect("relax ");
    assert_int_equal(has.locks, 0);
    assert_int_equal(has.contexts, 0);
    assert_int_equal(early.running, 0);
    assert_int_equal(early.busy, 0);
}

/* A block that malloc gave is wanted, and the thread comes to it. */
static struct zc_early *wanted(unsigned i)
{
    zc_early_want(&ext[i]);
    for (struct zc_early *w = early.entry; w != END; w++)
        if (w->state != FREE && w->extent == &ext[i])
            return w;
    return NULL;
}

static struct zc_want want_of(unsigned device, size_t size)
{
    return (struct zc_want){.rule = &rule, .context = CONTEXT(device), .size = size};
}

static void what_may_be_shared_is_wanted_once(void **state)
{
    (void)state;
    zc_life_state = ZC_LIFE_ON + 1;
    assert_null(wanted(0));
    zc_life_state = ZC_LIFE_ON;
    has.closing = true;
    assert_null(wanted(0));
    has.closing = false;
    ext[0].inode = 0;
    assert_null(wanted(0));
    ext[0].inode = 7;
    ext[0].no_reuse = true;
    assert_null(wanted(0));
    ext[0].no_reuse = false;
    assert_true(zc_early_entries == 0 && has.threads == 0 && !ext[0].early);
    struct zc_early *w = wanted(0);
    assert_true(w && w->state == WANTED && w->since == has.now && w->span == 2 * ZC_HOST_UNIT);
    assert_true(ext[0].early && zc_early_entries == 1 && has.threads == 1);
    zc_early_want(&ext[0]);
    wanted(1);
    assert_true(zc_early_entries == 2 && has.threads == 1);
    for (unsigned i = 2; i < 40; i++)
        assert_int_equal(wanted(i) != NULL, i < ENTRIES);
    assert_int_equal(zc_early_entries, ENTRIES);
}

static void a_thread_that_does_not_start_is_tried_again(void **state)
{
    (void)state;
    has.no_thread = true;
    wanted(0);
    wanted(1);
    assert_true(has.threads == 2 && early.running == 0 && zc_early_entries == 2);
}

static void the_thread_registers_blocks_once_the_program_had_time(void **state)
{
    (void)state;
    struct zc_early *w = wanted(0), *v;
    has.now += 500;
    v = wanted(1);
    run();
    assert_true(has.naps == 2 && has.nap == 500); /* 2 ms from when each came. */
    assert_true(w->state == READY && v->state == READY && has.registered == 2);
    assert_true(w->base == FIRST && v->base == FIRST + 2 * ZC_HOST_UNIT &&
                w->context == CONTEXT(0));
    assert_int_equal(has.woken, 2);
    anew(NULL);
    w = wanted(0);
    has.now += 2000;
    run();
    assert_true(has.naps == 0 && w->state == READY);
    anew(NULL);
    w = wanted(0);
    has.changed = true; /* It is copied meanwhile. */
    run();
    assert_true(w->state == FREE && !ext[0].early && has.registered == 0);
}

static void what_stands_against_a_registration_leaves_nothing(void **state)
{
    enum { CONTEXTS = 19 };
    (void)state;
    for (unsigned i = 0; i < CONTEXTS; i++) {
        anew(NULL);
        struct zc_early *w = wanted(0);
        ext[0].use = i == 0 ? ZC_EXTENT_SLAB : ZC_EXTENT_BLOCK;
        ext[0].inode = i == 1 ? 0 : 7;
        ext[0].no_reuse = i == 2;
        ext[0].pin = i == 3 ? ZC_PIN_REFUSED : ZC_PIN_NONE;
        ext[0].copied = i == 4;
        ext[0].visits = i == 5;
        has.active = i == 6 ? 0 : i == 7 ? 3 : 1;
        has.devices = i == 7 ? 2 : 1;
        has.unfit = i == 8;
        has.reach = i == 9 ? ZC_REACH_ANY : 0;
        has.count = i == 10 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        has.awaits = i == 11;
        has.push = i == 12 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        has.reserve = i == 13 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        has.no_show = i == 14;
        has.registers = i == 15 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        early.paused = i == 16;
        has.capture = i == 17;
        has.available = i == 18 ? 2 * ZC_HOST_UNIT - 1 : 2 * ZC_HOST_UNIT;
        run();
        if (w->state != FREE)
            fail_msg("row %u: state %u", i, w->state);
        assert_true(has.registered == 0 && has.reserved == 0 && zc_early_entries == 0);
        assert_false(ext[0].early);
        assert_int_equal(has.given_back, i == 15);
    }
    anew(NULL);
    struct zc_early *w = wanted(0);
    has.closing = true;
    run();
    assert_int_equal(w->state, WANTED);
    anew(NULL);
    w = wanted(0);
    has.devices = 3;
    has.active = 4;
    has.available = 2 * ZC_HOST_UNIT;
    run();
    assert_true(w->state == READY && w->context == CONTEXT(2));
}

/* The pages that the CPU will get of its own: of pairs, of what is registered, and of this one. */
static void the_host_has_room_for_all_pages_that_may_become_private(void **state)
{
    const char *why;
    (void)state;
    wanted(0);
    run();
    has.locks = 1;
    has.pairs = 3;
    pairs[0].one = true;
    pairs[0].extent = &ext[5];
    pairs[0].span = 10 * ZC_HOST_UNIT;
    pairs[1].one = true;
    pairs[1].span = 100 * ZC_HOST_UNIT;
    pairs[2].extent = &ext[6];
    pairs[2].span = 100 * ZC_HOST_UNIT;
    has.available = 14 * ZC_HOST_UNIT - 1;
    assert_false(zc_early_register(&ext[1], FIRST, NULL, &why));
    assert_non_null(strstr(why, "no memory is left"));
    has.available++;
    assert_true(zc_early_register(&ext[1], FIRST, NULL, &why));
    uintptr_t window = 0;
    has.registers = CUDA_ERROR_UNKNOWN;
    assert_false(zc_early_register(&ext[1], FIRST, &window, &why));
    assert_non_null(strstr(why, "can't be mapped"));
    assert_int_equal(has.given_back, 1);
    has.window = true;
    assert_true(zc_early_register(&ext[1], FIRST, &window, &why));
    assert_false(zc_early_register(&ext[1], FIRST, NULL, &why));
    assert_int_equal(has.given_back, 2);
}

/* The oldest of the right size, wherever the thread has come to. */
static void a_device_block_takes_the_addresses_of_the_oldest(void **state)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    (void)state;
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT - 5);
    assert_null(zc_early_take(&want, &base, &bytes));
    ext[0].units = 3;
    wanted(0);
    has.now += 5;
    struct zc_early *a = wanted(1);
    has.now += 5;
    struct zc_early *b = wanted(2);
    a->since += 10; /* b is the oldest. */
    run();
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), b);
    assert_true(base == b->base && bytes == 2 * ZC_HOST_UNIT && b->taken && has.locks == 0);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), a);
    assert_null(zc_early_take(&want, &base, &bytes));
    want = want_of(0, 3 * ZC_HOST_UNIT);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), &early.entry[0]);
    struct zc_early *c = wanted(3); /* The thread has not come to it: it gets addresses here. */
    want = want_of(1, 2 * ZC_HOST_UNIT);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), c);
    assert_true(c->base == base && c->context == CONTEXT(1) && c->state == WANTED);
    run();
    assert_true(c->state == READY && c->context == CONTEXT(1));
}

static void no_device_block_takes_addresses_where_that_could_not_be_ended(void **state)
{
    CUdeviceptr base;
    size_t bytes;
    (void)state;
    struct zc_early *w = wanted(0);
    run();
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
    for (unsigned i = 0; i < 9; i++) {
        rule.access = i == 0 ? ZC_ACCESS_READWRITE : ZC_ACCESS_READ;
        has.capture = i == 1;
        has.awaits = i == 2;
        has.reach = i == 3 ? ZC_REACH_ANY : 0;
        has.locked_out = i == 4;
        has.busy = i == 5;
        want.context = CONTEXT(i == 6);
        want.size = (i == 7 ? 3 : 2) * ZC_HOST_UNIT;
        assert_ptr_equal(zc_early_take(&want, &base, &bytes), i == 8 ? w : NULL);
        assert_true(has.locks == 0 && w->taken == (i == 8));
    }
    anew(NULL);
    w = wanted(0);
    has.reserve = CUDA_ERROR_OUT_OF_MEMORY;
    want = want_of(0, 2 * ZC_HOST_UNIT);
    assert_null(zc_early_take(&want, &base, &bytes));
    assert_true(!w->taken && has.locks == 0);
}

static void addresses_that_are_not_used_serve_the_next_request(void **state)
{
    CUdeviceptr base, again;
    size_t bytes;
    (void)state;
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
    struct zc_early *w = wanted(0);
    run();
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), w);
    zc_early_spurn(w);
    assert_true(!w->taken && w->state == READY && has.locks == 0 && has.registered == 1);
    assert_ptr_equal(zc_early_take(&want, &again, &bytes), w);
    assert_int_equal(again, base);
    anew(NULL);
    w = wanted(0);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), w);
    zc_early_spurn(w); /* Not registered yet. */
    assert_true(w->state == FREE && has.reserved == 0 && !ext[0].early);
    anew(NULL);
    w = wanted(0);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), w);
    has.locked_out = true; /* The caller has it. */
    zc_early_spurn(w);
    assert_true(w->state == FREE && has.locks == 0);
}

/* The block gets the registration with the pages of its host block, or the addresses alone. */
static void a_registration_ends_in_a_pair_or_is_given_back(void **state)
{
    CUdeviceptr base;
    size_t bytes;
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
        struct zc_early *w = wanted(0);
        if (i)
            run();
        assert_ptr_equal(zc_early_take(&want, &base, &bytes), w);
        const struct zc_extent *e = i == 2 ? &ext[1] : i == 3 ? NULL : &ext[0];
        assert_int_equal(zc_early_end(w, e), i == 1);
        assert_int_equal(has.registered, i == 1);
        assert_int_equal(has.reserved, 1); /* The device block's. */
        assert_int_equal(has.given_back, i >= 2);
        assert_true(w->state == FREE && zc_early_entries == 0 && !ext[0].early && !w->base);
        expect(i >= 2 ? "relax pop restore " : "");
        has.contexts = 0;
    }
}

static void a_taken_block_that_is_not_registered_is_refused(void **state)
{
    CUdeviceptr base;
    size_t bytes;
    (void)state;
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
    struct zc_early *w = wanted(0);
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), w);
    has.registers = CUDA_ERROR_UNKNOWN;
    run();
    assert_true(w->state == REFUSED && w->base == base && has.reserved == 1);
    assert_false(zc_early_end(w, &ext[0]));
    assert_true(w->state == FREE && has.registered == 0);
}

/* A call path whose block was freed in vain waits until one of its blocks is used. */
static void a_site_that_guessed_wrong_waits(void **state)
{
    (void)state;
    struct zc_early *w = wanted(0);
    ext[1].slot[0].site = ext[0].slot[0].site;
    zc_early_freed(&ext[1]); /* Was not registered early. */
    assert_non_null(w);
    assert_non_null(wanted(1));
    zc_early_freed(&ext[0]);
    ext[2].slot[0].site = ext[0].slot[0].site;
    assert_null(wanted(2));
    ext[3].slot[0].site = ext[0].slot[0].site + SITES;
    assert_non_null(wanted(3));
    zc_early_used(&ext[3]);
    assert_null(wanted(2));
    zc_early_used(&ext[2]);
    assert_non_null(wanted(2));
    ext[4].slot[0].site = 0; /* Unknown ones are not told apart. */
    assert_non_null(wanted(4));
    zc_early_freed(&ext[4]);
    ext[5].slot[0].site = 0;
    assert_non_null(wanted(5));
}

static void what_the_pool_can_not_keep_is_given_back(void **state)
{
    CUdeviceptr base;
    size_t bytes;
    (void)state;
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
    zc_early_trim();
    struct zc_early *taken = wanted(0), *kept = wanted(1);
    run();
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), taken);
    struct zc_early *late = wanted(2);
    zc_early_trim();
    assert_int_equal(has.registered, 2);
    has.too_much = true;
    for (unsigned i = 0; i < 3; i++) {
        has.capture = i == 0;
        has.closing = i == 1;
        has.locked_out = i == 2;
        zc_early_trim();
        assert_int_equal(has.registered, 2);
    }
    has.locked_out = false;
    zc_early_trim();
    assert_true(has.registered == 1 && kept->state == FREE && taken->state == READY);
    assert_true(late->state == WANTED && has.locks == 0);
    assert_int_equal(has.reserved, 1);
}

static void a_context_takes_its_registrations_along(void **state)
{
    CUdeviceptr base;
    size_t bytes;
    (void)state;
    struct zc_want want = want_of(0, 2 * ZC_HOST_UNIT);
    struct zc_early *taken = wanted(0), *other = wanted(1);
    run();
    assert_ptr_equal(zc_early_take(&want, &base, &bytes), taken);
    struct zc_early *late = wanted(2);
    has.locked_out = true;
    zc_module_early.context_lost(CONTEXT(0));
    assert_int_equal(has.given_back, 0);
    has.locked_out = false;
    zc_module_early.context_lost(CONTEXT(1));
    assert_int_equal(has.given_back, 0);
    zc_module_early.context_lost(CONTEXT(0));
    assert_true(taken->state == REFUSED && other->state == FREE && late->state == WANTED);
    assert_true(has.given_back == 2 && has.reserved == 1 && has.locks == 0);
    assert_int_equal(has.registered, 2); /* The driver has ended them. */
    zc_module_early.before_fork();
    assert_true(early.paused == 1 && has.waited == 1);
    zc_module_early.after_fork();
    assert_int_equal(early.paused, 0);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_may_be_shared_is_wanted_once),
        TEST(a_thread_that_does_not_start_is_tried_again),
        TEST(the_thread_registers_blocks_once_the_program_had_time),
        TEST(what_stands_against_a_registration_leaves_nothing),
        TEST(the_host_has_room_for_all_pages_that_may_become_private),
        TEST(a_device_block_takes_the_addresses_of_the_oldest),
        TEST(no_device_block_takes_addresses_where_that_could_not_be_ended),
        TEST(addresses_that_are_not_used_serve_the_next_request),
        TEST(a_registration_ends_in_a_pair_or_is_given_back),
        TEST(a_taken_block_that_is_not_registered_is_refused),
        TEST(a_site_that_guessed_wrong_waits),
        TEST(what_the_pool_can_not_keep_is_given_back),
        TEST(a_context_takes_its_registrations_along),
    };
    return RUN_TESTS(tests);
}
