/* Parked memory: freed by the program in stream order, its pages still in use until the stream
 * passes. */
#include "place/park.h"

#include "base/module.h"
#include "base/arena.h"
#include "base/lock.h"
#include "driver/capture.h"
#include "hook/life.h"
#include "vmm/access.h"
#include "managed/hint.h"
#include "host/pinned.h"
#include "driver/stream.h"
#include "memory/transit.h"
#include "vmm/vmm.h"
#include "vmm/warm.h"

struct parked {
    struct parked *next;
    struct zc_backing *backing;
    struct zc_block *ghost; /* The freed block; NULL where its addresses may be used again. */
    CUmemoryPool pool;      /* That the program asked; NULL for none. */
    uint64_t size;          /* Of the freed block. */
    CUevent event;
    CUcontext home;                /* Of the event. */
    struct zc_stream_ident stream; /* Of a block that was freed in the order of a stream. */
};

static struct zc_lock lock = ZC_LOCK(ZC_RANK_CATCH);
static struct parked *head;

static bool enter(struct parked *p)
{
    if (!zc_lock_take(&lock))
        return false;
    p->next = head;
    head = p;
    zc_lock_drop(&lock);
    return true;
}

static struct parked parking(const struct zc_block *block, CUevent event, CUcontext home)
{
    bool pooled = (block->flags & (ZC_BLOCK_STREAM | ZC_BLOCK_POOL_GONE)) == ZC_BLOCK_STREAM;
    return (struct parked){.backing = block->backing,
                           .pool = pooled ? block->pool : NULL,
                           .size = block->size,
                           .event = event,
                           .home = home};
}

void zc_park(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
             enum zc_flavour flavour)
{
    struct parked *p = zc_arena_get(sizeof(*p));
    zc_block_make_ghost(block);
    /* Without memory for the record the block stays a ghost for good: lost, never reused too
     * early. */
    if (!p)
        return;
    *p = parking(block, event, home);
    p->ghost = block;
    if (event && (block->flags & ZC_BLOCK_STREAM))
        zc_stream_identify(stream, flavour, &p->stream);
    if (!enter(p))
        zc_arena_put(p, sizeof(*p));
}

void zc_park_pooled(const struct zc_block *block, CUevent event, CUcontext home)
{
    struct zc_backing *backing = block->backing;
    struct parked *p = event ? zc_arena_get(sizeof(*p)) : NULL;
    zc_hint_unmake(backing);
    if (p) {
        *p = parking(block, event, home);
        if (enter(p))
            return;
        zc_arena_put(p, sizeof(*p));
    }
    if (event)
        zc_real.cuEventDestroy_v2(event);
    zc_place_release(backing, true);
}

/* Takes the whole list, so that the driver is asked about its events without the lock held; what
 * stays is put back. */
static struct parked *take_all(void)
{
    zc_transit_begin();
    if (!zc_lock_take(&lock))
        return NULL;
    struct parked *all = head;
    head = NULL;
    zc_lock_drop(&lock);
    return all;
}

static void put_back(struct parked *list)
{
    while (list) {
        struct parked *next = list->next;
        if (!zc_lock_take(&lock))
            break;
        list->next = head;
        head = list;
        zc_lock_drop(&lock);
        list = next;
    }
    zc_transit_end();
}

static bool passed(const struct parked *p)
{
    return !p->event || zc_real.cuEventQuery(p->event) != CUDA_ERROR_NOT_READY;
}

uint64_t zc_park_waiting(CUmemoryPool pool)
{
    uint64_t bytes = 0;
    if (!__atomic_load_n(&head, __ATOMIC_RELAXED))
        return 0;
    struct parked *all = take_all();
    for (const struct parked *p = all; p; p = p->next)
        if (p->pool == pool && !passed(p))
            bytes += p->size;
    put_back(all);
    return bytes;
}

/* Ends a parking; the backing is the caller's. */
static struct zc_backing *finish(struct parked *p)
{
    struct zc_backing *backing = p->backing;
    if (p->event)
        zc_real.cuEventDestroy_v2(p->event);
    if (p->ghost)
        zc_block_remove(p->ghost);
    zc_arena_put(p, sizeof(*p));
    return backing;
}

/* True if a block that was freed in stream order can be had for a request at once: its stream has
 * passed, or the request stands behind the free.  What only copies of other devices needed ends
 * before that. */
