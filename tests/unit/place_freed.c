/* SPDX-License-Identifier: MIT */
/* Freed blocks: those that go at once, those that wait for a stream or for the devices, and those
 * that stay because the driver refuses.  Each call that the source makes leaves its name. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/lock.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"
#include "place/freed.h"
#include "real_test.h"
#include "shared/early.h"
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/vmm.h"

enum { BLOCKS = 40 };
#define HOME(i) ((CUcontext)(uintptr_t)(0x1000 * ((i) + 1)))
#define EVENT(i) ((CUevent)(uintptr_t)(0x100 * ((i) + 1)))
#define STREAM ((CUstream)0x77)

static struct zc_block blocks[BLOCKS];
static struct zc_backing backings[BLOCKS];
static const struct zc_place quick = {.waits = false}, slow = {.waits = true};
static struct {
    bool no_record, locked_out, capture, closing, no_driver_lock, claimed, early, kept, busy, lends;
    bool busy_once, driver_busy;
    unsigned pooled;
    CUresult waits, freeing, leaving, detach, release, current;
    uint64_t pending; /* Bits of events that have not passed. */
    unsigned records, held, driver, releasing, most_ms, queries;
    CUcontext but;
} has;
static char trace[1024];

static bool said(const char *what)
{
    strncat(trace, what, sizeof(trace) - strlen(trace) - 2);
    strcat(trace, " ");
    return true;
}

static void numbered(const char *what, const struct zc_block *block)
{
    char text[32];
    snprintf(text, sizeof(text), "%s%d", what, (int)(block - blocks));
    said(text);
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    assert_true(has.held == 0 && has.driver == 0 && has.releasing == 0);
}

static void *fake_get(size_t bytes)
{
    has.records += !has.no_record;
    return has.no_record ? NULL : calloc(1, bytes);
}

static void fake_put(void *p, size_t bytes)
{
    assert_int_not_equal(bytes, 0);
    has.records -= p != NULL;
    free(p);
}

static bool fake_take(void)
{
    assert_int_equal(has.held, 0);
    has.held += !has.locked_out;
    return !has.locked_out;
}

static bool fake_driver_lock(void)
{
    said("lock");
    has.driver += !has.no_driver_lock;
    return !has.no_driver_lock;
}

static bool fake_claim(struct zc_block *block)
{
    numbered("claim", block);
    return !has.claimed;
}

static bool fake_others_rest(CUcontext but, unsigned ms)
{
    has.but = but;
    has.most_ms = ms;
    said("rest?");
    if (has.busy_once) {
        has.busy_once = false;
        return false;
    }
    return !has.busy;
}

static bool fake_lend(CUcontext context)
{
    assert_true(context == HOME(0) || context == HOME(1));
    return has.lends;
}

static CUresult fake_release(struct zc_backing *backing, bool gone)
{
    assert_int_equal(has.held, 0);
    numbered(gone ? "gone" : "release", &blocks[backing - backings]);
    return has.release;
}

static CUresult fake_wait(CUcontext context)
{
    assert_ptr_equal(context, HOME(0));
    said("wait");
    return has.waits;
}

static CUresult fake_freeing(struct zc_block *block, void (*freed)(struct zc_block *), bool *kept)
{
    numbered("freeing", block);
    if (has.kept)
        freed(block);
    *kept = has.kept;
    return has.freeing;
}

static CUresult fake_leaving(struct zc_block *block)
{
    numbered("leaving", block);
    return has.leaving;
}

static CUcontext fake_stream_context(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_PER_THREAD);
    return HOME(1);
}

static CUresult fake_detach(struct zc_backing *backing)
{
    numbered("detach", &blocks[backing - backings]);
    return has.detach;
}

static uint64_t early_entries;

#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_lock_take(lock) ((void)(lock), fake_take())
#define zc_lock_drop(lock) ((void)(lock), has.held--)
#include "lock_held_test.h"
#define zc_release_begin() has.releasing++
#define zc_release_end() has.releasing--
#define zc_block_quarantine(block) numbered("keep", block)
#define zc_block_remove(block) numbered("remove", block)
#define zc_block_claim fake_claim
#define zc_block_unclaim(block) numbered("unclaim", block)
#define zc_capture_any() has.capture
#define zc_life_closing() has.closing
#define zc_place_of(place) ((place) == ZC_PLACE_MAPPED ? &slow : &quick)
#define zc_context_push_if_none fake_lend
#define zc_context_pop(lent) ((lent) ? said("leave") : false)
#define zc_place_release fake_release
#define zc_place_detach fake_detach
#define zc_stream_others_rest fake_others_rest
#define zc_stream_wait_context fake_wait
#define zc_stream_context fake_stream_context
#define zc_hostheap_pooled() has.pooled
#define zc_early_entries early_entries
#define zc_early_trim() said("early")
#define zc_pinned_trim(all) said((all) ? "trim-all" : "trim")
#define zc_grown_freed(block) numbered("grown", block)
#define zc_grow_freeing fake_freeing
#define zc_grow_leaving fake_leaving
#define zc_driver_lock fake_driver_lock
#define zc_driver_unlock() (has.driver--, said("unlock"))
#include "held_test.h"
#include "../../shim/place/freed.c"

