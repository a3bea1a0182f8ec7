/* SPDX-License-Identifier: MIT */
/* Blocks of the host heap: slots and extents, what the pool keeps and gives back, and what a fork
 * does to both.  Extents, limits, the clock and the kernel are the test's. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/module.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/memfile.h"
#include "host/visits.h"
#include "ledger/block.h"
#include "log/summary.h"
#include "memory/cgroup.h"
#include "memory/limits.h"
#include "memory/workers.h"

enum { EXTENTS = 6 };
#define MIB ((uint64_t)1 << 20)
#define KIB ((uint64_t)1 << 10)
#define BASE ((uintptr_t)0x40000000)
#define STRIDE (64 * ZC_HOST_UNIT)
#define HOME ((void *)0x77)
#define CHILD 99 /* A process that a fork has made. */

static struct zc_extent ext[EXTENTS], *pool_end[2], *never; /* Of the pool; `pinned` or not. */
static struct {
    bool locked_out, full, refused, busy_once, small, foreign[EXTENTS];
    unsigned held, next, refusals; /* The next fresh extent; times that the kernel refuses. */
    struct zc_extent *reuse;
    uint64_t now, available, used, asked, pool;
    int error, pid;
} has;
static uint64_t kept_peak;
static size_t kept;
static uint32_t era;
static bool unlisted;
static int life;
static struct zc_hostheap_range heap;
static char trace[1024];

static bool said(const char *format, ...)
{
    size_t n = strlen(trace);
    assert_true(n + 64 < sizeof(trace));
    va_list list;
    va_start(list, format);
    vsnprintf(trace + n, sizeof(trace) - n - 1, format, list);
    va_end(list);
    strcat(trace, " ");
    return true;
}

static void expect(const char *text)
{
    assert_string_equal(trace, text);
    trace[0] = 0;
    assert_int_equal(has.held, 0);
}

static int no(const struct zc_extent *e)
{
    return (int)(e - ext);
}

static bool fake_take(void)
{
    assert_int_equal(has.held, 0);
    has.held += !has.locked_out;
    return !has.locked_out;
}

static uintptr_t fake_base(const struct zc_extent *e)
{
    return BASE + (uintptr_t)no(e) * STRIDE;
}

static struct zc_extent *fake_extent(uint64_t address)
{
    for (struct zc_extent *e = ext; e < ext + EXTENTS; e++)
        if (e->units && address - fake_base(e) < (uint64_t)e->units * ZC_HOST_UNIT)
            return e;
    return NULL;
}

static void fake_advise(void *at, size_t n, int advice)
{
    const struct zc_extent *e = fake_extent((uintptr_t)at);
    assert_true(at == (void *)fake_base(e) && n == e->units * ZC_HOST_UNIT);
    said("%s%d",
         advice == MADV_WIPEONFORK   ? "wipe"
         : advice == MADV_KEEPONFORK ? "keep"
                                     : "?",
         no(e));
}

static void fake_each(void (*visit)(struct zc_extent *e, void *arg), void *arg)
{
    assert_true(has.held == 1 || has.pid == CHILD); /* A child has no other threads. */
    for (struct zc_extent *e = ext; e < ext + EXTENTS; e++)
        if (e->units)
            visit(e, arg);
}

static struct zc_extent *fake_oldest(bool pinned, bool no_reuse)
{
    if (no_reuse)
        said("never?");
    return no_reuse ? never : pool_end[pinned];
}

static void fake_unpool(const struct zc_extent *e)
{
    said("unpool%d", no(e));
    never = never == e ? NULL : never;
    for (unsigned i = 0; i < 2; i++)
        pool_end[i] = pool_end[i] == e ? NULL : pool_end[i];
}

static bool fake_limits_take(enum zc_place_id place, int device, size_t n, const char **why)
{
    assert_int_equal(place, ZC_PLACE_PINNED);
    said("take%d/%zu", device, n / ZC_HOST_UNIT);
    bool refuses = has.full || has.busy_once;
    has.busy_once = false;
    if (refuses)
        *why = "over max_pinned";
    return !refuses;
}

static void fake_limits_give(enum zc_place_id place, int device, size_t n)
{
    assert_int_equal(place, ZC_PLACE_PINNED);
    said("give%d/%zu", device, n / ZC_HOST_UNIT);
}

static uint64_t fake_used(enum zc_place_id place, int device)
{
    assert_int_equal(place, ZC_PLACE_PINNED);
    assert_true(device == -1 || device == ZC_LIMITS_ASKED);
    return device == -1 ? has.used : has.asked;
}

