/* SPDX-License-Identifier: MIT */
/* Registrations that nobody needs: which end, when, how long a busy device is waited for, and what
 * stays where one does not end. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/life.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/cgroup.h"
#include "real_test.h"

enum { EXTENTS = 4 };
#define HOME ((CUcontext)0x77)

static struct zc_extent ext[EXTENTS];
static struct {
    bool capture, closing, locked_out, busy, driver_keeps[EXTENTS], stays[EXTENTS], lasts[EXTENTS];
    unsigned surplus, locks, ms; /* Extents of the pool that are left; milliseconds waited. */
    uint64_t now, available, frees, pooled; /* The time in nanoseconds; what the pool gives back. */
    void *registrar;
    CUresult current;
    CUcontext context;
} has;
static char trace[512];

static bool said(const char *what)
{
    strncat(trace, what, sizeof(trace) - strlen(trace) - 2);
    strcat(trace, " ");
    return true;
}

static void numbered(const char *what, const struct zc_extent *e)
{
    char text[48];
    snprintf(text, sizeof(text), "%s%d", what, (int)(e - ext));
    said(text);
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    assert_int_equal(has.locks, 0);
}

static bool fake_lock(void)
{
    has.locks += !has.locked_out;
    return !has.locked_out;
}

static struct zc_extent *fake_surplus(bool pinned, bool all)
{
    assert_true(pinned);
    said(all ? "all" : "some");
    return has.surplus < EXTENTS ? &ext[has.surplus++] : NULL;
}

static bool fake_unregister(struct zc_extent *e)
{
    numbered("end", e);
    if (!has.driver_keeps[e - ext])
        has.available += has.frees;
    return !has.driver_keeps[e - ext];
}

static void fake_release(struct zc_extent *e, enum zc_extent_pin pin)
{
    numbered(pin == ZC_PIN_NONE ? "none" : pin == ZC_PIN_DONE ? "done" : "other", e);
}

static enum zc_extent_pin fake_hold(const struct zc_extent *e)
{
    numbered("hold", e);
    return (enum zc_extent_pin)e->pin;
}

static bool fake_all_rest(CUcontext context, unsigned ms)
{
    assert_ptr_equal(context, HOME);
    has.ms = ms;
    said("rest?");
    return !has.busy;
}

static struct zc_extent *fake_next(const struct zc_extent *after,
                                   bool (*wanted)(const struct zc_extent *e))
{
    for (struct zc_extent *e = ext + (after ? after - ext + 1 : 0); e < ext + EXTENTS; e++)
        if (wanted(e))
            return e;
    return NULL;
}

static struct zc_hostheap_range heap;
#define zc_hostheap heap
#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_capture_any() has.capture
#define zc_life_closing() has.closing
#define zc_driver_lock fake_lock
#define zc_driver_unlock() has.locks--
#define zc_available() has.available
#define zc_hostheap_pooled() has.pooled
#define zc_hostheap_surplus fake_surplus
#define zc_hostheap_surplus_context() has.registrar
#define zc_hostheap_revive(e) (assert_int_equal((e)->use, ZC_EXTENT_LIMBO), numbered("revive", e))
#define zc_hostheap_drop(e) numbered("drop", e)
#define zc_hostheap_tidy(all) said((all) ? "tidy-all" : "tidy")
#define zc_hostheap_next fake_next
#define zc_pinned_unregister fake_unregister
#define zc_pinned_release fake_release
#define zc_pinned_hold fake_hold
#define zc_extent_registered(e) has.stays[(e)-ext]
#define zc_pinned_lasts(e) has.lasts[(e)-ext]
#define zc_stream_all_rest fake_all_rest
#include "../../shim/host/unpin.c"

static CUresult get_current(CUcontext *context)
{
    *context = has.context;
    return has.current;
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(ext, 0, sizeof(ext));
    memset(&tidied, 0, sizeof(tidied));
    trace[0] = 0;
    heap.bytes = 1;
    has.surplus = EXTENTS;
    has.context = HOME;
    has.registrar = HOME;
    has.now = 1000;
    for (unsigned i = 0; i < EXTENTS; i++) {
        ext[i].units = 2;
        ext[i].use = ZC_EXTENT_FREE;
        ext[i].context = HOME;
        ext[i].pin = ZC_PIN_DONE;
    }
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    return 0;
}

static void surplus_is_unregistered_and_dropped_until_the_driver_refuses(void **state)
{
    (void)state;
    has.surplus = 2;
    zc_pinned_trim(true);
    expect("all end2 none2 drop2 all end3 none3 drop3 all ");
    has.surplus = 1;
    has.driver_keeps[2] = true;
    zc_pinned_trim(false);
    expect("some end1 none1 drop1 some end2 revive2 ");
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        has.surplus = 0;
        heap.bytes = i != 0;
        has.capture = i == 1;
        has.closing = i == 2;
        zc_pinned_trim(true);
        expect("");
    }
}

