/* SPDX-License-Identifier: MIT */
/* Extents: random carving, stretching, cutting, burying and pooling against a model of the units.
 */
#include "host_test.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/memory.h"
#include "child_test.h"
#include "host/extent.h"
#include "memory/limits.h"

enum { UNITS = 2600, STEPS = 30000, MOST = 40, LIVE = 128 };

/* The model: which extent a unit is in, and what the pool holds, oldest first. */
static struct model {
    struct zc_extent *of[UNITS]; /* NULL: a hole, or never carved. */
    unsigned top;                /* Units below were carved. */
    struct zc_extent *live[LIVE];
    unsigned count;
} model;

static int contexts[2];
static uint64_t random_state;

void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, from);
}

int zc_memory_unmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

int zc_memory_protect(void *at, size_t n, int protection)
{
    return (int)syscall(SYS_mprotect, at, n, protection);
}

int zc_memory_advise(void *at, size_t n, int advice)
{
    return (int)syscall(SYS_madvise, at, n, advice);
}

static int move_error; /* In place of libzc's own: pages move or not, and may leave nothing. */
static bool move_unmaps;

void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to)
{
    if (!move_error)
        return (void *)syscall(SYS_mremap, at, n, now, flags, to);
    if (move_unmaps)
        zc_memory_unmap(to, n);
    errno = move_error;
    return MAP_FAILED;
}

static unsigned below(unsigned n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % n;
}

static unsigned first_of(const struct zc_extent *e)
{
    return (unsigned)((zc_extent_base(e) - zc_hostheap.base) / ZC_HOST_UNIT);
}

static void fill(unsigned first, unsigned units, struct zc_extent *e)
{
    for (unsigned i = first; i < first + units; i++) {
        assert_true(!e != !model.of[i]);
        model.of[i] = e;
    }
}

/* Free units from `first` on, as far as they were carved. */
static unsigned free_at(unsigned first)
{
    unsigned n = 0;
    while (first + n < model.top && !model.of[first + n])
        n++;
    return n;
}

static bool some_hole_fits(unsigned units)
{
    for (unsigned i = 0; i < model.top; i++)
        if ((i == 0 || model.of[i - 1]) && free_at(i) >= units)
            return true;
    return false;
}

static void add(struct zc_extent *e)
{
    model.live[model.count++] = e;
}

static struct zc_extent *any(void)
{
    return model.count ? model.live[below(model.count)] : NULL;
}

static void forget(struct zc_extent *e)
{
    unsigned i = 0;
    while (model.live[i] != e)
        i++;
    memmove(&model.live[i], &model.live[i + 1], (--model.count - i) * sizeof(e));
}

static void put(struct zc_extent *e, size_t size)
{
    size_t span = e->units * ZC_HOST_UNIT, all = zc_extent_loose_bytes - e->loose;
    zc_extent_fill(e, size);
    assert_int_equal(e->loose, e->units < 8 || span - size > size / 4 ? span - size : 0);
    assert_int_equal(zc_extent_loose_bytes, all + e->loose);
}

static void carve(void)
{
    unsigned units = 1 + below(MOST), before = model.top;
    bool fits = some_hole_fits(units);
    if (model.count == LIVE || (!fits && model.top + units > UNITS))
        return;
    struct zc_extent *e = zc_extent_carve(units);
    assert_non_null(e);
    unsigned first = first_of(e);
    if (fits)
        assert_true(first + units <= before);
    else
        assert_int_equal(first, before);
    model.top = fits ? before : before + units;
    assert_true(e->units == units && e->use == ZC_EXTENT_NONE && e->pin == ZC_PIN_NONE);
    assert_true(!e->owner && !e->context && !e->inode && !e->no_reuse && !e->live && !e->era);
    fill(first, units, e);
    e->use = ZC_EXTENT_BLOCK;
    e->era = zc_extent_era;
    add(e);
    put(e, units * ZC_HOST_UNIT - below(3) * below((unsigned)ZC_HOST_UNIT / 4));
}