static struct zc_extent *fake_carve(uint32_t units)
{
    said("carve/%u", units);
    assert_true(has.held == 1 && errno == 0);
    if (has.refusals) {
        has.refusals--;
        errno = has.error;
        return NULL;
    }
    struct zc_extent *e = &ext[has.next++];
    e->units = units;
    return e;
}

static bool fake_back(const struct zc_extent *e, unsigned first)
{
    said("back%d", no(e));
    assert_int_equal(first, 0);
    bool done = !has.refused && !has.busy_once;
    has.busy_once = false;
    errno = ENOMEM;
    return done;
}

static struct zc_extent *fake_reuse(uint32_t units, const struct zc_host_want *want)
{
    struct zc_extent *e = has.reuse;
    assert_int_equal(has.held, 1);
    assert_true(want->size > MIB || want->alignment > MIB); /* A slab is a whole unit. */
    assert_false(has.small && want->shareable);
    if (e)
        e->units = units;
    return e;
}

#define zc_hostheap heap
#define zc_lock_take(lock) ((void)(lock), fake_take())
#define zc_lock_drop(lock) ((void)(lock), has.held--)
#define zc_memory_advise fake_advise
#define zc_memfile_before_fork() said("freeze")
#define zc_memfile_open(e) (said("file%d", no(e)), (void)((e)->inode = 9))
#define zc_memfile_drop_private(e) said("private%d", no(e))
#define zc_extent_base fake_base
#define zc_extent_each fake_each
#define zc_extent_oldest fake_oldest
#define zc_extent_unpool fake_unpool
#define zc_extent_pool(e) (said("pool%d", no(e)), (void)((e)->use = ZC_EXTENT_FREE))
#define zc_extent_unback(e) said("unback%d", no(e))
#define zc_extent_bury(e) said("bury%d", no(e))
#define zc_extent_carve fake_carve
#define zc_extent_reserve(why) (assert_int_equal(has.held, 1), said("reserve"), *(why) = "no room")
#define zc_extent_reuse fake_reuse
#define zc_extent_back fake_back
#define zc_extent_pages(e, small) said("%s%d", (small) ? "small" : "huge", no(e))
#define zc_extent_fill(e, size) said("fill%d/%zu", no(e), (size_t)(size))
#define zc_extent_prefault(e, from, to)                                                            \
    (assert_int_equal(from, 0), said("touch%d/%zu", no(e), (size_t)(to)))
#define zc_extent_fit(all) (assert_int_equal(has.held, 1), said((all) ? "fit-all" : "fit"))
#define zc_extent_pooled_bytes kept
#define zc_extent_era era
#define zc_extent_unlisted unlisted
#define zc_hostheap_extent fake_extent
#define zc_hostheap_mine(e) (!has.foreign[no(e)])
#define zc_hostheap_unclaim(e) said("unclaim%d", no(e))
#define zc_limits_take fake_limits_take
#define zc_limits_give fake_limits_give
#define zc_limits_used fake_used
#define zc_limits_pool() has.pool
#define zc_limits_reason(error, span) ((void)(span), (error) == ENOMEM ? "no memory" : "other")
#define zc_available() has.available
#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_workers_zero(p, n) said("zero%d/%zu", no(fake_extent((uintptr_t)(p))), (size_t)(n))
#define zc_log_kept_peak kept_peak
#define zc_life_state life
#define getpid() has.pid
#include "../../shim/host/hostheap.c"

static int anew(void **state)
{
    static uint64_t day;
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(ext, 0, sizeof(ext));
    memset(slabs, 0, sizeof(slabs));
    pool_end[0] = pool_end[1] = never = NULL;
    most_live = prefaulted = 0;
    kept_peak = kept = 0;
    held_for_fork = false;
    trace[0] = 0;
    life = ZC_LIFE_ON;
    heap.bytes = (size_t)1 << 40;
    has.pool = has.available = UINT64_MAX;
    has.now = day += UINT64_C(1) << 50; /* The host is asked anew what it has left. */
    return 0;
}

static void *get(size_t size, size_t alignment, bool zero, void *asker, const char **why)
{
    const struct zc_host_want want = {
        .size = size, .alignment = alignment, .zero = zero, .owner = asker};
    struct zc_slot *slot = NULL;
    *why = "";
    void *p = zc_hostheap_get(&want, &slot, why);
    if (p) {
        assert_ptr_equal(slot, zc_hostheap_slot(p));
        assert_int_equal(slot->size, size);
    }
    return p;
}

