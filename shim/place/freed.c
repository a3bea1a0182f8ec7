/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed: deferred while its stream may still use it, or kept, still
 * mapped, for the next request of its size. */
#include "place/freed.h"

#include <limits.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/pinned.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "place/fallback.h"
#include "shared/early.h"
#include "vmm/access.h"
#include "vmm/grow.h"
#include "vmm/vmm.h"

/* Most entries that a call asks the driver about if it need not find them all. */
#define LOOKED_AT 32u
#define PART 16 /* At most 1/PART of a device's memory is kept. */
#define ANY_PLACE ((enum zc_place_id)(ZC_PLACE_COUNT + 1)) /* Also those that wait. */

struct freed {
    struct freed *next, *before; /* Those of about its size. */
    struct freed *newer, *older; /* Kept ones of its device. */
    struct zc_backing *backing;
    struct zc_block *block;        /* The freed block, quarantined. */
    CUevent event;                 /* Passes with the last work that may use it; NULL for none. */
    CUcontext home;                /* Context of the event. */
    struct zc_stream_ident stream; /* For a block freed in stream order: its stream. */
};

static ZC_LOCK(freed_lock, ZC_RANK_FREED);
static ZC_OWN struct {
    struct freed *deferred[ZC_LISTS];  /* Those not looked at come first. */
    unsigned count;                    /* Of them.  Atomic. */
    unsigned turn;                     /* The list that the next tidying begins with.  Atomic. */
    struct freed *kept[ZC_LISTS];      /* The newest first. */
    bool keeps;                        /* There has been one.  Atomic. */
    struct freed *ages[ZC_VA_DEVICES]; /* The same, the oldest first. */
    uint64_t bytes[ZC_VA_DEVICES];     /* Of them.  Atomic. */
} freed;

static struct freed *freed_make(struct zc_block *block, CUevent event, CUcontext home)
{
    struct freed *p = zc_arena_get(sizeof(*p));
    if (p)
        *p =
            (struct freed){.backing = block->backing, .block = block, .event = event, .home = home};
    return p;
}

static bool freed_any(void)
{
    return __atomic_load_n(&freed.count, __ATOMIC_RELAXED);
}

/* Takes the first entries out of a list, so that the driver can be asked about their events without
 * the lock. */
static struct freed *freed_take_out(unsigned list, unsigned *most)
{
    struct freed *out = NULL;
    if (!zc_lock_take(&freed_lock))
        return NULL;
    for (; freed.deferred[list] && *most; --*most) {
        struct freed *p = freed.deferred[list];
        DL_DELETE2(freed.deferred[list], p, before, next);
        DL_APPEND2(out, p, before, next);
    }
    zc_lock_drop(&freed_lock);
    return out;
}

/* Handles an entry; true if the entry is gone then. */
typedef bool visitor(struct freed *p, void *arg);

/* Calls ends() for at most *most_left entries of a list, and returns how many are gone.  The others
 * are put back at its end. */
static unsigned freed_visit(unsigned list, unsigned *most_left, visitor *ends, void *arg)
{
    unsigned count = 0;
    struct freed *stay = NULL, *p, *next;
    if (!__atomic_load_n(&freed.deferred[list], __ATOMIC_RELAXED))
        return 0;
    zc_release_begin();
    struct freed *out = freed_take_out(list, most_left);
    DL_FOREACH_SAFE2(out, p, next, next)
    {
        bool gone = ends(p, arg);
        count += gone;
        if (!gone)
            DL_APPEND2(stay, p, before, next);
    }
    if (stay && zc_lock_take(&freed_lock)) {
        DL_CONCAT2(freed.deferred[list], stay, before, next);
        zc_lock_drop(&freed_lock);
    }
    zc_release_end();
    __atomic_fetch_sub(&freed.count, count, __ATOMIC_RELAXED);
    return count;
}

static unsigned freed_visit_all(visitor *ends, void *arg)
{
    unsigned count = 0, most = UINT_MAX;
    for (unsigned i = 0; i < ZC_LISTS && freed_any(); i++)
        count += freed_visit(i, &most, ends, arg);
    return count;
}

/* Takes over a block that the program freed.  It stays in the ledger, quarantined, so that its
 * addresses still answer as freed.  `event`, of the context `home`, was recorded on the stream at
 * the free; the entry owns it from now on.  NULL if the program guarantees that nothing uses the
 * block. Without memory for a record it stays quarantined for good: it is lost, but never reused
 * too early. */
