/* SPDX-License-Identifier: MIT */
/* Deferred frees: memory that the program freed in stream order, and that the stream may still
 * use. */
#include "place/deferred.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "managed/hint.h"
#include "memory/release.h"
#include "place/fallback.h"
#include "vmm/access.h"
#include "vmm/vmm.h"
#include "vmm/free_cache.h"

/* Most entries that a call asks the driver about if it need not find them all. */
#define LOOKED_AT 32u

struct deferred {
    struct deferred *next, *before;
    struct zc_backing *backing;
    struct zc_block *quarantined; /* The freed block; NULL if its addresses may be used again. */
    CUmemoryPool pool;            /* The pool that the program asked; NULL for none. */
    uint64_t size;                /* Bytes of the freed block. */
    CUevent event;
    CUcontext home;                /* Context of the event. */
    struct zc_stream_ident stream; /* For a block freed in stream order: its stream. */
};

static struct zc_lock lock = ZC_LOCK(ZC_RANK_DEFERRED);
static struct deferred
    *lists[ZC_LISTS];    /* By size of the memory; entries that were not looked at come first. */
static unsigned entries; /* Atomic. */
static unsigned turn;    /* The list that the next tidying begins with.  Atomic. */

static bool enter(struct deferred *p)
{
    if (!zc_lock_take(&lock))
        return false;
    DL_APPEND2(lists[zc_list_of(p->backing->size)], p, before, next);
    zc_lock_drop(&lock);
    __atomic_fetch_add(&entries, 1, __ATOMIC_RELAXED);
    return true;
}

/* Takes the first entries out of a list, so that the driver can be asked about their events without
 * the lock.  Entries that stay are put back at the end. */
static struct deferred *take_out(unsigned list, unsigned *most)
{
    struct deferred *out = NULL;
    zc_release_begin();
    if (!zc_lock_take(&lock))
        return NULL;
    for (; lists[list] && *most; --*most) {
        struct deferred *p = lists[list];
        DL_DELETE2(lists[list], p, before, next);
        DL_APPEND2(out, p, before, next);
    }
    zc_lock_drop(&lock);
    return out;
}

static void put_back(unsigned list, struct deferred *kept)
{
    if (kept && zc_lock_take(&lock)) {
        DL_CONCAT2(lists[list], kept, before, next);
        zc_lock_drop(&lock);
    }
    zc_release_end();
}

/* Handles an entry; true if the entry is gone then. */
typedef bool visitor(struct deferred *p, void *arg);

/* Calls ends() for at most *most_left entries of a list, and returns how many are gone. */
static unsigned visit(unsigned list, unsigned *most_left, visitor *ends, void *arg)
{
    unsigned count = 0;
    struct deferred *kept = NULL, *p, *next;
    if (!__atomic_load_n(&lists[list], __ATOMIC_RELAXED))
        return 0;
    struct deferred *out = take_out(list, most_left);
    DL_FOREACH_SAFE2(out, p, next, next)
    {
        bool gone = ends(p, arg);
        count += gone;
        if (!gone)
            DL_APPEND2(kept, p, before, next);
    }
    put_back(list, kept);
    __atomic_fetch_sub(&entries, count, __ATOMIC_RELAXED);
    return count;
}

static unsigned visit_all(visitor *ends, void *arg)
{
    unsigned count = 0, most = UINT_MAX;
    for (unsigned i = 0; i < ZC_LISTS && __atomic_load_n(&entries, __ATOMIC_RELAXED); i++)
        count += visit(i, &most, ends, arg);
    return count;
}

static struct deferred deferred_free(const struct zc_block *block, CUevent event, CUcontext home)
{
    bool pooled = (block->flags & (ZC_BLOCK_STREAM | ZC_BLOCK_POOL_GONE)) == ZC_BLOCK_STREAM;
    return (struct deferred){.backing = block->backing,
                             .pool = pooled ? block->pool : NULL,
                             .size = block->size,
                             .event = event,
                             .home = home};
}