static void the_range_is_reserved_once(void **state)
{
    const char *why = NULL;
    (void)state;
    heap.bytes = 0;
    has.locked_out = true;
    assert_false(zc_hostheap_open(&why));
    assert_string_equal(why, "no addresses are reserved for the host heap");
    expect("");
    has.locked_out = false;
    has.pid = 42;
    assert_false(zc_hostheap_open(&why));
    assert_string_equal(why, "no room");
    expect("reserve ");
    assert_int_equal(owner, 42);
    assert_false(zc_hostheap_open(&why));
    assert_string_equal(why, "no addresses are reserved for the host heap");
    heap.bytes = 1;
    assert_true(zc_hostheap_open(&why));
    expect("");
}

static void a_large_block_has_an_extent_of_its_own(void **state)
{
    const char *why;
    (void)state;
    void *p = get(3 * MIB, 4096, false, NULL, &why);
    assert_ptr_equal(p, (void *)BASE);
    expect("take-1/2 carve/2 back0 huge0 fill0/3145728 unclaim0 touch0/3145728 ");
    assert_true(ext[0].use == ZC_EXTENT_BLOCK && ext[0].live == 1 && !ext[0].owner);
    assert_int_equal(zc_hostheap_room(p), 4 * MIB);
    get(2 * MIB, 16, true, NULL, &why); /* Zeroed: as much as is used of it. */
    expect("take-1/1 carve/1 back1 huge1 fill1/2097152 unclaim1 ");
    era = 5;
    get(2 * MIB, 16, false, HOME, &why);
    expect("take-2/1 carve/1 back2 huge2 fill2/2097152 unclaim2 ");
    assert_true(ext[2].owner == HOME && ext[2].era == 5);
    has.reuse = &ext[3];
    ext[3].slot[0].dirty = true;
    ext[3].elided = ext[3].cpu_copied = 7;
    get(2 * MIB, 16, true, HOME, &why);
    expect("huge3 fill3/2097152 unclaim3 zero3/2097152 ");
    assert_true(!ext[3].elided && !ext[3].cpu_copied && ext[3].owner == HOME);
    get(2 * MIB, 16, false, NULL, &why);
    expect("huge3 fill3/2097152 unclaim3 ");
    assert_null(ext[3].owner);
    has.reuse = NULL;
    const struct zc_host_want want = {
        .size = 2 * MIB, .alignment = 16, .zero = true, .shareable = true};
    struct zc_slot *slot;
    has.next = 4;
    assert_non_null(zc_hostheap_get(&want, &slot, &why)); /* A file's pages come at once. */
    expect("take-1/1 carve/1 file4 back4 huge4 fill4/2097152 unclaim4 touch4/2097152 ");
}

static void a_request_that_fails_says_why_and_leaves_nothing(void **state)
{
    const char *why;
    (void)state;
    heap.bytes = 2 * MIB - 1;
    assert_null(get(2 * MIB, 16, false, NULL, &why));
    assert_string_equal(why, "it is too large");
    heap.bytes = 2 * MIB;
    assert_non_null(get(2 * MIB, 16, false, NULL, &why));
    heap.bytes = (size_t)1 << 50;
    trace[0] = 0;
    assert_null(get((size_t)512 << 30, 16, false, NULL, &why));
    assert_string_equal(why, "the driver pins less than 512 GiB in one piece");
    expect("");
    assert_non_null(get((size_t)512 << 30, 16, false, HOME, &why));
    trace[0] = 0;
    has.full = true;
    assert_null(get(2 * MIB, 16, false, NULL, &why));
    assert_string_equal(why, "over max_pinned");
    expect("take-1/1 take-1/1 ");
    has.full = false;
    has.refusals = 2;
    assert_null(get(2 * MIB, 16, false, HOME, &why));
    assert_string_equal(why, "the range of the host heap is full");
    expect("take-2/1 carve/1 give-2/1 take-2/1 carve/1 give-2/1 ");
    has.refusals = 2;
    has.error = ENOMEM;
    assert_null(get(2 * MIB, 16, false, NULL, &why));
    assert_string_equal(why, "no memory");
    expect("take-1/1 carve/1 give-1/1 take-1/1 carve/1 give-1/1 ");
    has.refused = true;
    assert_null(get(2 * MIB, 16, false, NULL, &why));
    assert_string_equal(why, "no memory");
    expect("take-1/1 carve/1 back2 unback2 bury2 give-1/1 "
           "take-1/1 carve/1 back3 unback3 bury3 give-1/1 ");
    has.next = 2;
    assert_null(get(64 * KIB, 16, false, NULL, &why));
    expect("take-1/1 carve/1 back2 unback2 bury2 give-1/1 "
           "take-1/1 carve/1 back3 unback3 bury3 give-1/1 ");
    has.refused = false;
    has.locked_out = true;
    assert_null(get(64 * KIB, 16, false, NULL, &why));
    assert_string_equal(why, "inside a signal handler");
    expect("");
    errno = EINVAL;
    assert_null(zc_heap_carve(1));
    assert_int_equal(errno, 0);
    zc_heap_bury(&ext[0]); /* Only the addresses are lost. */
    expect("");
}