static void stretch(struct zc_extent *e)
{
    unsigned first = first_of(e), end = first + e->units, had = e->units;
    unsigned more = 1 + below(MOST);
    bool top = end == model.top;
    if (e->use != ZC_EXTENT_BLOCK || (top && end + more > UNITS))
        return;
    bool may = top || free_at(end) >= more;
    const struct zc_extent *hole = top ? NULL : zc_hostheap_extent(zc_extent_base(e + e->units));
    assert_int_equal(zc_extent_stretch(e, had + more), may);
    assert_int_equal(e->units, may ? had + more : had);
    assert_int_equal(e->use, ZC_EXTENT_BLOCK);
    assert_true(top || !may || hole->use == ZC_EXTENT_NONE);
    if (may && top)
        model.top += more;
    if (may)
        fill(end, more, e);
}

static void bury(struct zc_extent *e)
{
    unsigned first = first_of(e), units = e->units;
    if (e->use == ZC_EXTENT_FREE)
        zc_extent_unpool(e);
    const struct zc_extent *after = model.top > first + units ? e + units : NULL;
    zc_extent_bury(e);
    fill(first, units, NULL);
    forget(e);
    bool leads = zc_hostheap_extent(zc_extent_base(e)) == e;
    assert_int_equal(e->use, leads ? ZC_EXTENT_HOLE : ZC_EXTENT_NONE);
    assert_true(!after || after->use != ZC_EXTENT_HOLE);
    assert_int_equal(e->loose, 0);
}

static void cut(struct zc_extent *e)
{
    unsigned units = e->units, left = 1 + below(MOST);
    if (e->use != ZC_EXTENT_BLOCK || left >= units)
        return;
    zc_heap_unlock();
    struct zc_extent *rest = zc_extent_cut(e, left);
    assert_true(zc_heap_lock());
    assert_true(e->units == left && e->use == ZC_EXTENT_BLOCK);
    assert_int_equal(first_of(rest), first_of(e) + left);
    assert_true(rest->units == units - left && rest->use == ZC_EXTENT_NONE);
    fill(first_of(rest), rest->units, NULL);
    zc_extent_bury(rest);
}

/* A block that leaves some of its extent, and may be registered, a file, or the driver's. */
static void pool(struct zc_extent *e)
{
    if (e->use != ZC_EXTENT_BLOCK)
        return;
    unsigned kind = below(8);
    e->no_reuse = kind == 0;
    e->inode = kind == 1;
    e->owner = kind == 2 ? contexts : NULL;
    e->pin = below(2) ? ZC_PIN_DONE : ZC_PIN_NONE;
    e->context = &contexts[below(2)];
    e->pinned = zc_extent_span(e);
    zc_extent_pool(e);
    assert_int_equal(e->loose, 0);
    forget(e); /* The last of `live` is the newest. */
    add(e);
}

static bool is_registered(const struct zc_extent *e)
{
    return e->pin == ZC_PIN_DONE;
}

static bool may_take(const struct zc_extent *e, unsigned units, const struct zc_host_want *want)
{
    if (e->use != ZC_EXTENT_FREE || e->units < units || e->no_reuse)
        return false;
    if (!e->inode != !want->shareable || !e->owner != !want->owner)
        return false;
    if (is_registered(e) && want->owner && e->context != want->owner)
        return false;
    uint64_t over = e->units - units, all = zc_extent_loose_bytes + over * ZC_HOST_UNIT;
    return over <= units / 4 ||
           (units > 1 && !want->shareable && all <= 32 * MIB && all <= zc_limits_pool() / 16);
}

/* Of those that fit, a smallest one is taken; of equal ones, one that is registered already. */
static void reuse(void)
{
    unsigned units = 1 + below(MOST), least = UINT32_MAX;
    struct zc_host_want want = {.shareable = below(4) == 0,
                                .owner = below(4) == 0 ? contexts : NULL};
    want.size = units * ZC_HOST_UNIT;
    bool pinned = false;
    for (unsigned i = 0; i < model.count; i++) {
        const struct zc_extent *e = model.live[i];
        if (may_take(e, units, &want) && e->units <= least) {
            pinned = is_registered(e) || (pinned && e->units == least);
            least = e->units;
        }
    }
    struct zc_extent *e = zc_extent_reuse(units, &want);
    if (least == UINT32_MAX) {
        assert_null(e);
        return;
    }
    assert_non_null(e);
    assert_true(may_take(e, units, &want) || e->use == ZC_EXTENT_NONE);
    assert_int_equal(e->units, least);
    assert_int_equal(is_registered(e), pinned);
    assert_int_equal(e->use, ZC_EXTENT_NONE);
    e->use = ZC_EXTENT_BLOCK;
    e->pin = ZC_PIN_NONE;
    e->owner = NULL;
    e->no_reuse = false;
    e->inode = 0;
    put(e, units * ZC_HOST_UNIT);
    forget(e);
    add(e);
}