void zc_defer_free(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                   enum zc_flavour flavour)
{
    struct deferred *p = zc_arena_get(sizeof(*p));
    zc_block_quarantine(block);
    /* Without memory for a record the block stays quarantined for good: it is lost, but never
     * reused too early. */
    if (!p)
        return;
    *p = deferred_free(block, event, home);
    p->quarantined = block;
    if (event && (block->flags & ZC_BLOCK_STREAM))
        zc_stream_identify(stream, flavour, &p->stream);
    if (!enter(p))
        zc_arena_put(p, sizeof(*p));
}

void zc_defer_pool_free(const struct zc_block *block, CUevent event, CUcontext home)
{
    struct zc_backing *backing = block->backing;
    struct deferred *p = event ? zc_arena_get(sizeof(*p)) : NULL;
    zc_hint_unmake(backing);
    if (p) {
        *p = deferred_free(block, event, home);
        if (enter(p))
            return;
        zc_arena_put(p, sizeof(*p));
    }
    if (event)
        zc_real.cuEventDestroy_v2(event);
    zc_place_release(backing, true);
}

static bool passed(const struct deferred *p)
{
    return !p->event || zc_real.cuEventQuery(p->event) != CUDA_ERROR_NOT_READY;
}

struct pool_bytes {
    CUmemoryPool pool;
    uint64_t waiting;
};

static bool add_waiting(struct deferred *p, void *arg)
{
    struct pool_bytes *sum = arg;
    sum->waiting += p->pool == sum->pool && !passed(p) ? p->size : 0;
    return false;
}

uint64_t zc_deferred_waiting(CUmemoryPool pool)
{
    struct pool_bytes sum = {.pool = pool};
    visit_all(add_waiting, &sum);
    return sum.waiting;
}

/* Removes an entry.  Its backing is the caller's then. */
static struct zc_backing *end_entry(struct deferred *p)
{
    struct zc_backing *backing = p->backing;
    if (p->event)
        zc_real.cuEventDestroy_v2(p->event);
    if (p->quarantined)
        zc_block_remove(p->quarantined);
    zc_arena_put(p, sizeof(*p));
    return backing;
}

/* True if a request can have the block at once: its stream has passed, or the request comes later
 * in the same stream.  Access that other devices got only for copies ends before that. */
static bool ready(const struct deferred *p, const struct zc_want *want,
                  const struct zc_stream_ident *stream)
{
    struct zc_vmm *v = p->backing->place == ZC_PLACE_VMM ? p->backing->vmm : NULL;
    bool behind = p->event && zc_stream_same(&p->stream, stream);
    if (!v)
        return behind || passed(p);
    if (!zc_vmm_suits(v, want))
        return false;
    return (behind && !v->va.copying) ||
           (passed(p) && zc_access_end_copies(&v->va) == CUDA_SUCCESS);
}

struct taking {
    enum zc_place_id place;
    const struct zc_want *want;
    CUcontext home; /* Context of its memory. */
    struct zc_stream_ident stream;
    struct zc_backing *taken;
};

static bool take_if_ready(struct deferred *p, void *arg)
{
    struct taking *t = arg;
    const struct zc_backing *b = p->backing;
    bool stream_ordered = p->quarantined && (p->quarantined->flags & ZC_BLOCK_STREAM);
    bool fits = !t->taken && stream_ordered && b->place == t->place && b->size == t->want->size &&
                b->device == t->want->device && b->context == t->home;
    if (!fits || !ready(p, t->want, &t->stream))
        return false;
    t->taken = end_entry(p);
    return true;
}

struct zc_backing *zc_deferred_take(enum zc_place_id place, const struct zc_want *want,
                                    CUstream stream, enum zc_flavour flavour)
{
    struct taking t = {.place = place, .want = want};
    unsigned most = LOOKED_AT;
    if (!__atomic_load_n(&entries, __ATOMIC_RELAXED))
        return NULL;
    t.home = zc_place_home(want, place);
    zc_stream_identify(stream, flavour, &t.stream);
    visit(zc_list_of(want->size), &most, take_if_ready, &t);
    return t.taken;
}

