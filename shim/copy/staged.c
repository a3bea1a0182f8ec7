/* SPDX-License-Identifier: MIT */
/* Asynchronous copies from and to blocks of the host heap, through a ring of pinned memory if the
 * call must not wait for its stream. */
#include "copy/staged.h"

#include "base/life.h"
#include "copy/ring.h"
#include "driver/capture.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/workers.h"

/* Sends one part of the copy through a slot.  Without a slot the driver copies it. */
static CUresult staged_send_part(const struct zc_copy *c, size_t at, size_t n)
{
    unsigned slot = zc_ring_take();
    const char *from = (const char *)c->src.address + at;
    char *staging = zc_ring_memory(slot);
    CUevent event = NULL;
    if (staging) {
        zc_workers_copy(staging, from, n);
        from = staging;
    }
    CUresult result = !staging && zc_pinned_stuck(c->src.extent)
                          ? CUDA_ERROR_OUT_OF_MEMORY
                          : ZC_FLAVOURED(c->flavour, cuMemcpyHtoDAsync_v2)(c->dst.address + at,
                                                                           from, n, c->stream);
    if (staging && result == CUDA_SUCCESS)
        event = zc_stream_mark(c->stream, c->flavour);
    if (result == CUDA_SUCCESS && !event)
        result = zc_staged_wait(c);
    zc_ring_give(slot, event, event ? zc_stream_context(c->stream, c->flavour) : NULL);
    return result;
}

/* No part may be sent if the driver would refuse the whole copy, or before its turn if the source
 * may only be read then. */
static bool is_splittable(const struct zc_copy *c)
{
    return c->order != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && c->shape == ZC_SHAPE_LINE &&
           c->bytes <= ZC_RING_BYTES && zc_operand_on_device(&c->dst, c->bytes) &&
           zc_hostheap_block(c->src.address) && zc_real.cuMemcpyHtoDAsync_v2;
}

void zc_staged_send(struct zc_copy *c)
{
    CUstreamCaptureMode before = zc_capture_relax();
    c->copies = (c->bytes + ZC_RING_SLOT - 1) / ZC_RING_SLOT;
    for (size_t at = 0; at < c->bytes && c->result == CUDA_SUCCESS; at += ZC_RING_SLOT)
        c->result =
            staged_send_part(c, at, c->bytes - at < ZC_RING_SLOT ? c->bytes - at : ZC_RING_SLOT);
    zc_capture_restore(before);
}

uint32_t zc_staged_facts(const struct zc_copy *c)
{
    return ZC_FACT_IF(TO_STAGED, c->dst.staged) | ZC_FACT_IF(FROM_STAGED, c->src.staged) |
           ZC_FACT_IF(RING, c->src.staged && is_splittable(c) && !zc_life_closing());
}

CUresult zc_staged_wait(const struct zc_copy *c)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUevent event = zc_stream_mark(c->stream, c->flavour);
    CUresult result = event ? zc_stream_wait_mark(event) : zc_stream_drain(c->stream, c->flavour);
    zc_capture_restore(before);
    return result;
}
