/* SPDX-License-Identifier: MIT */
/* Asynchronous copies from and to blocks of the host heap, through a ring of pinned memory if the
 * call must not wait for its stream. */
#include "copy/staged.h"

#include "base/life.h"
#include "copy/ring.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "memory/workers.h"

/* Sends one part of the copy through a slot.  Without a slot the driver copies it, and the call
 * waits. */
static CUresult send(const struct zc_copy *c, size_t at, size_t n)
{
    unsigned slot = zc_ring_take();
    const char *from = (const char *)c->src.address + at;
    char *staging = zc_ring_memory(slot);
    CUevent event = NULL;
    if (staging) {
        zc_workers_copy(staging, from, n);
        from = staging;
    }
    CUresult result =
        ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(c->dst.address + at, from, n, c->stream);
    if (staging && result == CUDA_SUCCESS)
        event = zc_stream_mark(c->stream, c->flavour);
    if (result == CUDA_SUCCESS && !event)
        result = zc_staged_wait(c);
    zc_ring_give(slot, event, event ? zc_stream_context(c->stream, c->flavour) : NULL);
    return result;
}

/* No part may be sent if the driver would refuse the whole copy. */
static bool splittable(const struct zc_copy *c)
{
    const struct zc_block *b = c->dst.block;
    return c->linear && c->bytes <= ZC_RING_BYTES && b && b->asked == ZC_KIND_DEVICE &&
           b->real == ZC_KIND_DEVICE && c->bytes <= b->base + b->size - c->dst.address &&
           zc_hostheap_block(c->src.address) && zc_real.cuMemcpyHtoDAsync_v2;
}

static bool through_ring(struct zc_copy *c)
{
    if (!splittable(c) || zc_life_closing())
        return false;
    c->result = CUDA_SUCCESS;
    c->copies = (c->bytes + ZC_RING_SLOT - 1) / ZC_RING_SLOT;
    for (size_t at = 0; at < c->bytes && c->result == CUDA_SUCCESS; at += ZC_RING_SLOT)
        c->result = send(c, at, c->bytes - at < ZC_RING_SLOT ? c->bytes - at : ZC_RING_SLOT);
    return true;
}

bool zc_staged_copy(struct zc_copy *c)
{
    if (!c->async || !(c->dst.staged || c->src.staged))
        return false;
    if (zc_capture_holds(c->stream, c->flavour))
        return false; /* A graph reads and writes the memory at its launches. */
    if (!c->dst.staged && !zc_capture_any() && !zc_stream_idle(c->stream, c->flavour) &&
        through_ring(c))
        return true;
    c->wait = true;
    return false;
}

CUresult zc_staged_wait(const struct zc_copy *c)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUevent event = zc_stream_mark(c->stream, c->flavour);
    CUresult result =
        event ? zc_real.cuEventSynchronize(event) : zc_stream_drain(c->stream, c->flavour);
    if (event)
        zc_real.cuEventDestroy_v2(event);
    zc_capture_restore(before);
    return result;
}