static void check_oldest(bool pinned, bool no_reuse)
{
    struct zc_extent *oldest = NULL;
    for (unsigned i = 0; i < model.count && !oldest; i++) {
        struct zc_extent *e = model.live[i];
        if (e->use == ZC_EXTENT_FREE && is_registered(e) == pinned && (e->no_reuse || !no_reuse))
            oldest = e;
    }
    assert_ptr_equal(zc_extent_oldest(pinned, no_reuse), oldest);
}

/* One that was registered, or is no more, while it was in the pool is the oldest. */
static void turn(struct zc_extent *e)
{
    if (e->use != ZC_EXTENT_FREE)
        return;
    e->pin = is_registered(e) ? ZC_PIN_NONE : ZC_PIN_DONE;
    zc_extent_unlisted = true;
    forget(e);
    memmove(&model.live[1], &model.live[0], model.count++ * sizeof(e));
    model.live[0] = e;
    check_oldest(is_registered(e), false);
}

static void count_one(struct zc_extent *e, void *arg)
{
    unsigned *at = arg;
    assert_true(first_of(e) >= *at && e->use != ZC_EXTENT_NONE && e->use != ZC_EXTENT_HOLE);
    for (unsigned i = *at; i < first_of(e); i++)
        assert_null(model.of[i]);
    for (unsigned i = 0; i < e->units; i++)
        assert_ptr_equal(model.of[first_of(e) + i], e);
    *at = first_of(e) + e->units;
}

static bool is_pooled(const struct zc_extent *e)
{
    return e->use == ZC_EXTENT_FREE;
}

/* Behind any extent, and from the first one on, the next one is found that is wanted. */
static void check_next(const struct zc_extent *after)
{
    unsigned at = after ? first_of(after) + after->units : 0;
    while (at < model.top && !(model.of[at] && is_pooled(model.of[at])))
        at++;
    struct zc_extent *expected = at < model.top ? model.of[at] : NULL;
    zc_heap_unlock();
    assert_ptr_equal(zc_hostheap_next(after, is_pooled), expected);
    assert_true(zc_heap_lock());
}

static void check_all(void)
{
    unsigned at = 0;
    uint64_t pooled = 0, loose = 0;
    zc_extent_each(count_one, &at);
    for (; at < model.top; at++)
        assert_null(model.of[at]);
    for (unsigned i = 0; i < model.top; i++) {
        uintptr_t address = zc_hostheap.base + i * ZC_HOST_UNIT;
        struct zc_extent *e = zc_hostheap_extent(address + below((unsigned)ZC_HOST_UNIT));
        assert_non_null(e);
        if (model.of[i])
            assert_ptr_equal(e, model.of[i]);
        else
            assert_int_equal(e->use, ZC_EXTENT_HOLE);
        assert_true(first_of(e) <= i && i < first_of(e) + e->units);
    }
    assert_null(zc_hostheap_extent(zc_hostheap.base + model.top * ZC_HOST_UNIT));
    assert_null(zc_hostheap_extent(zc_hostheap.base - 1));
    for (unsigned i = 0; i < model.count; i++) {
        pooled += is_pooled(model.live[i]) ? zc_extent_span(model.live[i]) : 0;
        loose += model.live[i]->loose;
    }
    assert_int_equal(zc_extent_pooled_bytes, pooled);
    assert_int_equal(zc_extent_loose_bytes, loose);
    for (unsigned i = 0; i < 4; i++)
        check_oldest(i & 1, i & 2);
    check_next(NULL);
    if (model.count)
        check_next(model.live[below(model.count)]);
}

static int setup(void **state)
{
    const char *why;
    (void)state;
    host_policy("[defaults]\nmax_pinned = 8G\n"
                "[rule large]\napi = malloc\nsize = 1M..\nplace = pinned\n");
    zc_limits_start(zc_rules());
    assert_true(zc_hostheap_open(&why));
    return 0;
}