static void freed_defer(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                        enum zc_flavour flavour)
{
    struct freed *p = freed_make(block, event, home);
    zc_block_quarantine(block);
    if (p && event && (block->flags & ZC_BLOCK_STREAM))
        zc_stream_identify(stream, flavour, &p->stream);
    if (!p || !zc_lock_take(&freed_lock)) {
        zc_arena_put(p, sizeof(*p));
        return;
    }
    DL_APPEND2(freed.deferred[zc_list_of(p->backing->size)], p, before, next);
    zc_lock_drop(&freed_lock);
    __atomic_fetch_add(&freed.count, 1, __ATOMIC_RELAXED);
}

static bool freed_passed(const struct freed *p)
{
    return !p->event || zc_real.cuEventQuery(p->event) != CUDA_ERROR_NOT_READY;
}

/* Removes an entry.  Its backing is the caller's then. */
static struct zc_backing *freed_end(struct freed *p)
{
    struct zc_backing *backing = p->backing;
    if (p->event)
        zc_real.cuEventDestroy_v2(p->event);
    zc_block_remove(p->block);
    zc_arena_put(p, sizeof(*p));
    return backing;
}

struct taking {
    enum zc_place_id place;
    const struct zc_want *want;
    CUcontext home; /* Context of its memory. */
    struct zc_stream_ident stream;
    struct zc_backing *taken;
};

/* A request can have the block at once if its stream has passed, or comes later in the same
 * stream. */
static bool freed_take_if_ready(struct freed *p, void *arg)
{
    struct taking *t = arg;
    const struct zc_backing *b = p->backing;
    bool fits = !t->taken && (p->block->flags & ZC_BLOCK_STREAM) && b->place == t->place &&
                b->size == t->want->size && b->device == t->want->device && b->context == t->home;
    if (!fits || !((p->event && zc_stream_same(&p->stream, &t->stream)) || freed_passed(p)))
        return false;
    t->taken = freed_end(p);
    return true;
}

static struct zc_backing *freed_take_deferred(enum zc_place_id place, const struct zc_want *want)
{
    struct taking t = {.place = place, .want = want};
    unsigned most = LOOKED_AT;
    if (!freed_any())
        return NULL;
    t.home = zc_place_home(want, place);
    zc_stream_identify(want->stream, want->flavour, &t.stream);
    freed_visit(zc_list_of(want->size), &most, freed_take_if_ready, &t);
    return t.taken;
}

/* Takes a kept block out of its lists.  Under the lock. */
static struct freed *kept_leave(struct freed *p)
{
    int device = p->backing->device;
    DL_DELETE2(freed.kept[zc_list_of(p->backing->size)], p, before, next);
    DL_DELETE2(freed.ages[device], p, older, newer);
    freed.bytes[device] -= zc_vmm_own(p->backing->vmm);
    return p;
}

static struct freed *kept_find(const struct zc_want *want)
{
    struct freed *p = freed.kept[zc_list_of(want->size)];
    for (unsigned i = 0; p && i < LOOKED_AT; p = p->next, i++) {
        struct zc_vmm *v = p->backing->vmm;
        if (p->backing->size == want->size && v->va.device == want->device &&
            v->va.context == want->context && v->rdma == want->rule->rdma)
            return zc_vmm_enter_small(v, want->size) ? kept_leave(p) : NULL;
    }
    return NULL;
}

static uint64_t kept_bytes(int device)
{
    return device < ZC_VA_DEVICES ? __atomic_load_n(&freed.bytes[device], __ATOMIC_RELAXED) : 0;
}

static struct zc_backing *kept_take(const struct zc_want *want)
{
    struct freed *p = NULL;
    const char *why;
    if (!kept_bytes(want->device) || want->rule->grow ||
        !zc_limits_take(ZC_PLACE_VMM, want->device, want->size, &why))
        return NULL;
    if (zc_lock_take(&freed_lock)) {
        p = kept_find(want);
        zc_lock_drop(&freed_lock);
    }
    if (!p)
        zc_limits_give(ZC_PLACE_VMM, want->device, want->size);
    return p ? freed_end(p) : NULL;
}

static uint64_t kept_most(int device)
{
    const struct zc_vmm_facts *facts = zc_vmm_facts(device);
    return facts ? facts->total / PART : 0;
}

/* True if a block may be kept: a vmm block, not too large, attached whole, neither lazy nor split.
 * One with headroom holds more than it is counted with. */