/* True for a block whose free the rule defers, and which was not freed in stream order. */
static bool by_rule(const struct deferred *p)
{
    return p->event && p->quarantined && !(p->quarantined->flags & ZC_BLOCK_STREAM);
}

/* Removes an entry: its memory goes back to the driver, or into the free cache. */
static void release(struct deferred *p)
{
    bool driver_has_it = p->backing->pooled;
    if (!by_rule(p) || !zc_free_cache_keep(p->quarantined)) {
        zc_place_release(end_entry(p), driver_has_it);
        return;
    }
    zc_real.cuEventDestroy_v2(p->event);
    zc_arena_put(p, sizeof(*p));
}

struct sweep {
    bool (*due)(const struct deferred *p, enum zc_place_id place);
    enum zc_place_id place;
};

static bool end_if_due(struct deferred *p, void *arg)
{
    const struct sweep *s = arg;
    bool lent = zc_stream_lend(p->backing->context), ended = s->due(p, s->place);
    if (ended)
        release(p);
    zc_stream_lent(lent);
    return ended;
}

/* During a capture, and at the end of the process, the driver must not be called. */
static bool may_sweep(void)
{
    return __atomic_load_n(&entries, __ATOMIC_RELAXED) && !zc_capture_any() && !zc_life_closing();
}

/* Removes the entries for which due() is true, and counts them.  It may ask the driver. */
static unsigned sweep(bool (*due)(const struct deferred *p, enum zc_place_id place),
                      enum zc_place_id place)
{
    struct sweep s = {due, place};
    return may_sweep() ? visit_all(end_if_due, &s) : 0;
}

static bool passed_in(const struct deferred *p, enum zc_place_id place)
{
    const struct zc_backing *b = p->backing;
    bool waits = zc_place_of(b->place)->waits && !b->pooled;
    return (b->place == place || !waits) && passed(p);
}

unsigned zc_deferred_reap(enum zc_place_id place)
{
    return sweep(passed_in, place);
}

void zc_deferred_tidy(enum zc_place_id place)
{
    struct sweep s = {passed_in, place};
    unsigned most = LOOKED_AT, first = __atomic_load_n(&turn, __ATOMIC_RELAXED), i = 0;
    for (; i < ZC_LISTS && most && may_sweep(); i++)
        visit((first + i) % ZC_LISTS, &most, end_if_due, &s);
    __atomic_store_n(&turn, first + i, __ATOMIC_RELAXED);
}

static bool passed_anywhere(const struct deferred *p, enum zc_place_id place)
{
    (void)place;
    return passed(p);
}

unsigned zc_deferred_reap_all(void)
{
    zc_pinned_trim();
    return sweep(passed_anywhere, ZC_PLACE_COUNT);
}

static bool waited_for(const struct deferred *p, enum zc_place_id place)
{
    (void)place;
    return by_rule(p) && zc_real.cuEventSynchronize(p->event) == CUDA_SUCCESS;
}

static unsigned reclaim_waiting(void)
{
    return sweep(waited_for, ZC_PLACE_COUNT);
}

static bool drop_of_context(struct deferred *p, void *context)
{
    if (p->home == context)
        p->event = NULL; /* The event was destroyed with its context. */
    if (p->backing->context != context)
        return false;
    zc_place_release(end_entry(p), true);
    return true;
}

static void context_gone(CUcontext context)
{
    visit_all(drop_of_context, context);
}

static void in_child(void)
{
    zc_lock_reset(&lock);
    memset(lists, 0, sizeof(lists));
    entries = 0;
}

static unsigned reclaim(int place)
{
    return zc_deferred_reap((enum zc_place_id)place);
}

const struct zc_module zc_module_deferred = {.child = in_child,
                                             .context_gone = context_gone,
                                             .reclaim = reclaim,
                                             .reclaim_waiting = reclaim_waiting};