/* The pool is in the way of a limit, of addresses, or of memory. */
static void the_pool_is_emptied_for_a_request_that_would_fit(void **state)
{
    const char *why;
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        kept = 2 * MIB;
        ext[5].units = 1;
        pool_end[0] = &ext[5];
        ext[5].since = has.now;
        has.busy_once = i == 0;
        has.refusals = i == 1;
        assert_non_null(get(2 * MIB, 16, false, NULL, &why));
        if (i == 0)
            expect("never? take-1/1 unpool5 unback5 give-1/1 bury5 take-1/1 carve/1 back0 huge0 "
                   "fill0/2097152 unclaim0 touch0/2097152 ");
        else if (i == 1)
            expect("never? take-1/1 carve/1 give-1/1 unpool5 unback5 give-1/1 bury5 take-1/1 "
                   "carve/1 back0 huge0 fill0/2097152 unclaim0 touch0/2097152 ");
        else
            expect("never? take-1/1 carve/1 back0 huge0 fill0/2097152 unclaim0 touch0/2097152 ");
    }
    has.refused = true;
    assert_null(get(2 * MIB, 16, false, NULL, &why));
    expect("never? take-1/1 carve/1 back1 unback1 bury1 give-1/1 unpool5 unback5 give-1/1 bury5 "
           "take-1/1 carve/1 back2 unback2 bury2 give-1/1 ");
}

static void blocks_begin_at_different_multiples_of_128_bytes(void **state)
{
    struct zc_host_want want = {.size = 20 * MIB, .alignment = 128, .spread = true};
    struct zc_slot *slot;
    const char *why;
    uint32_t last = 0;
    (void)state;
    ext[0].units = 11;
    has.reuse = &ext[0];
    for (unsigned i = 0; i < 62; i++) {
        uintptr_t p = (uintptr_t)zc_hostheap_get(&want, &slot, &why);
        trace[0] = 0;
        assert_int_equal(p - BASE, ext[0].lead);
        assert_int_equal(ext[0].lead % 128, 0);
        assert_true(ext[0].lead >= 128 && ext[0].lead <= 31 * 128);
        if (last)
            assert_int_equal(ext[0].lead, last == 31 * 128 ? 128 : last + 128);
        last = ext[0].lead;
        assert_int_equal(ext[0].units, 11);
        assert_int_equal(zc_hostheap_room((void *)p), 22 * MIB - last);
        assert_int_equal(zc_hostheap_block(p - 1), 0);
        assert_int_equal(zc_hostheap_block(p), p);
        assert_int_equal(zc_hostheap_block(p + 5), p);
    }
    for (unsigned i = 0; i < 6; i++) {
        want.spread = i != 0;
        want.alignment = i == 1 ? 256 : 1;
        want.size = i == 2 ? 14 * MIB : i == 3 ? 14 * MIB - 4096 : i == 4 ? 16 * MIB : 20 * MIB;
        zc_hostheap_get(&want, &slot, &why);
        assert_int_equal(ext[0].lead != 0, i > 2);
        assert_int_equal(ext[0].units, i == 2 || i == 3 ? 7 : i == 4 ? 9 : i == 5 ? 11 : 10);
    }
    for (unsigned i = 0; i < 2; i++) {
        char text[128];
        ext[0].slot[0].dirty = false;
        ext[0].inode = i; /* A file's pages are not prefaulted. */
        prefaulted = i * 192 * MIB;
        trace[0] = 0;
        zc_hostheap_get(&want, &slot, &why);
        snprintf(text, sizeof(text), "huge0 fill0/20971520 unclaim0 touch0/%zu ",
                 (size_t)(20 * MIB + ext[0].lead));
        expect(text);
    }
}