static void extents_never_overlap_and_none_is_lost(void **state)
{
    (void)state;
    random_state = 7;
    assert_true(zc_heap_lock());
    for (unsigned step = 0; step < STEPS; step++) {
        struct zc_extent *e = any();
        unsigned what = below(17);
        if (what < 4 || !e)
            carve();
        else if (what < 7)
            stretch(e);
        else if (what < 9)
            bury(e);
        else if (what < 10)
            cut(e);
        else if (what < 13)
            pool(e);
        else if (what < 16)
            reuse();
        else
            turn(e);
        while (step % 1000 == 0 && model.count) /* With few the loose bytes have room. */
            bury(model.live[0]);
        if (step % 50 == 0)
            check_all();
    }
    while (model.count)
        bury(model.live[0]);
    check_all();
    assert_int_equal(free_at(0), model.top);
    zc_heap_unlock();
}

static struct zc_extent *carved(uint32_t units)
{
    assert_true(zc_heap_lock());
    struct zc_extent *e = zc_extent_carve(units);
    zc_heap_unlock();
    return e;
}

/* A quarter too much is little; more only while all blocks together leave no more than 32 MiB, and
 * not of what is as large as its device block. */
static void a_block_takes_no_extent_that_is_much_too_large(void **state)
{
    static const struct {
        uint32_t has, asked;
        bool shareable, taken;
    } rows[] = {{4, 4, 1, 1},  {5, 4, 1, 1},  {6, 4, 1, 0}, {6, 4, 0, 1},
                {1, 1, 0, 1},  {2, 1, 0, 0},  {4, 2, 0, 1}, {4, 2, 1, 0},
                {18, 2, 0, 1}, {19, 2, 0, 0}, {3, 4, 0, 0}};
    (void)state;
    if (zc_limits_pool() / 16 < 32 * MIB) /* Strict overcommit leaves blocks nothing. */
        skip();
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_extent *e = carved(rows[i].has), *beside = carved(2);
        struct zc_host_want want = {.size = 1, .shareable = rows[i].shareable};
        e->inode = rows[i].shareable;
        assert_int_equal(zc_extent_loose_bytes, 0);
        for (unsigned loose = 0; loose < 2; loose++) {
            bool taken = rows[i].taken && !(loose && rows[i].has == 18);
            zc_extent_fill(beside, loose ? 2 * ZC_HOST_UNIT - loose : 0);
            assert_true(zc_heap_lock());
            zc_extent_pool(e);
            assert_ptr_equal(zc_extent_reuse(rows[i].asked, &want), taken ? e : NULL);
            if (!taken)
                zc_extent_unpool(e);
            zc_heap_unlock();
        }
        zc_heap_bury(e);
        zc_heap_bury(beside);
    }
}

/* The kernel says whether pages can be read. */
static bool is_readable(const void *p)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool can = write(ends[1], p, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return can;
}

/* Bytes of an extent move with its pages, and what is given back is gone. */
static void memory_is_backed_moved_and_given_back(void **state)
{
    (void)state;
    bool intact = true;
    struct zc_extent *a = carved(2), *b = carved(3);
    assert_true(zc_extent_back(a, 0));
    char *from = (char *)zc_extent_base(a), *to = (char *)zc_extent_base(b);
    memset(from, 5, 2 * ZC_HOST_UNIT);
    assert_true(zc_extent_back(b, 2));
    to[2 * ZC_HOST_UNIT] = 6;
    assert_false(is_readable(to));
    assert_true(zc_extent_move(a, b, &intact));
    assert_true(intact && to[0] == 5 && to[2 * ZC_HOST_UNIT - 1] == 5 && to[2 * ZC_HOST_UNIT] == 6);
    assert_false(is_readable(from));
    assert_true(zc_extent_back(a, 0));
    assert_true(from[0] == 0 && from[2 * ZC_HOST_UNIT - 1] == 0);
    zc_extent_unback(b);
    assert_false(is_readable(to) || is_readable(to + 2 * ZC_HOST_UNIT));
    assert_true(zc_extent_back(b, 0));
    assert_true(to[0] == 0 && to[2 * ZC_HOST_UNIT] == 0);
    zc_extent_unback(a);
    zc_extent_unback(b);
    zc_heap_bury(a);
    zc_heap_bury(b);
}