static bool freed_fits(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v && !v->lazy && !v->moves && !(block->flags & ZC_BLOCK_EXPORTED) &&
           !zc_vmm_spilled(v) && zc_vmm_whole(v) && v->held == v->span && !zc_life_closing() &&
           zc_vmm_own(v) <= kept_most(v->va.device);
}

/* Gives the oldest kept blocks of a device back to the driver, until no more than `most` bytes are
 * left.  Returns how many. */
static unsigned kept_shrink(int device, uint64_t most)
{
    struct freed *out = NULL, *p, *next;
    unsigned count = 0;
    if (kept_bytes(device) <= most || !zc_lock_take(&freed_lock))
        return 0;
    zc_release_begin();
    while (freed.bytes[device] > most) {
        p = kept_leave(freed.ages[device]);
        LL_PREPEND2(out, p, next);
    }
    zc_lock_drop(&freed_lock);
    LL_FOREACH_SAFE2(out, p, next, next)
    {
        struct zc_backing *backing = freed_end(p);
        zc_vmm_give_back(backing->vmm);
        zc_arena_put(backing, sizeof(*backing));
        count++;
    }
    zc_release_end();
    return count;
}

static unsigned kept_drop_all(void)
{
    unsigned count = 0;
    for (int d = 0; d < ZC_VA_DEVICES; d++)
        count += kept_shrink(d, 0);
    return count;
}

static uint64_t kept_idle(void)
{
    CUdevice device = 0;
    bool some = __atomic_load_n(&freed.keeps, __ATOMIC_RELAXED) &&
                zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS;
    return some ? kept_bytes(device) : 0;
}

/*
 * Takes over a claimed block that nothing uses any more.  Older blocks are given back so that no
 * more than a sixteenth of the device's memory is kept.  The block stays in the ledger,
 * quarantined, and no longer counts against the limits.  Returns false, and does nothing, if it is
 * not to be kept.
 */
static bool freed_keep(struct zc_block *block)
{
    struct zc_backing *b = block->backing;
    int device = b->device;
    struct freed *p = freed_fits(block) ? freed_make(block, NULL, NULL) : NULL;
    if (!p || zc_access_end_copies(&b->vmm->va) != CUDA_SUCCESS || !zc_lock_take(&freed_lock)) {
        zc_arena_put(p, sizeof(*p));
        return false;
    }
    zc_block_quarantine(block);
    zc_limits_give(ZC_PLACE_VMM, device, b->size);
    zc_vmm_leave_small(b->vmm);
    DL_PREPEND2(freed.kept[zc_list_of(b->size)], p, before, next);
    DL_APPEND2(freed.ages[device], p, older, newer);
    freed.bytes[device] += zc_vmm_own(b->vmm);
    zc_lock_drop(&freed_lock);
    __atomic_store_n(&freed.keeps, true, __ATOMIC_RELAXED);
    kept_shrink(device, kept_most(device));
    return true;
}

/* During a capture, and at the end of the process, the driver must not be called. */
static bool freed_may_sweep(void)
{
    return freed_any() && !zc_capture_any() && !zc_life_closing();
}

/* Ends what its stream has passed.  A place that waits for the device is included only if *place
 * names it. */
static bool freed_end_if_due(struct freed *p, void *place)
{
    enum zc_place_id wanted = *(enum zc_place_id *)place;
    const struct zc_backing *b = p->backing;
    if (zc_place_of(b->place)->waits && b->place != wanted && wanted != ANY_PLACE)
        return false;
    bool lent = zc_context_lend(b->context), ended = freed_passed(p);
    if (ended)
        zc_place_release(freed_end(p), false);
    zc_context_leave(lent);
    return ended;
}

/* No place that waits is where a stream waits for the program. */
static unsigned freed_reap(enum zc_place_id place)
{
    if (place != ZC_PLACE_COUNT && !zc_stream_may_wait(NULL, 0))
        place = ZC_PLACE_COUNT;
    return freed_may_sweep() ? freed_visit_all(freed_end_if_due, &place) : 0;
}

/* As zc_freed_reap(false), for some entries in turn: for calls in which it is not urgent. */
static void freed_tidy(void)
{
    enum zc_place_id place = ZC_PLACE_COUNT;
    unsigned most = LOOKED_AT, first = __atomic_load_n(&freed.turn, __ATOMIC_RELAXED), i = 0;
    for (; i < ZC_LISTS && most && freed_may_sweep(); i++)
        freed_visit((first + i) % ZC_LISTS, &most, freed_end_if_due, &place);
    __atomic_store_n(&freed.turn, first + i, __ATOMIC_RELAXED);
}

