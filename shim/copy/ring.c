/* SPDX-License-Identifier: MIT */
/* Slots of pinned memory, which any thread takes and gives back without a lock. */
#include "copy/ring.h"

#include "base/module.h"
#include "base/wait.h"
#include "driver/stream.h"
#include "ledger/block.h"
#include "memory/limits.h"
#include "memory/pages.h"

enum slot_state {
    SLOT_FREE,
    SLOT_OWNED,  /* A thread fills it, or waits for its event. */
    SLOT_FLYING, /* A copy out of it is in a stream; `event` says when it has passed. */
};

static struct {
    uint64_t departures; /* Atomic. */
    uint32_t releases;   /* So far; a thread that finds no slot waits for the next.  Atomic. */
    struct {
        uint32_t state;    /* enum slot_state; atomic. */
        bool refused;      /* There is no memory for it, or it can't be registered. */
        char *memory;      /* ZC_RING_SLOT bytes, made at first use and never freed; the owner's. */
        CUcontext context; /* Context that it is registered in, or NULL.  Atomic. */
        CUevent event;     /* The owner's; NULL: nothing to wait for. */
        CUcontext home;    /* Context of the event; the owner's. */
        uint64_t serial;   /* Order in which copies were sent; the owner's. */
    } slot[ZC_RING_SLOTS];
} ring;

/* Makes the memory of a slot at its first use, and registers it again if a context took the
 * registration along. */
static bool slot_prepare(unsigned i)
{
    const char *why;
    CUcontext context = NULL;
    if (__atomic_load_n(&ring.slot[i].context, __ATOMIC_ACQUIRE))
        return true;
    if (ring.slot[i].refused)
        return false;
    if (!ring.slot[i].memory && zc_limits_take(ZC_PLACE_PINNED, -1, ZC_RING_SLOT, &why)) {
        ring.slot[i].memory = zc_pages_make(ZC_RING_SLOT, 0, -1);
        if (!ring.slot[i].memory)
            zc_limits_give(ZC_PLACE_PINNED, -1, ZC_RING_SLOT);
    }
    ring.slot[i].refused =
        !ring.slot[i].memory || !zc_real.cuMemHostRegister_v2 ||
        zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
        zc_real.cuMemHostRegister_v2(ring.slot[i].memory, ZC_RING_SLOT,
                                     CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS;
    if (!ring.slot[i].refused)
        __atomic_store_n(&ring.slot[i].context, context, __ATOMIC_RELEASE);
    return !ring.slot[i].refused;
}

static bool slot_claim(unsigned i, uint32_t from)
{
    return __atomic_compare_exchange_n(&ring.slot[i].state, &from, SLOT_OWNED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Waits for the copy out of a slot that the caller owns. */
static void slot_land(unsigned i)
{
    if (ring.slot[i].event)
        zc_stream_wait_mark(ring.slot[i].event);
    ring.slot[i].event = NULL;
}

static void slot_release(unsigned i, uint32_t state)
{
    __atomic_store_n(&ring.slot[i].state, state, __ATOMIC_RELEASE);
    zc_wait_step(&ring.releases);
}

char *zc_ring_memory(unsigned slot)
{
    return slot_prepare(slot) ? ring.slot[slot].memory : NULL;
}

/* Of two flying slots, the one that was sent first. */
static unsigned earlier(unsigned a, unsigned b)
{
    unsigned first = a == ZC_RING_SLOTS || ring.slot[b].serial < ring.slot[a].serial ? b : a;
    if (a != ZC_RING_SLOTS)
        slot_release(first == a ? b : a, SLOT_FLYING);
    return first;
}

/* Takes a slot.  If none is free, returns ZC_RING_SLOTS, with the flying slot that was sent first
 * in *oldest, which the caller then owns. */
static unsigned ring_look(unsigned *oldest)
{
    *oldest = ZC_RING_SLOTS;
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        bool flying = false;
        if (!slot_claim(i, SLOT_FREE) && !(flying = slot_claim(i, SLOT_FLYING)))
            continue;
        if (flying && zc_real.cuEventQuery(ring.slot[i].event) == CUDA_ERROR_NOT_READY) {
            *oldest = earlier(*oldest, i);
            continue;
        }
        if (*oldest != ZC_RING_SLOTS)
            slot_release(*oldest, SLOT_FLYING);
        slot_land(i);
        return i;
    }
    return ZC_RING_SLOTS;
}

unsigned zc_ring_take(void)
{
    for (;;) {
        uint32_t seen = __atomic_load_n(&ring.releases, __ATOMIC_SEQ_CST);
        unsigned oldest, slot = ring_look(&oldest);
        if (slot != ZC_RING_SLOTS)
            return slot;
        if (oldest != ZC_RING_SLOTS) {
            slot_land(oldest);
            return oldest;
        }
        zc_wait(&ring.releases, seen);
    }
}

int zc_ring_try(void)
{
    unsigned oldest, slot = ring_look(&oldest);
    if (slot != ZC_RING_SLOTS)
        return (int)slot;
    if (oldest != ZC_RING_SLOTS)
        slot_release(oldest, SLOT_FLYING);
    return -1;
}

void zc_ring_give(unsigned slot, CUevent event, CUcontext home)
{
    ring.slot[slot].event = event;
    ring.slot[slot].home = home;
    ring.slot[slot].serial = __atomic_fetch_add(&ring.departures, 1, __ATOMIC_RELAXED);
    slot_release(slot, event ? SLOT_FLYING : SLOT_FREE);
}

static void ring_context_gone(CUcontext context)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        CUcontext there = context;
        __atomic_compare_exchange_n(&ring.slot[i].context, &there, NULL, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
        if (!slot_claim(i, SLOT_FLYING))
            continue;
        if (ring.slot[i].home == context) /* The copy has ended. */
            ring.slot[i].event = NULL;
        slot_release(i, ring.slot[i].event ? SLOT_FLYING : SLOT_FREE);
    }
}

/* The child has its own copies of the slots' memory, which nobody registered. */
static void ring_child(void)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        ring.slot[i].state = SLOT_FREE;
        ring.slot[i].context = NULL;
        ring.slot[i].event = NULL;
        ring.slot[i].refused = false;
    }
}

const struct zc_module zc_module_ring = {.child = ring_child, .context_gone = ring_context_gone};