/* Once the kernel has unmapped the target, and another thread maps something there, it is lost. */
static void pages_that_do_not_move_stay_and_their_target_is_whole_or_said_lost(void **state)
{
    static const struct {
        int error;
        bool unmaps, intact;
    } rows[] = {{EINVAL, false, true}, {ENOMEM, true, true}, {ENOMEM, false, false}};
    (void)state;
    struct zc_extent *a = carved(2), *b = carved(2);
    assert_true(zc_extent_back(a, 0));
    char *from = memset((void *)zc_extent_base(a), 5, 2 * ZC_HOST_UNIT);
    for (unsigned i = 0; i < 3; i++) {
        bool intact = true;
        move_error = rows[i].error;
        move_unmaps = rows[i].unmaps;
        assert_false(zc_extent_move(a, b, &intact));
        assert_int_equal(intact, rows[i].intact);
        assert_true(from[0] == 5 && from[2 * ZC_HOST_UNIT - 1] == 5);
        assert_false(is_readable((void *)zc_extent_base(b)));
    }
    move_error = 0;
    zc_extent_unback(a);
    zc_heap_bury(a);
    zc_heap_bury(b);
}

static size_t mapped_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return pages * 4096;
}

static void fit_under(size_t bytes, bool carved_only)
{
    struct rlimit was, limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
    limit = was;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    assert_true(zc_heap_lock());
    zc_extent_fit(carved_only);
    zc_heap_unlock();
    assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
}

/* A quarter of what the process may have, all of which can be carved, and not a unit more. */
static void the_range_shrinks_to_its_part_of_the_limit(void **state)
{
    const uint32_t rest = 5000;
    (void)state;
    uint32_t all = model.top + rest;
    size_t before = mapped_bytes(), gone = zc_hostheap.bytes / ZC_HOST_UNIT - all;
    fit_under(4 * all * ZC_HOST_UNIT, false);
    assert_int_equal(zc_hostheap.bytes, all * ZC_HOST_UNIT);
    /* With the records of so many units. */
    assert_in_range((before - mapped_bytes()) / 4096 + 4,
                    gone * (ZC_HOST_UNIT + sizeof(struct zc_extent) + 4) / 4096, SIZE_MAX);
    errno = 0;
    assert_null(carved(rest + 1));
    assert_int_equal(errno, 0);
    struct zc_extent *e = carved(100);
    assert_int_equal(first_of(e), 0); /* All that was carved is one hole. */
    zc_heap_bury(e);
    e = carved(model.top);
    assert_int_equal(first_of(e), 0);
    assert_true(zc_heap_lock());
    assert_false(zc_extent_stretch(e, all + 1));
    assert_int_equal(e->units, model.top);
    assert_true(zc_extent_stretch(e, all - 1100));
    zc_heap_unlock();
    assert_null(carved(1101));
    assert_int_equal(first_of(carved(1100)), all - 1100);
    assert_null(carved(1));
    model.top = all;
    zc_heap_bury(zc_hostheap_extent(zc_hostheap.base));
    zc_heap_bury(zc_hostheap_extent(zc_hostheap.base + (all - 1) * ZC_HOST_UNIT));
}

static void shrink_to_what_was_carved(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    uintptr_t end = zc_hostheap.base + model.top * ZC_HOST_UNIT;
    fit_under(RLIM_INFINITY, false);
    bool all = zc_hostheap_owns(end);
    fit_under(RLIM_INFINITY, true);
    bool less = !zc_hostheap_owns(end) && zc_hostheap_owns(end - 1) && !carved(model.top + 1);
    struct zc_extent *e = carved(model.top);
    bool whole = e && zc_heap_lock() && !zc_extent_stretch(e, model.top + 1);
    bool outside = zc_memory_map((void *)end, 4096, PROT_NONE, flags, -1, 0) == (void *)end;
    bool inside = zc_memory_map((void *)(end - 4096), 4096, PROT_NONE, flags, -1, 0) != MAP_FAILED;
    _exit(all && less && whole && outside && !inside ? 7 : 1);
}

/* Addresses that no extent ever had can be given to others; those before them are the heap's. */
static void the_range_shrinks_to_what_was_carved(void **state)
{
    (void)state;
    int status = in_child(shrink_to_what_was_carved);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_never_overlap_and_none_is_lost),
        cmocka_unit_test(a_block_takes_no_extent_that_is_much_too_large),
        cmocka_unit_test(memory_is_backed_moved_and_given_back),
        cmocka_unit_test(pages_that_do_not_move_stay_and_their_target_is_whole_or_said_lost),
        cmocka_unit_test(the_range_shrinks_to_what_was_carved),
        cmocka_unit_test(the_range_shrinks_to_its_part_of_the_limit),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, NULL);
}
