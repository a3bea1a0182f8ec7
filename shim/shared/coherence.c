/* SPDX-License-Identifier: MIT */
/* A host block and a device block on the same pages: see the header for the states. */
#include "shared/coherence.h"

#include <string.h>

#include "host/hostheap.h"
#include "host/memfile.h"
#include "memory/workers.h"
#include "shared/view.h"

/* A program that writes one page after the other parts up to this many at once. */
#define WINDOW 8u

/* A run of pages in one state. */
struct run {
    uint32_t first, end;
    enum zc_page state;
    bool whole; /* The range covers what h has of each page. */
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
    return c->host + start_of(page);
}

static size_t span_of(const struct run *r)
{
    return (size_t)(r->end - r->first) << ZC_HOST_UNIT_SHIFT;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether [low, high) covers what h has of a page. */
static bool covers(const struct zc_coherent *c, uint32_t page, uint64_t low, uint64_t high)
{
    return low <= start_of(page) && high >= least(start_of(page + 1), c->bytes);
}

static struct run run_at(const struct zc_coherent *c, uint32_t page, uint64_t low, uint64_t high)
{
    struct run r = {page, page + 1, (enum zc_page)c->state[page], covers(c, page, low, high)};
    while (r.end < c->pages && start_of(r.end) < high && c->state[r.end] == r.state &&
           covers(c, r.end, low, high) == r.whole)
        r.end++;
    return r;
}

/* The bytes of a run that lie in [low, high). */
static uint64_t clip(const struct run *r, uint64_t low, uint64_t high, uint64_t *start_out)
{
    uint64_t start = start_of(r->first), end = least(start_of(r->end), high);
    *start_out = start > low ? start : low;
    return end - *start_out;
}

/* The pages of a run that take `done` bytes get another state; true if those are all.  What was
 * refused may have closed the others. */
static bool become(struct zc_coherent *c, const struct run *r, size_t done, enum zc_page state)
{
    uint32_t pages = (uint32_t)(done >> ZC_HOST_UNIT_SHIFT);
    if (done < span_of(r) && r->state != ZC_PAGE_SAME)
        zc_view_protect(address_of(c, r->first) + done, span_of(r) - done, ZC_VIEW_OPEN);
    memset(&c->state[r->first], (int)state, pages);
    return done == span_of(r);
}

static bool protect(struct zc_coherent *c, const struct run *r, int protection, enum zc_page state)
{
    bool done = zc_view_protect(address_of(c, r->first), span_of(r), protection);
    return become(c, r, done ? span_of(r) : 0, state);
}

static bool part(struct zc_coherent *c, const struct run *r, bool copy, enum zc_page state)
{
    size_t done = zc_view_part(address_of(c, r->first), span_of(r), copy);
    c->parted += done >> ZC_HOST_UNIT_SHIFT;
    return become(c, r, done, state);
}

static bool merge(struct zc_coherent *c, const struct run *r)
{
    uint64_t start = start_of(r->first);
    size_t done = zc_view_merge(c->host + start, c->device + start, span_of(r));
    c->merged += done >> ZC_HOST_UNIT_SHIFT;
    return become(c, r, done, ZC_PAGE_SAME);
}

/* Applies a step to the runs of a range. */
typedef bool (*step_fn)(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high,
                        void *arg);
static bool each(struct zc_coherent *c, uint64_t low, uint64_t high, step_fn step, void *arg)
{
    bool done = true;
    for (uint32_t page = page_of(low); page < c->pages && start_of(page) < high && done;) {
        struct run r = run_at(c, page, low, high);
        done = step(c, &r, low, high, arg);
        page = r.end;
    }
    return done;
}

/* Other threads that write to h wait until its page is G again: what they write is in h then. */
static bool copy_in(struct zc_coherent *c, struct run *r, uint64_t start, uint64_t n)
{
    bool merges = r->whole && r->state == ZC_PAGE_APART;
    if (merges && !zc_view_protect(address_of(c, r->first), span_of(r), PROT_READ))
        return become(c, r, 0, ZC_PAGE_SAME);
    zc_workers_copy((void *)(c->device + start), (void *)(c->host + start), n);
    return !merges || merge(c, r);
}

static bool to_device(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    struct zc_moved *moved = arg;
    uint64_t start, n = clip(r, low, high, &start);
    if (r->state == ZC_PAGE_APART || r->state == ZC_PAGE_OUT) {
        moved->copied += n;
        return copy_in(c, r, start, n);
    }
    moved->elided += n;
    c->elided += r->end - r->first;
    return r->state == ZC_PAGE_SAME || protect(c, r, PROT_READ, ZC_PAGE_SAME);
}

static bool to_host(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    struct zc_moved *moved = arg;
    uint64_t start, n = clip(r, low, high, &start);
    if (r->state == ZC_PAGE_OUT || (r->state == ZC_PAGE_APART && (!r->whole || c->frozen))) {
        zc_workers_copy((void *)(c->host + start), (void *)(c->device + start), n);
        moved->copied += n;
        return true;
    }
    moved->elided += n;
    c->elided += r->end - r->first;
    return r->state != ZC_PAGE_APART || merge(c, r);
}

/* What h shows of G goes on in private mappings, which need no more of them than there are. */
static bool leave(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    (void)low, (void)high;
    if (r->state == ZC_PAGE_APART || r->state == ZC_PAGE_OUT)
        return true;
    bool done = zc_memfile_part(arg, address_of(c, r->first), span_of(r), true);
    return become(c, r, done ? span_of(r) : 0, ZC_PAGE_APART);
}

static bool leave_all(struct zc_coherent *c)
{
    c->frozen = true;
    return each(c, 0, start_of(c->pages), leave, zc_hostheap_extent(c->host));
}

static bool write_host(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    (void)low, (void)high, (void)arg;
    return r->state != ZC_PAGE_SAME || part(c, r, true, ZC_PAGE_APART);
}

static bool exile(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    bool content = *(bool *)arg || !r->whole;
    (void)low, (void)high;
    if (r->state == ZC_PAGE_APART && !c->frozen)
        return become(c, r, span_of(r), ZC_PAGE_OUT);
    return r->state == ZC_PAGE_OUT || part(c, r, content, ZC_PAGE_OUT);
}

static bool freeze(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    bool same = r->state == ZC_PAGE_SAME;
    (void)low, (void)high;
    if (!same && r->state != ZC_PAGE_ALONE)
        return true;
    bool done = zc_memfile_part(arg, address_of(c, r->first), span_of(r), !same);
    return become(c, r, done ? span_of(r) : 0, same ? ZC_PAGE_SAME : ZC_PAGE_APART);
}

static bool open(struct zc_coherent *c, struct run *r, uint64_t low, uint64_t high, void *arg)
{
    (void)low, (void)high, (void)arg;
    return r->state != ZC_PAGE_SAME || protect(c, r, ZC_VIEW_OPEN, ZC_PAGE_ALONE);
}

bool zc_coherent_to_device(struct zc_coherent *c, uint64_t low, uint64_t high,
                           struct zc_moved *moved)
{
    return each(c, low, high, to_device, moved);
}

bool zc_coherent_to_host(struct zc_coherent *c, uint64_t low, uint64_t high, struct zc_moved *moved)
{
    return each(c, low, high, to_host, moved);
}

bool zc_coherent_write(struct zc_coherent *c, uint64_t low, uint64_t high)
{
    return each(c, low, high, write_host, NULL) || leave_all(c);
}

bool zc_coherent_exile(struct zc_coherent *c, uint64_t low, uint64_t high, bool keep)
{
    return each(c, low, high, exile, &keep);
}

bool zc_coherent_freeze(struct zc_coherent *c)
{
    c->frozen = true;
    return each(c, 0, start_of(c->pages), freeze, zc_hostheap_extent(c->host));
}

bool zc_coherent_end(struct zc_coherent *c, bool *private_out)
{
    *private_out = c->frozen || zc_coherent_differs(c, 0, start_of(c->pages));
    return *private_out ? leave_all(c) : each(c, 0, start_of(c->pages), open, NULL);
}

bool zc_coherent_differs(const struct zc_coherent *c, uint64_t low, uint64_t high)
{
    for (uint32_t page = page_of(low); page < c->pages && start_of(page) < high; page++)
        if (c->state[page] == ZC_PAGE_APART || c->state[page] == ZC_PAGE_OUT)
            return true;
    return false;
}

/* How many pages to part at once: one, and twice as many each time that the next in line follows,
 * as the kernel's own read-ahead does. */
static struct run window_at(struct zc_coherent *c, uint32_t page)
{
    struct run r = {page, page + 1, ZC_PAGE_SAME, true};
    uint32_t most = page == c->next ? 2 * c->window : 1;
    c->window = most < 1 ? 1 : most < WINDOW ? most : WINDOW;
    while (r.end < c->pages && r.end - page < c->window && c->state[r.end] == ZC_PAGE_SAME)
        r.end++;
    c->next = r.end;
    return r;
}

/* The CPU may also fault where another thread has just made the access possible. */
bool zc_coherent_touch(struct zc_coherent *c, uint64_t offset, bool write)
{
    uint32_t page = page_of(offset);
    enum zc_page state = (enum zc_page)c->state[page];
    if (state == ZC_PAGE_OUT)
        return true;
    if (state != ZC_PAGE_SAME || !write)
        return zc_view_protect(address_of(c, page), ZC_HOST_UNIT,
                               state == ZC_PAGE_SAME ? PROT_READ : ZC_VIEW_OPEN);
    struct run r = window_at(c, page);
    bool done = part(c, &r, true, ZC_PAGE_APART);
    return done || c->state[page] == ZC_PAGE_APART || leave_all(c);
}

/*
 * Parting a page and merging it again takes about as long as the CPU's threads need to copy eight:
 * each page may part once, and every further time must have been earned by copies that were not
 * necessary.
 */
#define PARTING_COSTS 8u

bool zc_coherent_cooling(const struct zc_coherent *c)
{
    return c->parted * PARTING_COSTS > c->elided + (uint64_t)c->pages * PARTING_COSTS;
}