static CUresult event_query(CUevent event)
{
    unsigned i = (unsigned)((uintptr_t)event / 0x100 - 1);
    assert_int_equal(has.held, 0);
    assert_int_equal(has.releasing, 1);
    has.queries++;
    return has.pending >> i & 1 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    char text[32];
    snprintf(text, sizeof(text), "destroy%d", (int)((uintptr_t)event / 0x100 - 1));
    said(text);
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = HOME(7);
    return has.current;
}

static void note(struct zc_block *block)
{
    numbered("note", block);
}

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    while (freed.deferred) {
        struct freed *p = freed.deferred;
        DL_DELETE2(freed.deferred, p, before, next);
        free(p);
    }
    memset(&freed, 0, sizeof(freed));
    memset(blocks, 0, sizeof(blocks));
    memset(backings, 0, sizeof(backings));
    early_entries = 0;
    trace[0] = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i].backing = &backings[i];
        backings[i].context = HOME(0);
        backings[i].place = ZC_PLACE_MANAGED;
    }
    real_without_driver();
    zc_real.cuEventQuery = event_query;
    zc_real.cuEventDestroy_v2 = event_destroy;
    zc_real.cuCtxGetCurrent = get_current;
    return 0;
}

/* Frees a block in the order of a stream. */
static void leave(unsigned i, bool marked)
{
    assert_int_equal(
        zc_place_free_in_order(&blocks[i], marked ? EVENT(i) : NULL, STREAM, ZC_PER_THREAD, note),
        CUDA_SUCCESS);
}

/* Frees one whose stream has not passed. */
static void put_off(unsigned i, enum zc_place_id place)
{
    backings[i].place = (uint8_t)place;
    has.pending |= UINT64_C(1) << i;
    leave(i, true);
    trace[0] = 0;
}

static CUresult free_block(bool *diagnosed)
{
    *diagnosed = true;
    return zc_place_free(&blocks[0], note, diagnosed);
}

static void a_free_waits_for_its_context_and_gives_the_memory_back(void **state)
{
    bool diagnosed;
    (void)state;
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    assert_false(diagnosed);
    expect("claim0 wait freeing0 detach0 note0 remove0 release0 ");
    backings[0].place = ZC_PLACE_VMM;
    blocks[0].place = ZC_PLACE_VMM; /* It may be moved at this moment. */
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    expect("lock claim0 unlock wait freeing0 detach0 note0 remove0 release0 ");
    has.no_driver_lock = true;
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    expect("lock claim0 wait freeing0 detach0 note0 remove0 release0 ");
    blocks[0].place = ZC_PLACE_MAPPED;
    backings[0].place = ZC_PLACE_MAPPED;
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    expect("claim0 wait freeing0 rest? detach0 note0 remove0 release0 ");
    assert_true(has.but == HOME(0) && has.most_ms == 0);
    has.release = CUDA_ERROR_UNKNOWN;
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_UNKNOWN);
    assert_false(diagnosed);
    expect("claim0 wait freeing0 rest? detach0 note0 remove0 release0 ");
    assert_int_equal(has.records, 0);
}

static void a_block_whose_free_is_refused_stays(void **state)
{
    bool diagnosed;
    (void)state;
    has.claimed = true;
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_INVALID_VALUE);
    assert_true(diagnosed);
    expect("claim0 ");
    has.claimed = false;
    has.waits = CUDA_ERROR_ILLEGAL_ADDRESS;
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_false(diagnosed);
    expect("claim0 wait unclaim0 ");
    has.waits = CUDA_SUCCESS;
    has.freeing = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(diagnosed);
    expect("claim0 wait freeing0 unclaim0 ");
    backings[0].place = ZC_PLACE_MAPPED; /* Nothing asks about the others then. */
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_OUT_OF_MEMORY);
    expect("claim0 wait freeing0 unclaim0 ");
    has.freeing = CUDA_SUCCESS;
    has.detach = CUDA_ERROR_UNKNOWN;
    assert_int_equal(free_block(&diagnosed), CUDA_ERROR_UNKNOWN);
    assert_false(diagnosed);
    expect("claim0 wait freeing0 rest? detach0 unclaim0 ");
    assert_true(freed.count == 0 && has.records == 0);
}