static void the_pool_is_emptied_for_a_request_that_the_host_has_no_room_for(void **state)
{
    (void)state;
    has.available = 100;
    assert_true(zc_pinned_host_has(100));
    assert_false(zc_pinned_host_has(101)); /* There is no pool. */
    expect("");
    has.pooled = 1;
    assert_true(zc_pinned_host_has(100));
    expect("");
    has.surplus = 3;
    has.frees = 1;
    assert_true(zc_pinned_host_has(101));
    expect("tidy-all rest? all end3 none3 drop3 all ");
    assert_int_equal(has.ms, 1);
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        has.surplus = 3;
        has.frees = 1;
        has.pooled = 1;
        has.capture = i == 0;
        has.current = i == 1 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
        has.locked_out = i == 2;
        has.busy = i == 3;
        assert_false(zc_pinned_host_has(1));
        expect(i == 3 ? "tidy-all rest? " : "tidy-all ");
    }
}

static void the_pool_is_looked_through_each_millisecond(void **state)
{
    (void)state;
    has.surplus = 3;
    zc_pinned_tidy();
    expect("tidy rest? some end3 none3 drop3 some ");
    assert_int_equal(has.ms, 1);
    has.now += 1000000;
    zc_pinned_tidy();
    expect("");
    has.now++;
    zc_pinned_tidy();
    expect("tidy rest? some ");
    has.now += 1000001;
    has.busy = true;
    zc_pinned_tidy();
    expect("tidy rest? ");
    has.now += 250000000; /* A busy device is left alone for a quarter of a second. */
    zc_pinned_tidy();
    expect("");
    has.now++;
    has.busy = false;
    zc_pinned_tidy();
    expect("tidy rest? some ");
    has.now += 1000001;
    zc_pinned_tidy();
    expect("tidy rest? some ");
}

static void the_registered_part_stays_where_the_driver_can_not_be_asked(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        has.registrar = i == 0 ? NULL : HOME;
        has.capture = i == 1;
        has.closing = i == 2;
        has.current = i == 3 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
        has.context = i == 4 ? (CUcontext)0x78 : HOME;
        has.locked_out = i == 5;
        zc_pinned_tidy();
        expect("tidy ");
    }
    anew(NULL);
    has.now = 0; /* Nothing has passed since the last time. */
    zc_pinned_tidy();
    expect("");
}

static void a_fork_ends_what_linux_would_copy(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EXTENTS; i++)
        has.stays[i] = true;
    ext[1].pin = ZC_PIN_PROGRAM;
    has.driver_keeps[2] = true;
    zc_pinned_before_fork();
    expect("rest? hold0 end0 none0 hold1 other1 hold2 end2 done2 hold3 end3 none3 tidy-all ");
    assert_int_equal(has.ms, EXTENTS * 2);
    has.busy = true;
    zc_pinned_before_fork();
    expect("rest? tidy-all ");
    has.busy = false;
    has.stays[0] = false;
    ext[1].owner = HOME;
    ext[2].early = true;
    ext[3].live = 1;
    has.lasts[3] = true;
    zc_pinned_before_fork();
    expect("tidy-all ");
    ext[3].live = 0;
    zc_pinned_before_fork();
    expect("rest? hold3 end3 none3 tidy-all ");
    ext[3].live = 1;
    has.lasts[3] = false;
    zc_pinned_before_fork();
    expect("rest? hold3 end3 none3 tidy-all ");
}

/* A millisecond for so many bytes, as Linux takes for the copies, and at most a tenth of a second.
 */
static void a_fork_waits_no_longer_than_the_copies_would_take(void **state)
{
    static const struct {
        unsigned units[2], ms;
    } rows[] = {{{1, 1}, 2}, {{8, 3}, 11}, {{50, 49}, 99}, {{50, 50}, 100}, {{50, 51}, 100}};
    (void)state;
    has.busy = true;
    has.stays[0] = has.stays[EXTENTS - 1] = true;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ext[0].units = rows[i].units[0];
        ext[EXTENTS - 1].units = rows[i].units[1];
        zc_pinned_before_fork();
        expect("rest? tidy-all ");
        assert_int_equal(has.ms, rows[i].ms);
    }
}

static void a_fork_calls_no_driver_where_that_is_forbidden(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        has.stays[0] = true;
        heap.bytes = i != 0;
        has.closing = i == 1;
        has.locked_out = i == 2;
        has.capture = i == 3;
        zc_pinned_before_fork();
        expect("tidy-all ");
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(surplus_is_unregistered_and_dropped_until_the_driver_refuses),
        TEST(the_pool_is_emptied_for_a_request_that_the_host_has_no_room_for),
        TEST(the_pool_is_looked_through_each_millisecond),
        TEST(the_registered_part_stays_where_the_driver_can_not_be_asked),
        TEST(a_fork_ends_what_linux_would_copy),
        TEST(a_fork_waits_no_longer_than_the_copies_would_take),
        TEST(a_fork_calls_no_driver_where_that_is_forbidden),
    };
    return RUN_TESTS(tests);
}