static void small_blocks_share_a_unit(void **state)
{
    static const struct {
        size_t size, alignment;
        unsigned slots;
    } rows[] = {
        {1, 1, 32},         {64 * KIB, 1, 32},  {64 * KIB + 1, 1, 30},    {100 * KIB, 4096, 20},
        {124 * KIB, 1, 16}, {129 * KIB, 1, 15}, {512 * KIB, 1, 4},        {MIB, 1, 2},
        {70000, 4096, 28},  {70000, 8192, 16},  {128 * KIB + 1, 8192, 8}, {1000, 512 * KIB, 4},
        {1000, MIB, 2}};
    const char *why;
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        unsigned slots = rows[i].slots;
        void *p[ZC_HOST_SLOTS];
        for (unsigned k = 0; k < slots; k++) {
            p[k] = get(rows[i].size, rows[i].alignment, false, NULL, &why);
            assert_int_equal((uintptr_t)p[k], BASE + k * (uintptr_t)ext[0].step);
        }
        assert_int_equal(ext[0].step, 2 * MIB / slots / 4096 * 4096);
        assert_int_equal(zc_hostheap_room(p[0]), ext[0].step);
        assert_true(ext[0].use == ZC_EXTENT_SLAB && ext[0].live == slots && !ext[0].room);
        expect("take-1/1 carve/1 back0 small0 ");
        assert_null(slabs[slots]);
        get(rows[i].size, rows[i].alignment, false, HOME, &why);
        expect("take-2/1 carve/1 back1 huge1 ");
        assert_int_equal(ext[1].live, 1);
    }
    assert_int_equal((uintptr_t)get(MIB + 1, 1, false, NULL, &why), BASE + 2 * STRIDE);
    assert_int_equal(ext[2].use, ZC_EXTENT_BLOCK);
    get(1000, 2 * MIB, false, NULL, &why);
    assert_int_equal(ext[3].use, ZC_EXTENT_BLOCK);
}

static void a_slab_is_registered_whole_and_never_shared(void **state)
{
    const struct zc_host_want want = {.size = 70000, .alignment = 1, .shareable = true};
    struct zc_slot *slot;
    const char *why;
    (void)state;
    has.small = true;
    assert_non_null(zc_hostheap_get(&want, &slot, &why));
    expect("take-1/1 carve/1 back0 small0 ");
}

static void a_slot_is_used_again_unless_its_mappings_changed(void **state)
{
    const char *why;
    void *p[3];
    (void)state;
    p[0] = get(MIB, 1, false, NULL, &why);
    assert_ptr_equal(slabs[2], &ext[0]);
    p[1] = get(MIB, 1, false, NULL, &why);
    assert_null(slabs[2]);
    expect("take-1/1 carve/1 back0 small0 ");
    assert_int_equal((uintptr_t)get(MIB, 1, false, HOME, &why), BASE + STRIDE);
    assert_ptr_equal(slabs[2], &ext[1]); /* Another one's. */
    trace[0] = 0;
    kept = ext[5].units = 1; /* Only where memory went into the pool that is looked through. */
    pool_end[0] = &ext[5];
    ext[5].since = has.now;
    zc_hostheap_put(p[1]);
    expect("");
    zc_hostheap_put(p[1]);
    expect("");
    assert_true(ext[0].live == 1 && ext[0].room == 2 && slabs[2] == &ext[0]);
    assert_true(!zc_hostheap_slot(p[1]) && zc_hostheap_slot(p[0]));
    assert_int_equal(zc_hostheap_block(BASE + MIB), 0);
    assert_int_equal(zc_hostheap_block(BASE + MIB - 1), BASE);
    p[2] = get(MIB, 1, true, NULL, &why);
    assert_ptr_equal(p[2], p[1]);
    expect("zero0/1048576 "); /* It was used before. */
    ext[0].no_reuse = true;
    zc_hostheap_put(p[2]);
    assert_true(ext[0].live == 1 && ext[0].room == 0);
    zc_hostheap_put(p[0]);
    expect("private0 unclaim0 pool0 never? ");
    kept = 0;
    assert_ptr_equal(slabs[2], &ext[1]);
    ext[0].owner = NULL; /* Behind a slab of another one's is its own. */
    ext[0].no_reuse = false;
    ext[0].live = 9;
    has.reuse = &ext[0];
    p[0] = get(MIB, 1, false, NULL, &why);
    assert_true(ext[0].live == 1 && slabs[2] == &ext[0]);
    DL_DELETE2(slabs[2], &ext[0], prev, next);
    DL_APPEND2(slabs[2], &ext[0], prev, next);
    assert_int_equal((uintptr_t)get(MIB, 1, false, NULL, &why), BASE + MIB);
    assert_int_equal(ext[0].live, 2);
    trace[0] = 0;
    zc_hostheap_put((void *)(BASE + STRIDE));
    expect("private1 unclaim1 pool1 ");
    assert_null(slabs[2]);
    zc_hostheap_put((void *)(BASE + STRIDE)); /* No block. */
    zc_hostheap_put((void *)1);
    expect("");
    assert_null(zc_hostheap_slot(NULL));
}