struct zc_backing *zc_freed_take(enum zc_place_id place, const struct zc_want *want)
{
    return want->stream_ordered    ? freed_take_deferred(place, want)
           : place == ZC_PLACE_VMM ? kept_take(want)
                                   : NULL;
}

/* In a call that has waited for the current context.  Kernels of others may wait for what this
 * thread launches next, as those of collectives do, and to end a registration waits for all. */
static bool may_trim(void)
{
    CUcontext here;
    bool any = zc_hostheap_pooled() || __atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED);
    return any && !zc_capture_any() && zc_real.cuCtxGetCurrent(&here) == CUDA_SUCCESS &&
           zc_stream_others_rest(here, 0);
}

void zc_freed_reap(bool waited)
{
    if (waited && may_trim()) {
        zc_early_trim();
        zc_pinned_trim();
    }
    freed_reap(waited ? ANY_PLACE : ZC_PLACE_COUNT);
}

void zc_freed_bare(const struct zc_block *block)
{
    zc_grown_freed(block);
    zc_freed_reap(true);
}

static bool freed_drop_of_context(struct freed *p, void *context)
{
    if (p->home == context)
        p->event = NULL; /* The event was destroyed with its context. */
    if (p->backing->context != context)
        return false;
    zc_place_release(freed_end(p), true);
    return true;
}

static void freed_context_gone(CUcontext context)
{
    freed_visit_all(freed_drop_of_context, context);
    kept_drop_all();
}

static unsigned freed_reclaim(int place)
{
    unsigned given = freed_reap((enum zc_place_id)place);
    return given + (place == ZC_PLACE_COUNT ? kept_drop_all() : 0);
}

/* Not while it is moved. */
static bool claim_still(struct zc_block *block)
{
    bool mine = block->place == ZC_PLACE_VMM && zc_driver_lock();
    bool claimed = zc_block_claim(block);
    if (mine)
        zc_driver_unlock();
    return claimed;
}

CUresult zc_place_free(struct zc_block *block, void (*note)(struct zc_block *block),
                       bool *diagnosed_out)
{
    struct zc_backing *backing = block->backing;
    bool kept = false;
    *diagnosed_out = !claim_still(block);
    if (*diagnosed_out)
        return CUDA_ERROR_INVALID_VALUE;
    bool apart = zc_block_hosted(block) && zc_capture_any();
    if (apart || (block->flags & ZC_BLOCK_STREAM)) {
        note(block);
        freed_defer(block, NULL, NULL, NULL, ZC_LEGACY);
        return CUDA_SUCCESS;
    }
    CUresult result = zc_stream_wait_context(backing->context);
    if (result == CUDA_SUCCESS) {
        result = zc_grow_freeing(block, note, &kept);
        *diagnosed_out = result != CUDA_SUCCESS;
    }
    bool mine = result == CUDA_SUCCESS && !kept;
    /* Another device may wait for the program. */
    if (mine && zc_place_of(backing->place)->waits && !zc_stream_may_wait(backing->context, 0)) {
        note(block);
        freed_defer(block, NULL, NULL, NULL, ZC_LEGACY);
        return CUDA_SUCCESS;
    }
    /* Kept memory may belong to another thread's block by now. */
    if (mine && !freed_fits(block))
        result = zc_place_detach(backing);
    if (result != CUDA_SUCCESS) { /* Something may still use it, so it stays allocated. */
        zc_block_unclaim(block);
        return result;
    }
    if (!kept)
        note(block);
    if (!kept && !freed_keep(block)) {
        zc_block_remove(block);
        result = zc_place_release(backing, false);
    }
    zc_freed_reap(true); /* The free has waited. */
    return result;
}

CUresult zc_place_free_in_order(struct zc_block *block, CUevent event, CUstream stream,
                                enum zc_flavour flavour, void (*note)(struct zc_block *block))
{
    CUresult result = claim_still(block) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        result = zc_grow_leaving(block);
        if (result != CUDA_SUCCESS)
            zc_block_unclaim(block);
    }
    if (result != CUDA_SUCCESS) {
        if (event)
            zc_real.cuEventDestroy_v2(event);
        return result;
    }
    note(block);
    freed_tidy();
    freed_defer(block, event, zc_stream_context(stream, flavour), stream, flavour);
    return CUDA_SUCCESS;
}

const struct zc_module zc_module_freed = {
    .context_gone = freed_context_gone, .reclaim = freed_reclaim, .idle_bytes = kept_idle};
