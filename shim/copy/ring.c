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
    uint32_t state;    /* enum slot_state; atomic. */
    bool refused;      /* There is no memory for it, or it can't be registered. */
    char *memory;      /* ZC_RING_SLOT bytes, made at first use and never freed; the owner's. */
    CUcontext context; /* Context that it is registered in, or NULL.  Atomic. */
    CUevent event;     /* The owner's; NULL: nothing to wait for. */
    CUcontext home;    /* Context of the event; the owner's. */
    uint64_t serial;   /* Order in which copies were sent; the owner's. */
} slots[ZC_RING_SLOTS];

static uint64_t departures; /* Atomic. */
static uint32_t releases;   /* So far; those wait for it who find no slot.  Atomic. */

/* Makes the memory of a slot at its first use, and registers it again if a context took the
 * registration along. */
static bool prepare(unsigned i)
{
    const char *why;
    CUcontext context = NULL;
    if (__atomic_load_n(&slots[i].context, __ATOMIC_ACQUIRE))
        return true;
    if (slots[i].refused)
        return false;
    if (!slots[i].memory && zc_limits_take(ZC_PLACE_PINNED, -1, ZC_RING_SLOT, &why)) {
        slots[i].memory = zc_pages_make(ZC_RING_SLOT, 0, -1);
        if (!slots[i].memory)
            zc_limits_give(ZC_PLACE_PINNED, -1, ZC_RING_SLOT);
    }
    slots[i].refused = !slots[i].memory || !zc_real.cuMemHostRegister_v2 ||
                       zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
                       zc_real.cuMemHostRegister_v2(slots[i].memory, ZC_RING_SLOT,
                                                    CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS;
    if (!slots[i].refused)
        __atomic_store_n(&slots[i].context, context, __ATOMIC_RELEASE);
    return !slots[i].refused;
}

static bool claim(unsigned i, uint32_t from)
{
    return __atomic_compare_exchange_n(&slots[i].state, &from, SLOT_OWNED, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

/* Waits for the copy out of a slot that the caller owns. */
static void land(unsigned i)
{
    if (slots[i].event)
        zc_stream_wait_mark(slots[i].event);
    slots[i].event = NULL;
}

static void release(unsigned i, uint32_t state)
{
    __atomic_store_n(&slots[i].state, state, __ATOMIC_RELEASE);
    zc_wait_step(&releases);
}

char *zc_ring_memory(unsigned slot)
{
    return prepare(slot) ? slots[slot].memory : NULL;
}

/* Of two flying slots, the one that was sent first. */
static unsigned earlier(unsigned a, unsigned b)
{
    unsigned first = a == ZC_RING_SLOTS || slots[b].serial < slots[a].serial ? b : a;
    if (a != ZC_RING_SLOTS)
        release(first == a ? b : a, SLOT_FLYING);
    return first;
}

/* Takes a slot.  If none is free, returns ZC_RING_SLOTS, with the flying slot that was sent first
 * in *oldest, which the caller then owns. */
static unsigned ring_look(unsigned *oldest)
{
    *oldest = ZC_RING_SLOTS;
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        bool flying = false;
        if (!claim(i, SLOT_FREE) && !(flying = claim(i, SLOT_FLYING)))
            continue;
        if (flying && zc_real.cuEventQuery(slots[i].event) == CUDA_ERROR_NOT_READY) {
            *oldest = earlier(*oldest, i);
            continue;
        }
        if (*oldest != ZC_RING_SLOTS)
            release(*oldest, SLOT_FLYING);
        land(i);
        return i;
    }
    return ZC_RING_SLOTS;
}

unsigned zc_ring_take(void)
{
    for (;;) {
        uint32_t seen = __atomic_load_n(&releases, __ATOMIC_SEQ_CST);
        unsigned oldest, slot = ring_look(&oldest);
        if (slot != ZC_RING_SLOTS)
            return slot;
        if (oldest != ZC_RING_SLOTS) {
            land(oldest);
            return oldest;
        }
        zc_wait(&releases, seen);
    }
}

int zc_ring_try(void)
{
    unsigned oldest, slot = ring_look(&oldest);
    if (slot != ZC_RING_SLOTS)
        return (int)slot;
    if (oldest != ZC_RING_SLOTS)
        release(oldest, SLOT_FLYING);
    return -1;
}

void zc_ring_give(unsigned slot, CUevent event, CUcontext home)
{
    slots[slot].event = event;
    slots[slot].home = home;
    slots[slot].serial = __atomic_fetch_add(&departures, 1, __ATOMIC_RELAXED);
    release(slot, event ? SLOT_FLYING : SLOT_FREE);
}

static void context_gone(CUcontext context)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        CUcontext there = context;
        __atomic_compare_exchange_n(&slots[i].context, &there, NULL, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
        if (!claim(i, SLOT_FLYING))
            continue;
        if (slots[i].home == context) /* The copy has ended. */
            slots[i].event = NULL;
        release(i, slots[i].event ? SLOT_FLYING : SLOT_FREE);
    }
}

/* The child has its own copies of the slots' memory, which nobody registered. */
static void in_child(void)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        slots[i].state = SLOT_FREE;
        slots[i].context = NULL;
        slots[i].event = NULL;
        slots[i].refused = false;
    }
}

const struct zc_module zc_module_ring = {.child = in_child, .context_gone = context_gone};
