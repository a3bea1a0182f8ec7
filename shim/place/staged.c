/* Asynchronous copies from and to blocks of the host heap, through a ring of pinned memory where
 * the call must not wait for its stream. */
#include "place/staged.h"

#include <sched.h>

#include "catch/capture.h"
#include "place/limits.h"
#include "place/pages.h"
#include "place/stream.h"
#include "place/workers.h"

#define SLOTS 8u
#define SLOT ((size_t)8 << 20)
#define RING (SLOTS * SLOT)

enum slot_state {
    SLOT_FREE,
    SLOT_OWNED,  /* A thread fills it, or waits for its event. */
    SLOT_FLYING, /* A copy out of it is in a stream; `event` tells when it has passed. */
};

static struct {
    uint32_t state;    /* enum slot_state; atomic. */
    bool refused;      /* No memory, or no registration of it, can be had. */
    char *memory;      /* SLOT bytes, mapped at first use and for good; the owner's. */
    CUcontext context; /* The one that it is registered in, NULL for none; atomic. */
    CUevent event;     /* The owner's; NULL where nothing is to be waited for. */
    uint64_t serial;   /* Order in which copies left; the owner's. */
} slots[SLOTS];

static uint64_t departures; /* Atomic. */

/* Memory for a slot, made at its first use, and registered again where a context took that along.
 */
static bool prepare(unsigned i)
{
    const char *why;
    CUcontext context = NULL;
    if (__atomic_load_n(&slots[i].context, __ATOMIC_ACQUIRE))
        return true;
    if (slots[i].refused)
        return false;
    if (!slots[i].memory && zc_limits_take(ZC_PLACE_PINNED, -1, SLOT, &why)) {
        slots[i].memory = zc_pages_make(SLOT, -1);
        if (!slots[i].memory)
            zc_limits_give(ZC_PLACE_PINNED, SLOT);
    }
    slots[i].refused = !slots[i].memory || !zc_real.cuMemHostRegister_v2 ||
                       zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
                       zc_real.cuMemHostRegister_v2(slots[i].memory, SLOT,
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

/* Ends the flight of a slot that the caller owns. */
static void land(unsigned i)
{
    if (slots[i].event) {
        zc_real.cuEventSynchronize(slots[i].event);
        zc_real.cuEventDestroy_v2(slots[i].event);
    }
    slots[i].event = NULL;
}

static void release(unsigned i, uint32_t state)
{
    __atomic_store_n(&slots[i].state, state, __ATOMIC_RELEASE);
}

/* A free slot; else one whose copy has passed; else the one that left first, after waiting for it.
 */
static unsigned take_slot(void)
{
    for (;; sched_yield()) {
        unsigned oldest = SLOTS;
        for (unsigned i = 0; i < SLOTS; i++) {
            if (claim(i, SLOT_FREE))
                return i;
            if (!claim(i, SLOT_FLYING))
                continue;
            if (zc_real.cuEventQuery(slots[i].event) != CUDA_ERROR_NOT_READY) {
                land(i);
                return i;
            }
            if (oldest < SLOTS && slots[oldest].serial < slots[i].serial) {
                release(i, SLOT_FLYING);
                continue;
            }
            if (oldest < SLOTS)
                release(oldest, SLOT_FLYING);
            oldest = i;
        }
        if (oldest < SLOTS) {
            land(oldest);
            return oldest;
        }
    }
}

/* One part of the copy, by way of a slot; without one it is the driver's, and waited for. */
static CUresult send(const struct zc_copy *c, size_t at, size_t n)
{
    unsigned i = take_slot();
    const char *from = (const char *)c->src.address + at;
    bool staged = prepare(i);
    if (staged) {
        zc_workers_copy(slots[i].memory, from, n);
        from = slots[i].memory;
    }
    CUresult result =
        ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(c->dst.address + at, from, n, c->stream);
    slots[i].event =
        staged && result == CUDA_SUCCESS ? zc_stream_mark(c->stream, c->flavour) : NULL;
    if (result == CUDA_SUCCESS && !slots[i].event)
        result = zc_staged_wait(c);
    slots[i].serial = __atomic_fetch_add(&departures, 1, __ATOMIC_RELAXED);
    release(i, slots[i].event ? SLOT_FLYING : SLOT_FREE);
    return result;
}

/* Parts must not be on their way when the driver would refuse the whole. */
static bool splittable(const struct zc_copy *c)
{
    const struct zc_block *b = c->dst.block;
    return c->linear && c->bytes <= RING && b && b->asked == ZC_KIND_DEVICE &&
           b->real == ZC_KIND_DEVICE && c->bytes <= b->base + b->size - c->dst.address &&
           zc_hostheap_block(c->src.address) && zc_real.cuMemcpyHtoDAsync_v2;
}

static bool through_ring(struct zc_copy *c)
{
    if (!splittable(c))
        return false;
    c->result = CUDA_SUCCESS;
    for (size_t at = 0; at < c->bytes && c->result == CUDA_SUCCESS; at += SLOT)
        c->result = send(c, at, c->bytes - at < SLOT ? c->bytes - at : SLOT);
    return true;
}

bool zc_staged_copy(struct zc_copy *c)
{
    if (!c->async || !(c->dst.staged || c->src.staged))
        return false;
    if (zc_capture_holds(c->stream, c->flavour))
        return false; /* What a graph copies is read and written at its launches, from any memory.
                       */
    if (!c->dst.staged && !zc_capture_any() && !zc_stream_idle(c->stream, c->flavour) &&
        through_ring(c))
        return true;
    c->wait = true;
    return false;
}

/* While another thread captures, waiting is allowed only to a thread in relaxed mode (CUDA Driver
 * API, cuThreadExchangeStreamCaptureMode). */
CUresult zc_staged_wait(const struct zc_copy *c)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool relaxed = zc_capture_any() && zc_real.cuThreadExchangeStreamCaptureMode &&
                   zc_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    CUevent event = zc_stream_mark(c->stream, c->flavour);
    CUresult result =
        event ? zc_real.cuEventSynchronize(event) : zc_stream_drain(c->stream, c->flavour);
    if (event)
        zc_real.cuEventDestroy_v2(event);
    if (relaxed)
        zc_real.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

void zc_staged_forget(CUcontext context)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        CUcontext there = context;
        __atomic_compare_exchange_n(&slots[i].context, &there, NULL, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
    }
}

/* The child has copies of the slots' memory of its own, registered with nobody. */
void zc_staged_reset(void)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i].state = SLOT_FREE;
        slots[i].context = NULL;
        slots[i].event = NULL;
        slots[i].refused = false;
    }
}
