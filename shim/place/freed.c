/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed.  An entry is deferred while its stream may still use it.  Then
 * a vmm block can be kept, still mapped, for the next request of its size. */
#include "place/freed.h"

#include <limits.h>
#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "managed/hint.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"
#include "shared/early.h"
#include "vmm/access.h"
#include "vmm/vmm.h"

/* Most entries that a call asks the driver about, or compares a request with, if it need not find
 * them all. */
#define LOOKED_AT 32u
#define DEVICES_MAX 64 /* As many as vmm serves. */
#define PART 16        /* At most 1/PART of a device's memory is kept. */

struct freed {
    struct freed *next, *before;
    struct zc_backing *backing;
    struct zc_block *quarantined;  /* The freed block; NULL if its addresses may be used again. */
    CUmemoryPool pool;             /* The pool that the program asked; NULL for none. */
    uint64_t size;                 /* Bytes of the freed block. */
    CUevent event;                 /* Passes with the last work that may use it; NULL for none. */
    CUcontext home;                /* Context of the event. */
    struct zc_stream_ident stream; /* For a block freed in stream order: its stream. */
    uint64_t order;                /* Serial number of a kept block: higher is newer. */
};

static ZC_LOCK(lock, ZC_RANK_FREED);
static ZC_OWN struct freed
    *lists[ZC_LISTS];           /* Deferred entries by size; those not looked at come first. */
static ZC_OWN unsigned entries; /* Deferred entries.  Atomic. */
static unsigned turn;           /* The list that the next tidying begins with.  Atomic. */
static ZC_OWN struct freed
    *kept[DEVICES_MAX][ZC_LISTS];          /* Kept entries by size, the newest first. */
static uint64_t serial;                    /* Counts the blocks kept so far. */
static ZC_OWN unsigned blocks;             /* Blocks kept now.  Atomic. */
static ZC_OWN uint64_t bytes[DEVICES_MAX]; /* Their bytes by device.  Atomic. */
static uint64_t limits[DEVICES_MAX]; /* Most bytes to keep of a device; 0 until asked.  Atomic. */

static bool enter(struct freed *p)
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
static struct freed *take_out(unsigned list, unsigned *most)
{
    struct freed *out = NULL;
    zc_release_begin();
    if (!zc_lock_take(&lock))
        return NULL;
    for (; lists[list] && *most; --*most) {
        struct freed *p = lists[list];
        DL_DELETE2(lists[list], p, before, next);
        DL_APPEND2(out, p, before, next);
    }
    zc_lock_drop(&lock);
    return out;
}

static void put_back(unsigned list, struct freed *stay)
{
    if (stay && zc_lock_take(&lock)) {
        DL_CONCAT2(lists[list], stay, before, next);
        zc_lock_drop(&lock);
    }
    zc_release_end();
}

/* Handles an entry; true if the entry is gone then. */
typedef bool visitor(struct freed *p, void *arg);