static void a_freed_block_goes_to_the_pool_or_into_limbo(void **state)
{
    const char *why;
    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        anew(NULL);
        void *p = get(2 * MIB, 1, false, i == 1 || i == 6 ? HOME : NULL, &why);
        ext[0].inherited = i == 1 || i == 2;
        has.foreign[0] = i == 3 || i == 5;
        ext[0].pin = i == 4 || i == 5 ? ZC_PIN_PROGRAM : ZC_PIN_DONE;
        ext[0].graphed = true;
        has.used = 9 * MIB;
        has.asked = MIB;
        kept = 4 * MIB;
        most_live = i == 6 ? 7 * MIB : 0;
        kept_peak = i == 2 ? 5 * MIB : 3 * MIB;
        trace[0] = 0;
        has.now += 1;
        zc_hostheap_put(p);
        expect(i == 4 ? "private0 unclaim0 " : "private0 unclaim0 pool0 ");
        assert_int_equal(ext[0].use, i == 4 ? ZC_EXTENT_LIMBO : ZC_EXTENT_FREE);
        assert_int_equal(ext[0].no_reuse, i == 1 || i == 3 || i == 5);
        assert_true(ext[0].live == 0 && ext[0].since == has.now && !ext[0].graphed);
        assert_true(ext[0].prefaulted == 0 && ext[0].slot[0].size == 0);
        for (unsigned k = 0; k < ZC_HOST_SLOTS; k++)
            assert_true(ext[0].slot[k].dirty);
        assert_int_equal(most_live, i == 6 ? 7 * MIB : 6 * MIB);
        assert_int_equal(kept_peak, i == 2 ? 5 * MIB : 4 * MIB);
        assert_int_equal(prefaulted, i == 3 || i == 5 ? 2 * MIB : 0);
    }
    has.locked_out = true;
    zc_hostheap_put((void *)BASE);
    expect("");
    anew(NULL); /* Surplus of the pool goes at once. */
    void *p = get(2 * MIB, 1, false, NULL, &why);
    kept = 1;
    ext[1].units = 1;
    pool_end[0] = &ext[1];
    trace[0] = 0;
    zc_hostheap_put(p);
    expect("private0 unclaim0 pool0 unpool1 unback1 give-1/1 bury1 ");
}

