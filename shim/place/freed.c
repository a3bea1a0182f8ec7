/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed, deferred while its stream may still use it. */
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

/* Most entries that a call asks the driver about in which it is not urgent. */
#define LOOKED_AT 32u
#define ANY_PLACE ((enum zc_place_id)(ZC_PLACE_COUNT + 1)) /* Also those that wait. */

/* How long a request for which a limit leaves no room waits for the devices, to give back more. */
#define RECLAIM_MS 100u

struct freed {
    struct freed *next, *before;
    struct zc_block *block; /* The freed block, quarantined. */
    CUevent event;          /* Passes with the last work that may use it; NULL for none. */
    CUcontext home;         /* Context of the event. */
};

static ZC_LOCK(freed_lock, ZC_RANK_FREED);
static ZC_OWN struct {
    struct freed *deferred; /* Those not looked at come first. */
    unsigned count;         /* Of them.  Atomic. */
} freed;

static bool freed_any(void)
{
    return __atomic_load_n(&freed.count, __ATOMIC_RELAXED);
}

/* Takes the first entries out, so that the driver can be asked about their events without the
 * lock. */
static struct freed *freed_take_out(unsigned most)
{
    struct freed *out = NULL;
    ZC_LOCK_HELD(mine, &freed_lock);
    for (; mine && freed.deferred && most; most--) {
        struct freed *p = freed.deferred;
        DL_DELETE2(freed.deferred, p, before, next);
        DL_APPEND2(out, p, before, next);
    }
    return out;
}

/* Handles an entry; true if the entry is gone then. */
typedef bool visitor(struct freed *p, void *arg);

/* Calls ends() for at most so many entries, and returns how many are gone.  The others are put back
 * at the end. */
static unsigned freed_visit(unsigned most, visitor *ends, void *arg)
{
    unsigned count = 0;
    struct freed *stay = NULL, *p, *next;
    if (!freed_any())
        return 0;
    zc_release_begin();
    struct freed *out = freed_take_out(most);
    DL_FOREACH_SAFE2(out, p, next, next)
    {
        bool gone = ends(p, arg);
        count += gone;
        if (!gone)
            DL_APPEND2(stay, p, before, next);
    }
    if (stay && zc_lock_take(&freed_lock)) {
        DL_CONCAT2(freed.deferred, stay, before, next);
        zc_lock_drop(&freed_lock);
    }
    zc_release_end();
    __atomic_fetch_sub(&freed.count, count, __ATOMIC_RELAXED);
    return count;
}

/* Takes over a block that the program freed.  It stays in the ledger, quarantined, so that its
 * addresses still answer as freed.  `event`, of the context `home`, was recorded on the stream at
 * the free; the entry owns it from now on.  NULL if the program guarantees that nothing uses the
 * block. Without memory for a record it stays quarantined for good: it is lost, but never reused
 * too early. */
static void freed_defer(struct zc_block *block, CUevent event, CUcontext home)
{
    struct freed *p = zc_arena_get(sizeof(*p));
    zc_block_quarantine(block);
    if (!p || !zc_lock_take(&freed_lock)) {
        zc_arena_put(p, sizeof(*p));
        return;
    }
    *p = (struct freed){.block = block, .event = event, .home = home};
    DL_APPEND2(freed.deferred, p, before, next);
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
    struct zc_backing *backing = p->block->backing;
    if (p->event)
        zc_real.cuEventDestroy_v2(p->event);
    zc_block_remove(p->block);
    zc_arena_put(p, sizeof(*p));
    return backing;
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
    const struct zc_backing *b = p->block->backing;
    if (zc_place_of(b->place)->waits && b->place != wanted && wanted != ANY_PLACE)
        return false;
    bool pushed = zc_context_push_if_none(b->context), ended = freed_passed(p);
    if (ended)
        zc_place_release(freed_end(p), false);
    zc_context_pop(pushed);
    return ended;
}

/* No place that waits is where a stream may wait for the program. */
static unsigned freed_reap(enum zc_place_id place, unsigned most_ms, unsigned most)
{
    if (!freed_may_sweep())
        return 0;
    if (place != ZC_PLACE_COUNT && !zc_stream_others_rest(NULL, most_ms))
        place = ZC_PLACE_COUNT;
    return freed_visit(most, freed_end_if_due, &place);
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
        zc_pinned_trim(false);
    }
    freed_reap(waited ? ANY_PLACE : ZC_PLACE_COUNT, 0, UINT_MAX);
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
    if (((struct zc_backing *)p->block->backing)->context != context)
        return false;
    zc_place_release(freed_end(p), true);
    return true;
}

static void freed_context_gone(CUcontext context)
{
    freed_visit(UINT_MAX, freed_drop_of_context, context);
}

static unsigned freed_reclaim(int place)
{
    return freed_reap((enum zc_place_id)place, RECLAIM_MS, UINT_MAX);
}

/* Not while it is moved. */
static bool claim_still(struct zc_block *block)
{
    ZC_DRIVER_HELD mine = block->place == ZC_PLACE_VMM && zc_driver_lock();
    return zc_block_claim(block);
}

/* The block goes when a call has waited for all devices. */
static CUresult freed_put_off(struct zc_block *block, void (*note)(struct zc_block *block))
{
    note(block);
    freed_defer(block, NULL, NULL);
    return CUDA_SUCCESS;
}

CUresult zc_place_free(struct zc_block *block, void (*note)(struct zc_block *block),
                       bool *diagnosed_out)
{
    struct zc_backing *backing = block->backing;
    bool kept = false;
    *diagnosed_out = !claim_still(block);
    if (*diagnosed_out)
        return CUDA_ERROR_INVALID_VALUE;
    if (zc_block_hosted(block) && zc_capture_any())
        return freed_put_off(block, note);
    CUresult result = zc_stream_wait_context(backing->context);
    if (result == CUDA_SUCCESS) {
        result = zc_grow_freeing(block, note, &kept);
        *diagnosed_out = result != CUDA_SUCCESS;
    }
    bool mine = result == CUDA_SUCCESS && !kept;
    /* A kernel of another device may wait for what the program does next. */
    if (mine && zc_place_of(backing->place)->waits && !zc_stream_others_rest(backing->context, 0))
        return freed_put_off(block, note);
    if (mine)
        result = zc_place_detach(backing);
    if (result != CUDA_SUCCESS) { /* Something may still use it, so it stays allocated. */
        zc_block_unclaim(block);
        return result;
    }
    if (!kept) {
        note(block);
        zc_block_remove(block);
        result = zc_place_release(backing, false);
    }
    zc_freed_reap(true); /* The free has waited. */
    return result;
}

CUresult zc_place_free_in_order(struct zc_block *block, CUevent event, CUstream stream,
                                enum zc_flavour flavour, void (*note)(struct zc_block *block))
{
    bool claimed = claim_still(block);
    CUresult result = claimed ? zc_grow_leaving(block) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        if (claimed)
            zc_block_unclaim(block);
        if (event)
            zc_real.cuEventDestroy_v2(event);
        return result;
    }
    note(block);
    freed_reap(ZC_PLACE_COUNT, 0, LOOKED_AT);
    freed_defer(block, event, zc_stream_context(stream, flavour));
    return CUDA_SUCCESS;
}

const struct zc_module zc_module_freed = {.context_gone = freed_context_gone,
                                          .reclaim = freed_reclaim};