static bool ready(const struct parked *p, const struct zc_want *want,
                  const struct zc_stream_ident *stream)
{
    struct zc_vmm *v = p->backing->place == ZC_PLACE_VMM ? p->backing->vmm : NULL;
    bool behind = p->event && zc_stream_same(&p->stream, stream);
    if (!v)
        return behind || passed(p);
    if (!zc_vmm_suits(v, want))
        return false;
    return (behind && !v->window.copying) ||
           (passed(p) && zc_access_end_copies(&v->window) == CUDA_SUCCESS);
}

struct zc_backing *zc_park_take(enum zc_place_id place, const struct zc_want *want, CUstream stream,
                                enum zc_flavour flavour)
{
    struct zc_backing *taken = NULL;
    struct parked *kept = NULL, *next;
    struct zc_stream_ident own;
    if (!__atomic_load_n(&head, __ATOMIC_RELAXED))
        return NULL;
    zc_stream_identify(stream, flavour, &own);
    for (struct parked *p = take_all(); p; p = next) {
        const struct zc_backing *b = p->backing;
        next = p->next;
        bool stream_ordered = p->ghost && (p->ghost->flags & ZC_BLOCK_STREAM);
        bool fits = !taken && stream_ordered && b->place == place && b->size == want->size &&
                    b->device == want->device && b->context == want->context;
        if (fits && ready(p, want, &own)) {
            taken = finish(p);
            continue;
        }
        p->next = kept;
        kept = p;
    }
    put_back(kept);
    return taken;
}

/* True for a block whose free was deferred, which the program did not free in stream order. */
static bool deferred(const struct parked *p)
{
    return p->event && p->ghost && !(p->ghost->flags & ZC_BLOCK_STREAM);
}

/* Ends a parking: the memory goes back to the driver, or waits for the next request. */
static void release(struct parked *p)
{
    bool driver_has_it = p->backing->pooled;
    if (!deferred(p) || !zc_warm_keep(p->ghost)) {
        zc_place_release(finish(p), driver_has_it);
        return;
    }
    zc_real.cuEventDestroy_v2(p->event);
    zc_arena_put(p, sizeof(*p));
}

/* Ends the parkings that are due, which may ask the driver, and counts them; none during a capture,
 * which forbids such calls, and at the end of the process. */
static unsigned sweep(bool (*due)(const struct parked *p, enum zc_place_id place),
                      enum zc_place_id place)
{
    unsigned count = 0;
    struct parked *kept = NULL, *next;
    if (!__atomic_load_n(&head, __ATOMIC_RELAXED) || zc_capture_any() || zc_life_closing())
        return 0;
    for (struct parked *p = take_all(); p; p = next) {
        bool lent = zc_stream_lend(p->backing->context), ended = due(p, place);
        next = p->next;
        if (ended)
            release(p);
        zc_stream_lent(lent);
        count += ended;
        if (ended)
            continue;
        p->next = kept;
        kept = p;
    }
    put_back(kept);
    return count;
}

static bool passed_in(const struct parked *p, enum zc_place_id place)
{
    const struct zc_backing *b = p->backing;
    bool waits = zc_place_of(b->place)->waits && !b->pooled;
    return (b->place == place || !waits) && passed(p);
}

unsigned zc_park_reap(enum zc_place_id place)
{
    return sweep(passed_in, place);
}

static bool passed_anywhere(const struct parked *p, enum zc_place_id place)
{
    (void)place;
    return passed(p);
}

unsigned zc_park_reap_all(void)
{
    zc_pinned_trim();
    return sweep(passed_anywhere, ZC_PLACE_COUNT);
}

static bool waited_for(const struct parked *p, enum zc_place_id place)
{
    (void)place;
    return deferred(p) && zc_real.cuEventSynchronize(p->event) == CUDA_SUCCESS;
}

bool zc_park_wait(void)
{
    return sweep(waited_for, ZC_PLACE_COUNT) > 0;
}

static void context_gone(CUcontext context)
{
    struct parked *kept = NULL, *next;
    for (struct parked *p = take_all(); p; p = next) {
        struct zc_backing *b = p->backing;
        next = p->next;
        if (p->home == context)
            p->event = NULL; /* Destroyed with its context, and so is what it stood for. */
        if (b->context == context) {
            zc_place_release(finish(p), true);
            continue;
        }
        p->next = kept;
        kept = p;
    }
    put_back(kept);
}

static void in_child(void)
{
    zc_lock_reset(&lock);
    head = NULL;
}

static unsigned reclaim(int place)
{
    return zc_park_reap((enum zc_place_id)place);
}

const struct zc_module zc_module_park = {
    .child = in_child, .context_gone = context_gone, .reclaim = reclaim};