/* It is noted by who keeps it. */
static void a_block_that_grows_into_another_is_left_alone(void **state)
{
    bool diagnosed;
    (void)state;
    has.kept = true;
    backings[0].place = ZC_PLACE_MAPPED;
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    assert_false(diagnosed);
    expect("claim0 wait freeing0 note0 ");
}

static void a_free_that_would_wait_for_the_program_is_put_off(void **state)
{
    bool diagnosed;
    (void)state;
    backings[0].place = ZC_PLACE_MAPPED;
    has.busy = true;
    assert_int_equal(free_block(&diagnosed), CUDA_SUCCESS);
    assert_false(diagnosed);
    expect("claim0 wait freeing0 rest? note0 keep0 ");
    assert_true(freed.count == 1 && has.records == 1);
    zc_freed_reap(true);
    expect("rest? ");
    assert_int_equal(has.most_ms, 0);
    has.busy = false;
    zc_freed_reap(false); /* Only in a call that has waited. */
    expect("");
    zc_freed_reap(true);
    expect("rest? remove0 release0 ");
    assert_null(has.but);
    assert_true(freed.count == 0 && has.records == 0);
    blocks[1].flags = ZC_BLOCK_CONVERTED;
    blocks[1].asked = ZC_KIND_PINNED;
    has.capture = true;
    assert_int_equal(zc_place_free(&blocks[1], note, &diagnosed), CUDA_SUCCESS);
    assert_false(diagnosed);
    expect("claim1 note1 keep1 ");
    blocks[1].asked = ZC_KIND_DEVICE;
    assert_int_equal(zc_place_free(&blocks[1], note, &diagnosed), CUDA_SUCCESS);
    expect("claim1 wait freeing1 detach1 note1 remove1 release1 ");
    blocks[1].asked = ZC_KIND_PINNED;
    has.capture = false;
    assert_int_equal(zc_place_free(&blocks[1], note, &diagnosed), CUDA_SUCCESS);
    expect("claim1 wait freeing1 detach1 note1 remove1 release1 rest? remove1 release1 ");
}

static void a_free_in_stream_order_waits_for_its_event(void **state)
{
    (void)state;
    leave(0, true);
    expect("claim0 leaving0 note0 keep0 ");
    assert_true(freed.deferred->home == HOME(1) && freed.deferred->event == EVENT(0));
    assert_ptr_equal(freed.deferred->block, &blocks[0]);
    has.pending = 1;
    leave(1, false);
    expect("claim1 leaving1 note1 keep1 ");
    assert_int_equal(freed.count, 2);
    leave(2, true); /* The next free looks at those before it. */
    expect("claim2 leaving2 note2 remove1 release1 keep2 ");
    has.pending = 0;
    has.lends = true;
    zc_freed_reap(false);
    expect("destroy0 remove0 release0 leave destroy2 remove2 release2 leave ");
    assert_true(freed.count == 0 && has.records == 0 && !freed.deferred);
    put_off(3, ZC_PLACE_MANAGED);
    zc_freed_reap(false);
    expect("leave ");
}

static void a_free_in_stream_order_that_is_refused_destroys_its_event(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        has.claimed = i & 1;
        has.leaving = CUDA_ERROR_UNKNOWN;
        CUevent event = i & 2 ? EVENT(0) : NULL;
        assert_int_equal(zc_place_free_in_order(&blocks[0], event, STREAM, ZC_PER_THREAD, note),
                         i & 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNKNOWN);
        expect(i == 0   ? "claim0 leaving0 unclaim0 "
               : i == 1 ? "claim0 "
               : i == 2 ? "claim0 leaving0 unclaim0 destroy0 "
                        : "claim0 destroy0 ");
    }
    assert_true(freed.count == 0 && has.records == 0);
}

/* Lost, but never used too early. */
static void a_block_without_a_record_stays_quarantined(void **state)
{
    (void)state;
    has.no_record = true;
    leave(0, false);
    expect("claim0 leaving0 note0 keep0 ");
    has.no_record = false;
    has.locked_out = true;
    leave(0, false);
    expect("claim0 leaving0 note0 keep0 ");
    assert_true(freed.count == 0 && !freed.deferred && has.records == 0);
}

static void a_free_asks_about_the_first_ones_only(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 33; i++)
        put_off(i, ZC_PLACE_MANAGED);
    assert_int_equal(freed.count, 33);
    has.queries = 0;
    put_off(33, ZC_PLACE_MANAGED);
    assert_int_equal(has.queries, 32);
    has.pending = ~(UINT64_C(1) << 32); /* It is the first of those not looked at. */
    has.queries = 0;
    leave(34, false);
    expect("claim34 leaving34 note34 destroy32 remove32 release32 keep34 ");
    assert_int_equal(has.queries, 32);
    assert_int_equal(freed.count, 34);
    has.queries = 0;
    zc_freed_reap(false);
    expect("remove34 release34 ");
    assert_int_equal(has.queries, 33);
    has.locked_out = true;
    zc_freed_reap(false);
    expect("");
    assert_int_equal(has.queries, 33);
}