/* Calls ends() for at most *most_left entries of a list, and returns how many are gone. */
static unsigned visit(unsigned list, unsigned *most_left, visitor *ends, void *arg)
{
    unsigned count = 0;
    struct freed *stay = NULL, *p, *next;
    if (!__atomic_load_n(&lists[list], __ATOMIC_RELAXED))
        return 0;
    struct freed *out = take_out(list, most_left);
    DL_FOREACH_SAFE2(out, p, next, next)
    {
        bool gone = ends(p, arg);
        count += gone;
        if (!gone)
            DL_APPEND2(stay, p, before, next);
    }
    put_back(list, stay);
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

static struct freed entry(const struct zc_block *block, CUevent event, CUcontext home)
{
    bool pooled = (block->flags & (ZC_BLOCK_STREAM | ZC_BLOCK_POOL_GONE)) == ZC_BLOCK_STREAM;
    return (struct freed){.backing = block->backing,
                          .pool = pooled ? block->pool : NULL,
                          .size = block->size,
                          .event = event,
                          .home = home};
}

void zc_freed_defer(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                    enum zc_flavour flavour)
{
    struct freed *p = zc_arena_get(sizeof(*p));
    zc_block_quarantine(block);
    /* Without memory for a record the block stays quarantined for good: it is lost, but never
     * reused too early. */
    if (!p)
        return;
    *p = entry(block, event, home);
    p->quarantined = block;
    if (event && (block->flags & ZC_BLOCK_STREAM))
        zc_stream_identify(stream, flavour, &p->stream);
    if (!enter(p))
        zc_arena_put(p, sizeof(*p));
}

void zc_freed_defer_pool(const struct zc_block *block, CUevent event, CUcontext home)
{
    struct zc_backing *backing = block->backing;
    struct freed *p = event ? zc_arena_get(sizeof(*p)) : NULL;
    zc_hint_unmake(backing);
    if (p) {
        *p = entry(block, event, home);
        if (enter(p))
            return;
        zc_arena_put(p, sizeof(*p));
    }
    if (event)
        zc_real.cuEventDestroy_v2(event);
    zc_place_release(backing, true);
}

static bool passed(const struct freed *p)
{
    return !p->event || zc_real.cuEventQuery(p->event) != CUDA_ERROR_NOT_READY;
}

struct pool_bytes {
    CUmemoryPool pool;
    uint64_t waiting;
};

static bool add_waiting(struct freed *p, void *arg)
{
    struct pool_bytes *sum = arg;
    sum->waiting += p->pool == sum->pool && !passed(p) ? p->size : 0;
    return false;
}

uint64_t zc_freed_waiting(CUmemoryPool pool)
{
    struct pool_bytes sum = {.pool = pool};
    visit_all(add_waiting, &sum);
    return sum.waiting;
}

/* Removes an entry.  Its backing is the caller's then. */
static struct zc_backing *end_entry(struct freed *p)
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
static bool ready(const struct freed *p, const struct zc_want *want,
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

static bool take_if_ready(struct freed *p, void *arg)
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

static struct zc_backing *take_deferred(enum zc_place_id place, const struct zc_want *want)
{
    struct taking t = {.place = place, .want = want};
    unsigned most = LOOKED_AT;
    if (!__atomic_load_n(&entries, __ATOMIC_RELAXED))
        return NULL;
    t.home = zc_place_home(want, place);
    zc_stream_identify(want->stream, want->flavour, &t.stream);
    visit(zc_list_of(want->size), &most, take_if_ready, &t);
    return t.taken;
}

static struct freed **kept_list(const struct freed *p)
{
    return &kept[p->backing->device][zc_list_of(p->backing->size)];
}

/* Takes a kept block out of its list.  Under the lock. */
static struct freed *take_out_kept(struct freed *p)
{
    DL_DELETE2(*kept_list(p), p, before, next);
    bytes[p->backing->device] -= zc_vmm_own(p->backing->vmm);
    blocks--;
    return p;
}

/* Under the lock. */
static struct freed *find_kept(const struct zc_want *want)
{
    struct freed *p = kept[want->device][zc_list_of(want->size)];
    for (unsigned i = 0; p && i < LOOKED_AT; p = p->next, i++)
        if (p->backing->size == want->size && p->backing->vmm->va.context == want->context &&
            zc_vmm_suits(p->backing->vmm, want))
            return zc_vmm_enter_small(p->backing->vmm, want->size) ? take_out_kept(p) : NULL;
    return NULL;
}

static struct zc_backing *take_kept(const struct zc_want *want)
{
    struct freed *p = NULL;
    const char *why;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) || want->device >= DEVICES_MAX ||
        want->rule->grow || !zc_limits_take(ZC_PLACE_VMM, want->device, want->size, &why))
        return NULL;
    if (zc_lock_take(&lock)) {
        p = find_kept(want);
        zc_lock_drop(&lock);
    }
    if (!p)
        zc_limits_give(ZC_PLACE_VMM, want->device, want->size);
    return p ? end_entry(p) : NULL;
}

struct zc_backing *zc_freed_take(enum zc_place_id place, const struct zc_want *want)
{
    struct zc_backing *taken = want->stream_ordered ? take_deferred(place, want) : NULL;
    if (want->rule->free == ZC_FREE_DEFER)
        zc_freed_tidy(ZC_PLACE_VMM);
    return taken || place != ZC_PLACE_VMM ? taken : take_kept(want);
}

