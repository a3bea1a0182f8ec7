/* SPDX-License-Identifier: MIT */
/* Coherence of a host and a device block that share their pages; the header explains the states. */
#include "shared/coherence.h"

#include <string.h>

#include "base/memory.h"
#include "host/hostheap.h"
#include "memory/workers.h"
#include "shared/view.h"

/* A program that writes page after page gets up to this many parted at once. */
#define WINDOW 8u

/* Pages tested for zeroes at once; the flags are on the stack. */
#define ZEROES_AT_ONCE 512u

/* A run of pages in one state. */
struct run {
    uint32_t first, end;
    enum zc_page state;
    bool whole; /* The range covers all bytes of h in each page. */
};

static uint32_t page_of(uint64_t offset)
{
    return (uint32_t)(offset >> ZC_HOST_UNIT_SHIFT);
}

static uint64_t start_of(uint32_t page)
{
    return (uint64_t)page << ZC_HOST_UNIT_SHIFT;
}

static uintptr_t address_of(const struct zc_coherent *c, uint32_t page)
{
    return c->base + start_of(page);
}

static size_t span_of(const struct run *r)
{
    return (size_t)(r->end - r->first) << ZC_HOST_UNIT_SHIFT;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* True if [low, high) covers all bytes of h in a page. */
static bool covers(const struct zc_coherent *c, uint32_t page, uint64_t low, uint64_t high)
{
    uint64_t start = start_of(page), end = least(start_of(page + 1), c->bytes);
    return low <= start && high >= end;
}

static struct run run_at(const struct zc_coherent *c, uint32_t page, uint64_t low, uint64_t high)
{
    struct run r = {page, page + 1, (enum zc_page)c->state[page], covers(c, page, low, high)};
    while (r.end < c->pages && start_of(r.end) < high && c->state[r.end] == r.state &&
           covers(c, r.end, low, high) == r.whole)
        r.end++;
    return r;
}

/* Bytes of a run in [low, high). */
static uint64_t clip(const struct run *r, uint64_t low, uint64_t high, uint64_t *start_out)
{
    uint64_t start = start_of(r->first), end = least(start_of(r->end), high);
    *start_out = start > low ? start : low;
    return end - *start_out;
}

static void become(struct zc_coherent *c, const struct run *r, uint32_t pages, enum zc_page state)
{
    if (!pages)
        return;
    memset(&c->state[r->first], (int)state, pages);
    __atomic_fetch_sub(&c->count[r->state], pages, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->count[state], pages, __ATOMIC_RELEASE);
    if (state == ZC_PAGE_AHEAD || state == ZC_PAGE_AWAY)
        memset(&c->back[r->first], 0, pages * sizeof(c->back[0]));
}

static enum zc_effect set_state(struct zc_coherent *c, const struct run *r, size_t done,
                                enum zc_page state)
{
    become(c, r, (uint32_t)(done >> ZC_HOST_UNIT_SHIFT), state);
    return done == span_of(r) ? ZC_EFFECT_DONE : ZC_EFFECT_REFUSED;
}

static enum zc_effect part(struct zc_coherent *c, const struct run *r, bool copy)
{
    size_t done = zc_view_part(address_of(c, r->first), span_of(r), copy);
    c->parted += done >> ZC_HOST_UNIT_SHIFT;
    return set_state(c, r, done, ZC_PAGE_APART);
}

static enum zc_effect merge(struct zc_coherent *c, const struct run *r)
{
    size_t done = zc_view_merge(address_of(c, r->first), span_of(r));
    c->merged += done >> ZC_HOST_UNIT_SHIFT;
    return set_state(c, r, done, ZC_PAGE_SAME);
}

static enum zc_effect aside(struct zc_coherent *c, const struct run *r)
{
    struct zc_page_back kept[1];
    bool one = r->end - r->first == 1;
    if (one)
        kept[0] = c->back[r->first];
    enum zc_effect v =
        set_state(c, r, zc_view_aside(address_of(c, r->first), span_of(r)), ZC_PAGE_AWAY);
    if (one)
        c->back[r->first] = kept[0];
    return v;
}

static enum zc_effect protect(struct zc_coherent *c, const struct run *r, int protection,
                              enum zc_page state)
{
    bool done = zc_view_protect(address_of(c, r->first), span_of(r), protection);
    return set_state(c, r, done ? span_of(r) : 0, state);
}

/* Parts pages that the CPU may write, at most ZEROES_AT_ONCE; pages of zeroes without a copy. */
static enum zc_effect part_some(struct zc_coherent *c, const struct run *some)
{
    bool zero[ZEROES_AT_ONCE];
    if (!zc_view_expose(address_of(c, some->first), span_of(some), PROT_READ))
        return ZC_EFFECT_REFUSED;
    zc_workers_zeroes((void *)address_of(c, some->first), span_of(some), ZC_HOST_UNIT, zero);
    for (uint32_t page = some->first; page < some->end;) {
        struct run r = {page, page + 1, some->state, true};
        bool empty = zero[page - some->first];
        while (r.end < some->end && zero[r.end - some->first] == empty)
            r.end++;
        enum zc_effect v = part(c, &r, !empty);
        if (v != ZC_EFFECT_DONE) {
            while (page < some->end && c->state[page] != some->state)
                page++;
            r = (struct run){page, some->end, some->state, true};
            zc_view_protect(address_of(c, page), span_of(&r), ZC_VIEW_OPEN);
            return v;
        }
        page = r.end;
    }
    return ZC_EFFECT_DONE;
}

static enum zc_effect part_open(struct zc_coherent *c, const struct run *all)
{
    enum zc_effect v = ZC_EFFECT_DONE;
    for (struct run some = *all; some.first < all->end && v == ZC_EFFECT_DONE;
         some.first = some.end) {
        some.end = (uint32_t)least(all->end, some.first + ZEROES_AT_ONCE);
        v = part_some(c, &some);
    }
    return v;
}

/* Applies a step to the runs of a range. */
static enum zc_effect each(struct zc_coherent *c, uint64_t low, uint64_t high,
                           enum zc_effect (*step)(struct zc_coherent *c, struct run *r,
                                                  uint64_t low, uint64_t high, void *arg),
                           void *arg, uint64_t *at_out)
{
    for (uint32_t page = page_of(low); page < c->pages && start_of(page) < high;) {
        struct run r = run_at(c, page, low, high);
        enum zc_effect v = step(c, &r, low, high, arg);
        if (at_out)
            *at_out = start_of(page) > low ? start_of(page) : low;
        if (v != ZC_EFFECT_DONE)
            return v;
        page = r.end;
    }
    return ZC_EFFECT_DONE;
}

static enum zc_effect to_device(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                                void *arg)
{
    struct zc_moved *moved = arg;
    uint64_t start, n = clip(r, low, high, &start);
    switch (r->state) {
    case ZC_PAGE_ALONE:
    case ZC_PAGE_SAME:
        moved->elided += n;
        c->elided += r->end - r->first;
        return r->state == ZC_PAGE_SAME ? ZC_EFFECT_DONE : protect(c, r, PROT_READ, ZC_PAGE_SAME);
    case ZC_PAGE_APART:
    case ZC_PAGE_KEPT:
        zc_workers_copy((void *)(c->base + start + zc_view_shadow), (void *)(c->base + start), n);
        moved->copied += n;
        return r->whole && !c->cold && r->state == ZC_PAGE_APART ? merge(c, r) : ZC_EFFECT_DONE;
    default:
        return ZC_EFFECT_CONFLICT;
    }
}

/* Records that a part of the page was copied back; true once all of it was. */
static bool note_back(struct zc_coherent *c, uint32_t page, uint64_t low, uint64_t high)
{
    struct zc_page_back *b = &c->back[page];
    __atomic_store_n(&c->noted, true, __ATOMIC_RELEASE);
    uint64_t start = start_of(page), end = least(start_of(page + 1), c->bytes);
    uint32_t from = (uint32_t)(low > start ? low - start : 0);
    uint32_t to = (uint32_t)(least(high, end) - start);
    if (b->low == b->high || from > b->high || to < b->low) {
        b->low = from;
        b->high = to;
    } else {
        b->low = from < b->low ? from : b->low;
        b->high = to > b->high ? to : b->high;
    }
    return b->low == 0 && b->high >= end - start;
}

static enum zc_effect to_host(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                              void *arg)
{
    struct zc_moved *moved = arg;
    bool whole = r->whole, lost = r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY;
    if (lost && !whole)
        r->end = r->first + 1; /* `back` is recorded page by page. */
    uint64_t start, n = clip(r, low, high, &start);
    if (r->state == ZC_PAGE_KEPT || (r->state == ZC_PAGE_APART && (c->cold || !whole))) {
        zc_workers_copy((void *)(c->base + start), (void *)(c->base + start + zc_view_shadow), n);
        moved->copied += n;
        return ZC_EFFECT_DONE;
    }
    moved->elided += n;
    c->elided += r->end - r->first;
    if (lost && !whole)
        whole = note_back(c, r->first, low, high);
    if (!whole || r->state == ZC_PAGE_ALONE || r->state == ZC_PAGE_SAME)
        return ZC_EFFECT_DONE;
    return r->state == ZC_PAGE_AHEAD ? protect(c, r, PROT_READ, ZC_PAGE_SAME) : merge(c, r);
}

static enum zc_effect host_read(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                                void *arg)
{
    (void)c, (void)low, (void)high, (void)arg;
    bool lost = r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY;
    return lost ? ZC_EFFECT_CONFLICT : ZC_EFFECT_DONE;
}

static enum zc_effect host_write(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                                 void *arg)
{
    (void)low, (void)high, (void)arg;
    if (r->state == ZC_PAGE_SAME)
        return part(c, r, !r->whole);
    if (r->state != ZC_PAGE_AHEAD && r->state != ZC_PAGE_AWAY)
        return ZC_EFFECT_DONE;
    if (!r->whole)
        return ZC_EFFECT_CONFLICT;
    if (!c->device)
        return protect(c, r, ZC_VIEW_OPEN, ZC_PAGE_ALONE);
    if (r->state == ZC_PAGE_AHEAD) {
        enum zc_effect v = aside(c, r);
        if (v != ZC_EFFECT_DONE)
            return v;
        r->state = ZC_PAGE_AWAY;
    }
    return protect(c, r, ZC_VIEW_OPEN, ZC_PAGE_APART);
}

static enum zc_effect device_read(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                                  void *arg)
{
    (void)low, (void)high, (void)arg;
    if (r->state != ZC_PAGE_AHEAD)
        return ZC_EFFECT_DONE;
    r->end = r->first + 1; /* `back` of each page stays. */
    return aside(c, r);
}

static enum zc_effect device_write(struct zc_coherent *c, struct run *r, uint64_t low,
                                   uint64_t high, void *arg)
{
    if (r->state == ZC_PAGE_ALONE)
        return part_open(c, r);
    if (r->state == ZC_PAGE_SAME)
        return part(c, r, true);
    memset(&c->back[r->first], 0, (r->end - r->first) * sizeof(c->back[0]));
    return device_read(c, r, low, high, arg);
}

static enum zc_effect launch(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                             void *arg)
{
    (void)low, (void)high, (void)arg;
    switch (r->state) {
    case ZC_PAGE_ALONE:
        return part_open(c, r);
    case ZC_PAGE_SAME:
        return protect(c, r, PROT_NONE, ZC_PAGE_AHEAD);
    case ZC_PAGE_AHEAD:
    case ZC_PAGE_AWAY:
        memset(&c->back[r->first], 0, (r->end - r->first) * sizeof(c->back[0]));
        return ZC_EFFECT_DONE;
    default:
        return ZC_EFFECT_DONE;
    }
}

static enum zc_effect cool(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                           void *arg)
{
    (void)low, (void)high, (void)arg;
    if (r->state == ZC_PAGE_ALONE)
        return part_open(c, r);
    return r->state == ZC_PAGE_SAME ? part(c, r, true) : ZC_EFFECT_DONE;
}

static enum zc_effect keep_run(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                               void *arg)
{
    if (r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY)
        return ZC_EFFECT_CONFLICT;
    enum zc_effect v = cool(c, r, low, high, arg);
    if (v == ZC_EFFECT_DONE && r->state != ZC_PAGE_KEPT) {
        r->state = ZC_PAGE_APART;
        become(c, r, r->end - r->first, ZC_PAGE_KEPT);
    }
    return v;
}

/* Clears the bytes of h in pages that only the GPU's page is behind. */
static enum zc_effect clear(struct zc_coherent *c, const struct run *r, uint64_t start, uint64_t n)
{
    if (start >= c->bytes)
        return ZC_EFFECT_DONE;
    if (!zc_view_expose(address_of(c, r->first), span_of(r), ZC_VIEW_OPEN))
        return ZC_EFFECT_REFUSED;
    memset((void *)(c->base + start), 0, least(n, c->bytes - start));
    return zc_view_protect(address_of(c, r->first), span_of(r), ZC_VIEW_OPEN) ? ZC_EFFECT_DONE
                                                                              : ZC_EFFECT_REFUSED;
}

static enum zc_effect discard(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                              void *arg)
{
    uint64_t start, n = clip(r, low, high, &start);
    enum zc_effect v = host_write(c, r, low, high, arg);
    if (v != ZC_EFFECT_DONE)
        return v;
    if (c->state[r->first] == ZC_PAGE_ALONE)
        return clear(c, r, start, n);
    return zc_memory_advise((void *)(c->base + start), n, MADV_DONTNEED) == 0 ? ZC_EFFECT_DONE
                                                                              : ZC_EFFECT_REFUSED;
}

static enum zc_effect exile(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                            void *arg)
{
    bool content = *(bool *)arg;
    if (r->state == ZC_PAGE_ALONE)
        return c->device ? part_open(c, r) : ZC_EFFECT_DONE;
    if (r->state == ZC_PAGE_SAME)
        return part(c, r, content || !r->whole);
    if ((r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY) && content)
        return ZC_EFFECT_CONFLICT;
    return host_write(c, r, low, high, NULL);
}

/* Sets the pages' rights anew, as the program wants them. */
static enum zc_effect guard(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                            void *arg)
{
    (void)low, (void)high, (void)arg;
    bool lost = r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY;
    int most = lost ? PROT_NONE : r->state == ZC_PAGE_SAME ? PROT_READ : ZC_VIEW_OPEN;
    return zc_view_protect(address_of(c, r->first), span_of(r), most) ? ZC_EFFECT_DONE
                                                                      : ZC_EFFECT_REFUSED;
}

static uint64_t whole(const struct zc_coherent *c)
{
    return start_of(c->pages);
}

enum zc_effect zc_coherent_to_device(struct zc_coherent *c, uint64_t low, uint64_t high,
                                     struct zc_moved *moved, uint64_t *at_out)
{
    return each(c, low, high, to_device, moved, at_out);
}

enum zc_effect zc_coherent_to_host(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   struct zc_moved *moved, uint64_t *at_out)
{
    return each(c, low, high, to_host, moved, at_out);
}

enum zc_effect zc_coherent_host(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                uint64_t *at_out)
{
    return each(c, low, high, write ? host_write : host_read, NULL, at_out);
}

enum zc_effect zc_coherent_discard(struct zc_coherent *c, uint64_t low, uint64_t high,
                                   uint64_t *at_out)
{
    return each(c, low, high, discard, NULL, at_out);
}

enum zc_effect zc_coherent_exile(struct zc_coherent *c, uint64_t low, uint64_t high, bool keep,
                                 uint64_t *at_out)
{
    c->cold = true; /* No page of the range may move again. */
    return each(c, low, high, exile, &keep, at_out);
}

enum zc_effect zc_coherent_guard(struct zc_coherent *c, uint64_t low, uint64_t high)
{
    return each(c, low, high, guard, NULL, NULL);
}

enum zc_effect zc_coherent_device(struct zc_coherent *c, uint64_t low, uint64_t high, bool write,
                                  uint64_t *at_out)
{
    return c->host ? each(c, low, high, write ? device_write : device_read, NULL, at_out)
                   : ZC_EFFECT_DONE;
}

bool zc_coherent_exposed(const struct zc_coherent *c)
{
    return c->count[ZC_PAGE_ALONE] || c->count[ZC_PAGE_SAME] || c->noted;
}

enum zc_effect zc_coherent_launch(struct zc_coherent *c)
{
    __atomic_store_n(&c->noted, false, __ATOMIC_RELEASE);
    return c->host && c->device && c->writable ? each(c, 0, whole(c), launch, NULL, NULL)
                                               : ZC_EFFECT_DONE;
}

enum zc_effect zc_coherent_cool(struct zc_coherent *c)
{
    c->cold = true;
    return each(c, 0, whole(c), cool, NULL, NULL);
}

enum zc_effect zc_coherent_keep(struct zc_coherent *c, uint64_t low, uint64_t high,
                                uint64_t *at_out)
{
    return c->host && c->device && c->writable ? each(c, low, high, keep_run, NULL, at_out)
                                               : ZC_EFFECT_DONE;
}

/* How many pages to part at once: one at first, and twice as many each time that the next page in
 * line follows, like the kernel's own read-ahead. */
static struct run window_at(struct zc_coherent *c, uint32_t page)
{
    struct run r = {page, page + 1, ZC_PAGE_SAME, true};
    bool follows = page == c->next && c->window;
    c->window = follows ? (uint32_t)least(2 * c->window, WINDOW) : 1;
    while (r.end < c->pages && r.end - page < c->window && c->state[r.end] == ZC_PAGE_SAME)
        r.end++;
    c->next = r.end;
    return r;
}

/* Another thread may just have made the access possible. */
static enum zc_effect again(struct zc_coherent *c, uint32_t page, int protection)
{
    return zc_view_protect(address_of(c, page), ZC_HOST_UNIT, protection) ? ZC_EFFECT_DONE
                                                                          : ZC_EFFECT_REFUSED;
}

enum zc_effect zc_coherent_touch(struct zc_coherent *c, uint64_t offset, bool write)
{
    uint32_t page = page_of(offset);
    switch ((enum zc_page)c->state[page]) {
    case ZC_PAGE_SAME:
        if (write) {
            struct run r = window_at(c, page);
            enum zc_effect v = part(c, &r, true);
            return c->state[page] == ZC_PAGE_APART ? ZC_EFFECT_DONE : v;
        }
        return again(c, page, PROT_READ);
    case ZC_PAGE_ALONE: /* Closed for a moment, or the kernel refused to part it. */
    case ZC_PAGE_APART:
    case ZC_PAGE_KEPT:
        return again(c, page, ZC_VIEW_OPEN);
    default:
        return ZC_EFFECT_CONFLICT;
    }
}

/* Merges a run.  It may end after pages that need no merge; a run without pages to merge is one
 * page long. */
static bool merge_some(struct zc_coherent *c, struct run *r)
{
    uint32_t first = r->first, end = r->end, done = first;
    merge(c, r);
    while (done < end && c->state[done] == ZC_PAGE_SAME)
        done++;
    r->end = done > first ? done : first + 1;
    if (done > first)
        r->state = ZC_PAGE_SAME;
    return done > first;
}

/* Opens pages of one side alone, including those that the kernel did not open before. */
static enum zc_effect open_alone(struct zc_coherent *c, const struct run *r, enum zc_effect *worst)
{
    if (!zc_view_protect(address_of(c, r->first), span_of(r), ZC_VIEW_OPEN))
        *worst = ZC_EFFECT_REFUSED;
    become(c, r, r->end - r->first, ZC_PAGE_ALONE);
    return ZC_EFFECT_DONE;
}

/* What the kernel does not move back stays at the shadow, where d's bytes are looked up. */
static enum zc_effect leave_to_device(struct zc_coherent *c, struct run *r, uint64_t low,
                                      uint64_t high, void *arg)
{
    (void)low, (void)high;
    bool there = zc_coherent_shadowed(r->state);
    if (there && c->device && !merge_some(c, r))
        return ZC_EFFECT_DONE;
    if (there && !c->device)
        zc_view_forget(address_of(c, r->first), span_of(r));
    return open_alone(c, r, arg);
}

static enum zc_effect leave_all_to_device(struct zc_coherent *c)
{
    enum zc_effect worst = ZC_EFFECT_DONE;
    each(c, 0, whole(c), leave_to_device, &worst, NULL);
    return worst;
}

enum zc_effect zc_coherent_join(struct zc_coherent *c, bool written)
{
    struct run all = {0, c->pages, ZC_PAGE_ALONE, true};
    if (written) {
        enum zc_effect v = part(c, &all, false);
        if (v != ZC_EFFECT_DONE) {
            leave_all_to_device(c);
            return v;
        }
    }
    c->host = true;
    return ZC_EFFECT_DONE;
}

enum zc_effect zc_coherent_host_gone(struct zc_coherent *c)
{
    c->host = false;
    return leave_all_to_device(c);
}

/* Lost pages of h stay closed. */
static enum zc_effect leave_to_host(struct zc_coherent *c, struct run *r, uint64_t low,
                                    uint64_t high, void *arg)
{
    (void)low, (void)high;
    if (zc_coherent_shadowed(r->state))
        zc_view_forget(address_of(c, r->first), span_of(r));
    bool lost = r->state == ZC_PAGE_AHEAD || r->state == ZC_PAGE_AWAY;
    return lost ? ZC_EFFECT_DONE : open_alone(c, r, arg);
}

enum zc_effect zc_coherent_device_gone(struct zc_coherent *c)
{
    enum zc_effect worst = ZC_EFFECT_DONE;
    if (c->host)
        each(c, 0, whole(c), leave_to_host, &worst, NULL);
    __atomic_store_n(&c->device, false, __ATOMIC_RELEASE); /* Launches read it without the lock. */
    return worst;
}

/*
 * Parting and merging a page costs about as much as copying eight pages with several threads.  Each
 * page may part once; every further time must have been earned by copies that were saved.
 */
#define PARTING_COSTS 8u

uintptr_t zc_coherent_alias(const struct zc_coherent *c, uint64_t offset, uint64_t high,
                            uint64_t *end_out)
{
    uint64_t page = offset >> ZC_HOST_UNIT_SHIFT, end = page + 1;
    bool there = zc_coherent_shadowed(c->state[page]);
    while (end < c->pages && end << ZC_HOST_UNIT_SHIFT < high &&
           zc_coherent_shadowed(c->state[end]) == there)
        end++;
    end <<= ZC_HOST_UNIT_SHIFT;
    *end_out = end < high ? end : high;
    return c->base + offset + (there ? zc_view_shadow : 0);
}

bool zc_coherent_one_view(const struct zc_coherent *c, uint64_t low, uint64_t high)
{
    uint64_t page = low >> ZC_HOST_UNIT_SHIFT;
    for (; page < c->pages && page << ZC_HOST_UNIT_SHIFT < high; page++)
        if (c->state[page] != ZC_PAGE_ALONE && c->state[page] != ZC_PAGE_SAME)
            return false;
    return true;
}

bool zc_coherent_cooling(const struct zc_coherent *c)
{
    return !c->cold && c->parted * PARTING_COSTS > c->elided + (uint64_t)c->pages * PARTING_COSTS;
}