static void nothing_is_asked_in_captures_and_at_the_end(void **state)
{
    (void)state;
    put_off(0, ZC_PLACE_MANAGED);
    has.pending = 0;
    has.capture = true;
    zc_freed_reap(true);
    zc_module_freed.reclaim(ZC_PLACE_MAPPED);
    has.capture = false;
    has.closing = true;
    zc_freed_reap(true);
    expect("");
    has.closing = false;
    zc_freed_reap(true);
    expect("rest? destroy0 remove0 release0 ");
    zc_freed_reap(true);
    expect(""); /* There is none. */
}

/* A request for which a place has no room gets what waits there, and no other place's. */
static void a_request_without_room_waits_for_the_devices(void **state)
{
    (void)state;
    put_off(0, ZC_PLACE_MAPPED);
    put_off(1, ZC_PLACE_MANAGED);
    has.pending = 0;
    has.busy = true;
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_MAPPED), 1);
    expect("rest? destroy1 remove1 release1 ");
    assert_int_equal(has.most_ms, 100);
    has.busy = false;
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_PINNED), 0);
    expect("rest? ");
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_MAPPED), 1);
    expect("rest? destroy0 remove0 release0 ");
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_MAPPED), 0);
    expect("");
    put_off(0, ZC_PLACE_MAPPED);
    put_off(1, ZC_PLACE_MAPPED);
    put_off(2, ZC_PLACE_MANAGED);
    has.pending = 0;
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_COUNT), 1); /* None: it asks nobody. */
    expect("destroy2 remove2 release2 ");
    assert_int_equal(zc_module_freed.reclaim(ZC_PLACE_MAPPED), 2);
}

static void a_call_that_has_waited_trims_the_pool_where_the_others_rest(void **state)
{
    static const char both[] = "rest? early trim ";
    (void)state;
    zc_freed_reap(true);
    expect("");
    has.pooled = 1;
    zc_freed_reap(false);
    expect("");
    zc_freed_reap(true);
    expect(both);
    assert_true(has.but == HOME(7) && has.most_ms == 0);
    has.busy = true;
    zc_freed_reap(true);
    expect("rest? ");
    has.busy = false;
    has.current = CUDA_ERROR_INVALID_CONTEXT;
    zc_freed_reap(true);
    expect("");
    has.current = CUDA_SUCCESS;
    has.capture = true;
    zc_freed_reap(true);
    expect("");
    has.capture = false;
    has.pooled = 0;
    early_entries = 1;
    zc_freed_reap(true);
    expect(both);
    early_entries = 0;
    put_off(0, ZC_PLACE_MAPPED);
    has.pending = 0;
    zc_freed_bare(&blocks[5]);
    expect("grown5 rest? destroy0 remove0 release0 ");
}

/* Events go with their context, the memory with its own. */
static void a_context_that_goes_takes_its_blocks_along(void **state)
{
    (void)state;
    put_off(0, ZC_PLACE_MANAGED);
    put_off(1, ZC_PLACE_MANAGED);
    backings[1].context = HOME(1);
    put_off(2, ZC_PLACE_MANAGED);
    backings[2].context = HOME(2);
    zc_module_freed.context_gone(HOME(0));
    expect("destroy0 remove0 gone0 ");
    assert_int_equal(freed.count, 2);
    zc_module_freed.context_gone(HOME(1));
    expect("remove1 gone1 ");
    assert_true(freed.count == 1 && has.records == 1);
    zc_module_freed.context_gone(HOME(1));
    expect("");
    assert_true(freed.deferred->block == &blocks[2] && !freed.deferred->event);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_free_waits_for_its_context_and_gives_the_memory_back),
        TEST(a_block_whose_free_is_refused_stays),
        TEST(a_block_that_grows_into_another_is_left_alone),
        TEST(a_free_that_would_wait_for_the_program_is_put_off),
        TEST(a_free_in_stream_order_waits_for_its_event),
        TEST(a_free_in_stream_order_that_is_refused_destroys_its_event),
        TEST(a_block_without_a_record_stays_quarantined),
        TEST(a_free_asks_about_the_first_ones_only),
        TEST(nothing_is_asked_in_captures_and_at_the_end),
        TEST(a_request_without_room_waits_for_the_devices),
        TEST(a_call_that_has_waited_trims_the_pool_where_the_others_rest),
        TEST(a_context_that_goes_takes_its_blocks_along),
    };
    return RUN_TESTS(tests);
}
