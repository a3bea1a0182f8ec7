/* SPDX-License-Identifier: MIT */
/* Slots of pinned memory, which any thread takes and gives back without a lock. */
#include "copy/ring.h"

#include "base/module.h"
#include "base/own.h"
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

static ZC_OWN struct {
    struct {
        uint32_t state;    /* enum slot_state; atomic. */
        bool refused;      /* There is no memory for it, or it can't be registered. */
        char *memory;      /* ZC_RING_SLOT bytes, made at first use and never freed; the owner's. */
        CUcontext context; /* Context that it is registered in, or NULL.  Atomic. */
        CUevent event;     /* Of a copy that flies. */
        CUcontext home;    /* Context of the event. */
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

static void slot_release(unsigned i, uint32_t state)
{
    __atomic_store_n(&ring.slot[i].state, state, __ATOMIC_RELEASE);
}

char *zc_ring_memory(unsigned slot)
{
    return slot_prepare(slot) ? ring.slot[slot].memory : NULL;
}

/* Takes a slot that is free, or whose copy has passed. */
static bool ring_slot_take(unsigned i)
{
    if (slot_claim(i, SLOT_FREE))
        return true;
    if (!slot_claim(i, SLOT_FLYING))
        return false;
    bool passed = zc_real.cuEventQuery(ring.slot[i].event) != CUDA_ERROR_NOT_READY;
    if (passed)
        zc_stream_wait_mark(ring.slot[i].event);
    else
        slot_release(i, SLOT_FLYING);
    return passed;
}

int zc_ring_try(void)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++)
        if (ring_slot_take(i))
            return (int)i;
    return -1;
}

unsigned zc_ring_take(void)
{
    int slot;
    while ((slot = zc_ring_try()) < 0)
        zc_nap(50);
    return (unsigned)slot;
}

void zc_ring_give(unsigned slot, CUevent event, CUcontext home)
{
    ring.slot[slot].event = event;
    ring.slot[slot].home = home;
    slot_release(slot, event ? SLOT_FLYING : SLOT_FREE);
}

static void ring_context_gone(CUcontext context)
{
    for (unsigned i = 0; i < ZC_RING_SLOTS; i++) {
        CUcontext there = context;
        __atomic_compare_exchange_n(&ring.slot[i].context, &there, NULL, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
        if (slot_claim(i, SLOT_FLYING)) /* Its copies have ended. */
            slot_release(i, ring.slot[i].home == context ? SLOT_FREE : SLOT_FLYING);
    }
}

const struct zc_module zc_module_ring = {.context_gone = ring_context_gone};