static void the_pool_keeps_as_much_as_blocks_had(void **state)
{
    static const struct {
        uint64_t pooled, used, asked, most_live, pool, available, age;
        bool no_reuse, off, much;
    } rows[] = {{32 * MIB, 32 * MIB, 0, 0, UINT64_MAX, UINT64_MAX, 0, 0, 0, 0},
                {32 * MIB + 1, 33 * MIB, 0, 0, UINT64_MAX, UINT64_MAX, 0, 0, 0, 1},
                {42 * MIB, 42 * MIB, 0, 10 * MIB, UINT64_MAX, UINT64_MAX, 0, 0, 0, 0},
                {42 * MIB + 1, 42 * MIB, 0, 10 * MIB, UINT64_MAX, UINT64_MAX, 0, 0, 0, 1},
                {42 * MIB, 42 * MIB, 0, 10 * MIB, UINT64_MAX, UINT64_MAX, 0, 0, 1, 1},
                {42 * MIB, 40 * MIB, 3 * MIB, 10 * MIB, UINT64_MAX, UINT64_MAX, 0, 0, 0, 1},
                {41 * MIB, 40 * MIB, 2 * MIB, 10 * MIB, UINT64_MAX, UINT64_MAX, 0, 0, 0, 0},
                {8 * MIB, 8 * MIB, 0, 0, 8 * MIB, UINT64_MAX, 0, 0, 0, 0},
                {8 * MIB + 1, 8 * MIB, 0, 0, 8 * MIB, UINT64_MAX, 0, 0, 0, 1},
                {40 * MIB, 40 * MIB, 0, 64 * MIB, UINT64_MAX, 160 * MIB, 0, 0, 0, 0},
                {40 * MIB, 40 * MIB, 0, 64 * MIB, UINT64_MAX, 160 * MIB - 4, 0, 0, 0, 1},
                {32 * MIB, 32 * MIB, 0, 64 * MIB, UINT64_MAX, 0, 0, 0, 0, 0},
                {MIB, MIB, 0, 0, UINT64_MAX, UINT64_MAX, 0, 1, 0, 1},
                {MIB, MIB, 0, 0, UINT64_MAX, UINT64_MAX, 1000000000 + 4 * MIB, 0, 0, 0},
                {MIB, MIB, 0, 0, UINT64_MAX, UINT64_MAX, 1000000001 + 4 * MIB, 0, 0, 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        ext[0].units = 2;
        ext[0].use = ZC_EXTENT_FREE;
        ext[0].no_reuse = rows[i].no_reuse;
        ext[0].since = has.now - rows[i].age;
        kept = rows[i].pooled;
        has.used = rows[i].used;
        has.asked = rows[i].asked;
        most_live = rows[i].most_live;
        has.pool = rows[i].pool;
        has.available = rows[i].available;
        life = rows[i].off ? ZC_LIFE_OFF : ZC_LIFE_ON;
        if (zc_hostheap_too_much(&ext[0]) != rows[i].much)
            fail_msg("row %u", i);
        expect("");
        ext[0].use = ZC_EXTENT_BLOCK;
        assert_false(zc_hostheap_too_much(&ext[0]));
    }
    has.locked_out = true;
    ext[0].use = ZC_EXTENT_FREE;
    assert_false(zc_hostheap_too_much(&ext[0]));
}

static void what_the_host_has_left_is_asked_ten_times_a_second(void **state)
{
    (void)state;
    ext[0].units = 1;
    ext[0].use = ZC_EXTENT_FREE;
    kept = has.used = 33 * MIB;
    most_live = 64 * MIB;
    ext[0].since = has.now;
    assert_false(zc_hostheap_too_much(&ext[0]));
    has.available = 0;
    has.now += 100000000;
    assert_false(zc_hostheap_too_much(&ext[0]));
    has.now++;
    assert_true(zc_hostheap_too_much(&ext[0]));
    has.available = UINT64_MAX;
    has.now += 100000000;
    assert_true(zc_hostheap_too_much(&ext[0]));
}

static void surplus_is_the_oldest_or_what_nobody_may_get(void **state)
{
    (void)state;
    ext[0].units = ext[1].units = ext[2].units = 1;
    pool_end[0] = &ext[0];
    pool_end[1] = &ext[1];
    ext[1].context = HOME;
    ext[0].since = ext[1].since = has.now;
    assert_null(zc_hostheap_surplus(false, true)); /* Of an empty pool nothing is asked. */
    kept = 1;
    has.locked_out = true;
    assert_null(zc_hostheap_surplus(false, true));
    assert_null(zc_hostheap_surplus_context());
    has.locked_out = false;
    assert_null(zc_hostheap_surplus(false, false));
    assert_null(zc_hostheap_surplus_context());
    expect("never? never? ");
    never = &ext[2];
    assert_ptr_equal(zc_hostheap_surplus(false, false), &ext[2]);
    expect("never? unpool2 ");
    ext[1].since = 0;
    assert_ptr_equal(zc_hostheap_surplus_context(), HOME);
    assert_ptr_equal(zc_hostheap_surplus(true, false), &ext[1]);
    assert_ptr_equal(zc_hostheap_surplus(false, true), &ext[0]);
    expect("unpool1 unpool0 ");
    assert_null(zc_hostheap_surplus(false, true));
    assert_null(zc_hostheap_surplus(true, false));
    expect("");
    ext[0].owner = HOME;
    zc_hostheap_drop(&ext[0]);
    expect("unback0 give-2/1 bury0 ");
    has.foreign[0] = true;
    zc_hostheap_drop(&ext[0]);
    expect("unback0 bury0 ");
    ext[0].use = ZC_EXTENT_LIMBO;
    has.locked_out = true;
    zc_hostheap_revive(&ext[0]);
    expect("");
    has.locked_out = false;
    zc_hostheap_revive(&ext[0]);
    expect("pool0 ");
    zc_hostheap_revive(&ext[0]);
    expect("");
}

static void threads_touch_so_much_for_blocks_that_may_not_be_filled(void **state)
{
    (void)state;
    assert_int_equal(zc_heap_may_prefault(&ext[0], 164 * MIB), 164 * MIB);
    assert_int_equal(zc_heap_may_prefault(&ext[1], 28 * MIB), 28 * MIB);
    assert_int_equal(zc_heap_may_prefault(&ext[2], 1), 0);
    zc_hostheap_needed(&ext[1]);
    zc_hostheap_needed(&ext[1]);
    assert_int_equal(zc_heap_may_prefault(&ext[2], 100 * MIB), 28 * MIB);
    assert_true(ext[0].prefaulted == 164 * MIB && ext[1].prefaulted == 0 &&
                ext[2].prefaulted == 28 * MIB);
    has.foreign[0] = true;
    zc_hostheap_needed(&ext[0]); /* Of the parent's. */
    assert_int_equal(prefaulted, 192 * MIB);
    prefaulted = 200 * MIB;
    assert_int_equal(zc_heap_may_prefault(&ext[2], 1), 0);
}

static void the_range_is_fitted_in_its_own_process(void **state)
{
    (void)state;
    owner = has.pid = 7;
    zc_hostheap_fit(true);
    expect("fit-all ");
    zc_hostheap_fit(false);
    expect("fit ");
    for (unsigned i = 0; i < 3; i++) {
        heap.bytes = i != 0;
        has.pid = i == 1 ? 8 : 7;
        has.locked_out = i == 2;
        zc_hostheap_fit(true);
        expect("");
    }
    has.locked_out = false;
    kept = 1;
    ext[0].units = 1;
    pool_end[0] = &ext[0];
    ext[0].since = 0;
    zc_hostheap_fit(false);
    expect("fit unpool0 unback0 give-1/1 bury0 ");
}

static void a_fork_holds_the_heap_and_its_child_forgets_the_device(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        ext[i].units = 1;
        ext[i].use = i == 3 ? ZC_EXTENT_BLOCK : ZC_EXTENT_FREE;
        ext[i].shared = ext[i].view = HOME;
        ext[i].early = true;
    }
    ext[1].inode = 9;
    ext[2].owner = HOME;
    zc_module_hostheap.before_fork();
    assert_int_equal(has.held, 1);
    assert_string_equal(trace, "freeze wipe0 ");
    trace[0] = 0;
    assert_true(ext[3].inherited && !ext[0].inherited && !ext[1].inherited);
    zc_module_hostheap.after_fork();
    expect("keep0 ");
    has.pid = CHILD;
    era = 6;
    unlisted = false;
    pool_end[0] = &ext[0];
    zc_module_hostheap.inherit();
    expect("unpool0 unback0 bury0 ");
    assert_true(owner == CHILD && era == 7 && unlisted);
    for (unsigned i = 0; i < 4; i++)
        assert_true(!ext[i].shared && !ext[i].view && !ext[i].early);
    pool_end[0] = &ext[0];
    has.locked_out = true;
    zc_module_hostheap.before_fork();
    zc_module_hostheap.after_fork();
    expect("");
    ext[3].shared = HOME;
    zc_module_hostheap.inherit(); /* Its parent did not hold the heap. */
    expect("");
    assert_true(era == 8 && !ext[3].shared && pool_end[0] == &ext[0]);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_range_is_reserved_once),
        TEST(a_large_block_has_an_extent_of_its_own),
        TEST(a_request_that_fails_says_why_and_leaves_nothing),
        TEST(the_pool_is_emptied_for_a_request_that_would_fit),
        TEST(blocks_begin_at_different_multiples_of_128_bytes),
        TEST(small_blocks_share_a_unit),
        TEST(a_slab_is_registered_whole_and_never_shared),
        TEST(a_slot_is_used_again_unless_its_mappings_changed),
        TEST(a_freed_block_goes_to_the_pool_or_into_limbo),
        TEST(the_pool_keeps_as_much_as_blocks_had),
        TEST(what_the_host_has_left_is_asked_ten_times_a_second),
        TEST(surplus_is_the_oldest_or_what_nobody_may_get),
        TEST(threads_touch_so_much_for_blocks_that_may_not_be_filled),
        TEST(the_range_is_fitted_in_its_own_process),
        TEST(a_fork_holds_the_heap_and_its_child_forgets_the_device),
    };
    return RUN_TESTS(tests);
}