static uint64_t limit_of(int device)
{
    size_t total = 0;
    uint64_t limit = __atomic_load_n(&limits[device], __ATOMIC_RELAXED);
    if (limit || zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return limit;
    __atomic_store_n(&limits[device], total / PART, __ATOMIC_RELAXED);
    return total / PART;
}

/* Takes out the oldest kept block of a device; NULL if it has none.  Under the lock. */
static struct freed *take_oldest(int device)
{
    struct freed *found = NULL;
    for (unsigned i = 0; i < ZC_LISTS; i++) {
        struct freed *last = kept[device][i] ? kept[device][i]->before : NULL;
        if (last && (!found || last->order < found->order))
            found = last;
    }
    return found ? take_out_kept(found) : NULL;
}

/* Gives kept blocks, linked by `next`, back to the driver, and ends the release that their removal
 * began. */
static unsigned release_kept(struct freed *list)
{
    unsigned count = 0;
    for (struct freed *next; list; list = next, count++) {
        next = list->next;
        struct zc_backing *backing = end_entry(list);
        zc_vmm_give_back(backing->vmm);
        zc_arena_put(backing, sizeof(*backing));
    }
    zc_release_end();
    return count;
}

/* What has headroom holds more than it is counted with. */
bool zc_freed_fits(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v && !v->lazy && !v->moves && !v->exported && !zc_vmm_spilled(v) && zc_vmm_whole(v) &&
           v->held == v->span && v->device < DEVICES_MAX && !zc_life_closing() &&
           zc_vmm_own(v) <= limit_of(v->device);
}

/* Keeps a block that fits and that nothing uses any more, and gives back the oldest blocks beyond
 * the limit. */
static bool keep_entry(struct freed *p)
{
    struct zc_backing *b = p->backing;
    struct freed *out = NULL, *oldest;
    if (zc_access_end_copies(&b->vmm->va) != CUDA_SUCCESS || !zc_lock_take(&lock))
        return false;
    zc_release_begin();
    if (!(p->quarantined->flags & ZC_BLOCK_QUARANTINED))
        zc_block_quarantine(p->quarantined);
    zc_limits_give(ZC_PLACE_VMM, b->device, b->size);
    zc_vmm_leave_small(b->vmm);
    p->order = ++serial;
    DL_PREPEND2(*kept_list(p), p, before, next);
    bytes[b->device] += zc_vmm_own(b->vmm);
    blocks++;
    while (bytes[b->device] > limit_of(b->device) && (oldest = take_oldest(b->device)))
        LL_PREPEND2(out, oldest, next);
    zc_lock_drop(&lock);
    release_kept(out);
    return true;
}

bool zc_freed_keep(struct zc_block *block)
{
    struct freed *p = zc_freed_fits(block) ? zc_arena_get(sizeof(*p)) : NULL;
    if (!p)
        return false;
    *p = entry(block, NULL, NULL);
    p->quarantined = block;
    if (keep_entry(p))
        return true;
    zc_arena_put(p, sizeof(*p));
    return false;
}

/* Gives all kept blocks back to the driver, and returns how many. */
static unsigned trim_kept(void)
{
    struct freed *all = NULL, *p;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return 0;
    zc_release_begin();
    for (int d = 0; d < DEVICES_MAX; d++)
        while ((p = take_oldest(d)))
            LL_PREPEND2(all, p, next);
    zc_lock_drop(&lock);
    return release_kept(all);
}

static uint64_t kept_bytes(void)
{
    CUdevice device = 0;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) ||
        zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device >= DEVICES_MAX)
        return 0;
    return __atomic_load_n(&bytes[device], __ATOMIC_RELAXED);
}

/* True for a block whose free the rule defers, and which was not freed in stream order. */
static bool by_rule(const struct freed *p)
{
    return p->event && p->quarantined && !(p->quarantined->flags & ZC_BLOCK_STREAM);
}

/* Ends a deferred free: the memory goes back to the driver, or is kept. */
static void release(struct freed *p)
{
    bool driver_has_it = p->backing->pooled, may_keep = by_rule(p) && zc_freed_fits(p->quarantined);
    if (p->event)
        zc_real.cuEventDestroy_v2(p->event);
    p->event = NULL;
    if (!may_keep || !keep_entry(p))
        zc_place_release(end_entry(p), driver_has_it);
}

struct sweep {
    bool (*due)(const struct freed *p, enum zc_place_id place);
    enum zc_place_id place;
};

static bool end_if_due(struct freed *p, void *arg)
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
static unsigned sweep(bool (*due)(const struct freed *p, enum zc_place_id place),
                      enum zc_place_id place)
{
    struct sweep s = {due, place};
    return may_sweep() ? visit_all(end_if_due, &s) : 0;
}

static bool passed_in(const struct freed *p, enum zc_place_id place)
{
    const struct zc_backing *b = p->backing;
    bool waits = zc_place_of(b->place)->waits && !b->pooled;
    return (b->place == place || !waits) && passed(p);
}

unsigned zc_freed_reap(enum zc_place_id place)
{
    return sweep(passed_in, place);
}

void zc_freed_tidy(enum zc_place_id place)
{
    struct sweep s = {passed_in, place};
    unsigned most = LOOKED_AT, first = __atomic_load_n(&turn, __ATOMIC_RELAXED), i = 0;
    for (; i < ZC_LISTS && most && may_sweep(); i++)
        visit((first + i) % ZC_LISTS, &most, end_if_due, &s);
    __atomic_store_n(&turn, first + i, __ATOMIC_RELAXED);
}

static bool passed_anywhere(const struct freed *p, enum zc_place_id place)
{
    (void)place;
    return passed(p);
}

void zc_freed_reap_all(void)
{
    zc_early_trim();
    zc_pinned_trim();
    sweep(passed_anywhere, ZC_PLACE_COUNT);
}

static bool waited_for(const struct freed *p, enum zc_place_id place)
{
    (void)place;
    return by_rule(p) && zc_real.cuEventSynchronize(p->event) == CUDA_SUCCESS;
}

static unsigned reclaim_waiting(void)
{
    return sweep(waited_for, ZC_PLACE_COUNT);
}

static bool drop_of_context(struct freed *p, void *context)
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
    trim_kept();
}

static unsigned reclaim(int place)
{
    unsigned given = zc_freed_reap((enum zc_place_id)place);
    return given + (place == ZC_PLACE_COUNT ? trim_kept() : 0);
}

const struct zc_module zc_module_freed = {.context_gone = context_gone,
                                          .reclaim = reclaim,
                                          .reclaim_waiting = reclaim_waiting,
                                          .idle_bytes = kept_bytes};
