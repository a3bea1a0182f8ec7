/* SPDX-License-Identifier: MIT */
/* Copies of growing arrays that become remaps. */
#include "vmm/grow.h"

#include "base/clock.h"
#include "base/life.h"
#include "base/module.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/leaving.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "driver/streams.h"
#include "log/log.h"
#include "vmm/ahead.h"
#include "vmm/late.h"
#include "vmm/spare.h"

static void record(struct zc_vmm *sink, enum zc_outcome outcome)
{
    sink->growth->copy.outcome = outcome;
    zc_traffic_record(&sink->growth->copy);
    if (zc_log_level() == ZC_LOG_EVENTS)
        zc_log_transfer(&sink->growth->copy, &sink->growth->call);
}

static void unlink_pair(struct zc_vmm *sink)
{
    struct zc_vmm *source = sink->growth->source;
    sink->growth->source = NULL;
    source->growth->sink = NULL;
    zc_late_note(source);
    zc_late_note(sink);
}

/* Makes a pending copy.  It is complete on return, because events that the program recorded behind
 * its own copy do not cover this one.  After a failure it is still pending. */
static CUresult copy_now(struct zc_vmm *sink, const char **why)
{
    CUcontext current = NULL, popped;
    struct zc_vmm *source = sink->growth->source;
    CUresult result = CUDA_SUCCESS;
    if (!zc_vmm_whole(sink))
        result = zc_late_attach(sink, 0, sink->span, why);
    if (result == CUDA_SUCCESS && !zc_window_holds(&source->window, 0, sink->growth->copy.bytes))
        result = zc_late_attach(source, 0, sink->growth->copy.bytes, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    zc_real.cuCtxGetCurrent(&current);
    if (current != sink->window.context)
        result = zc_real.cuCtxPushCurrent_v2(sink->window.context);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyDtoDAsync_v2(sink->window.base, source->window.base,
                                          sink->growth->copy.bytes, CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS)
        result = zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    if (current != sink->window.context)
        zc_real.cuCtxPopCurrent_v2(&popped);
    if (result == CUDA_SUCCESS) {
        record(sink, ZC_MOVED);
        unlink_pair(sink);
    }
    return result;
}

/* The legacy stream orders a copy behind everything of its context but the streams that are
 * independent of it; behind other streams a copy is in order only if nothing runs.  Work that is
 * not before the copy might change the source after it, and that of another context is before a
 * copy of that context's alone. */
static bool in_order(const struct zc_copy *c, CUcontext context)
{
    bool legacy = c->stream == CU_STREAM_LEGACY || (!c->stream && c->flavour == ZC_LEGACY);
    return zc_stream_context(c->stream, c->flavour) == context &&
           (legacy || zc_stream_idle(CU_STREAM_LEGACY, ZC_LEGACY)) && zc_streams_idle();
}

/* A copy of the whole of one block into the beginning of a larger one that is still empty. */
static bool grows(const struct zc_copy *c, const struct zc_vmm *to, const struct zc_vmm *from)
{
    if (!to || !from || to == from || !to->grows || !from->grows || !c->linear || zc_copy_peers(c))
        return false;
    bool whole = c->dst.address == to->window.base && c->src.address == from->window.base &&
                 c->bytes >= c->src.block->size / 2;
    bool empty = !to->held && !to->growth->source && !to->growth->sink;
    bool full = from->held == from->span && !from->growth->source && !from->growth->sink;
    if (zc_await_any())
        return false;
    bool room = to->span >= zc_vmm_own(from) && to->window.size >= from->held;
    bool alike = to->device == from->device && to->window.context == from->window.context &&
                 to->rdma == from->rdma;
    return whole && empty && full && room && alike && !zc_capture_any() &&
           in_order(c, to->window.context);
}

CUresult zc_grow_copy_all(enum zc_fn fn)
{
    CUresult result = CUDA_SUCCESS;
    const char *why = "";
    for (struct zc_vmm *v = zc_late_opened, *next; v && result == CUDA_SUCCESS; v = next) {
        next =
            v->next == v->growth->source && v->growth->source ? v->growth->source->next : v->next;
        bool pending = v->growth->source && !zc_leaving(v->window.context);
        result = pending ? copy_now(v, &why) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            zc_late_blame(v, fn, result, why);
    }
    return result;
}

static void leave_pending(struct zc_copy *c, struct zc_vmm *to, struct zc_vmm *from)
{
    to->growth->source = from;
    from->growth->sink = to;
    to->growth->copy = (struct zc_transfer){.bytes = c->bytes,
                                            .copies = c->copies,
                                            .dst = c->dst.block,
                                            .src = c->src.block,
                                            .ticks = zc_ticks() - c->start};
    zc_copy_flows(c, &to->growth->copy.asked, &to->growth->copy.real);
    to->growth->call = (struct zc_log_call){
        .function = zc_fn_name(c->fn),
        .dst = c->dst.address,
        .src = c->src.address,
        .stream = c->async ? zc_stream_kind_of(c->stream, c->flavour) : ZC_STREAM_NONE,
        .handle = (uintptr_t)c->stream,
    };
    c->on = false; /* Recorded once it is known what became of it. */
    c->result = CUDA_SUCCESS;
    zc_late_note(from);
    zc_late_note(to);
}

CUresult zc_grow_ready(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    CUresult result = v->growth->source ? copy_now(v, why) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && (v->growth->like || !zc_window_holds(&v->window, from, to)))
        result = zc_late_attach(v, from, to, why);
    return result;
}

/* Makes one side of a transfer ready. */
static CUresult side_ready(const struct zc_box *b, struct zc_vmm *v, bool written, enum zc_fn fn)
{
    const char *why = "";
    size_t from = b->address - b->block->base, to = from + b->span;
    CUresult result = CUDA_SUCCESS;
    if (!v->growth->source && v->growth->sink && written)
        result = copy_now(v->growth->sink, &why);
    if (result == CUDA_SUCCESS)
        result = zc_grow_ready(v, from, to, &why);
    /* Data that was there before is reachable, even if there is no more memory. */
    if (result != CUDA_SUCCESS && !v->growth->source && !v->growth->sink && !v->growth->like &&
        zc_window_holds(&v->window, from, to))
        return CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? result : zc_late_blame(v, fn, result, why);
}

static struct zc_vmm *late_block(const struct zc_box *b)
{
    struct zc_vmm *v = zc_vmm_of(b->block);
    return v && v->late ? v : NULL;
}

bool zc_grow_copy(struct zc_copy *c)
{
    struct zc_vmm *to = late_block(&c->dst), *from = late_block(&c->src);
    CUresult result = CUDA_SUCCESS;
    const char *why;
    if ((!zc_late_open(to) && !zc_late_open(from)) || !zc_driver_lock())
        return false;
    bool pending = grows(c, to, from);
    if (pending && to->growth->like != from)
        pending = zc_spare_unalias(to, &why) == CUDA_SUCCESS;
    if (pending)
        leave_pending(c, to, from);
    if (!pending && zc_late_open(to))
        result = side_ready(&c->dst, to, true, c->fn);
    if (!pending && result == CUDA_SUCCESS && zc_late_open(from))
        result = side_ready(&c->src, from, false, c->fn);
    zc_driver_unlock();
    if (result == CUDA_SUCCESS)
        return pending;
    c->on = false; /* The refusal is explained already. */
    c->result = result;
    return true;
}

CUresult zc_grow_settle(const struct zc_block *block, enum zc_fn fn)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (!zc_late_open(v) || zc_life_closing() || !zc_driver_lock())
        return CUDA_SUCCESS;
    if (v->growth->sink)
        result = copy_now(v->growth->sink, &why);
    if (result == CUDA_SUCCESS)
        result = zc_grow_ready(v, 0, v->span, &why);
    if (result != CUDA_SUCCESS)
        zc_late_blame(v, fn, result, why);
    zc_driver_unlock();
    return result;
}

/*
 * The small block's memory becomes the large one's, which maps what is not mapped there already
 * when it is needed.  The small one's mapping stays, for the block that will grow from the large
 * one.  A large block that got memory of its own for a copy that failed is copied again.  What the
 * copy leaves out is the large one's at once, so no work may write it any more; nor may devices
 * copy there that are let only by copies.
 */
static CUresult hand_over(struct zc_vmm *from, struct zc_block *block, bool *kept, const char **why)
{
    struct zc_vmm *to = from->growth->sink;
    size_t due = zc_vmm_due(to);
    CUresult result = CUDA_SUCCESS;
    if (to->held)
        return copy_now(to, why);
    *why = "the driver does not wait for its context";
    if (to->growth->copy.bytes < block->size || from->window.copying)
        result = zc_window_wait(&from->window);
    if (result == CUDA_SUCCESS && from->growth->echo && from->growth->echo != to)
        result = zc_spare_unalias(from->growth->echo, why);
    if (result != CUDA_SUCCESS)
        return result;
    zc_spare_drop(from);
    to->piece = from->piece;
    to->count = from->count;
    to->room = from->room;
    to->held = from->held;
    to->growth->like = from->growth->echo = NULL;
    zc_ahead_move(to, from);
    from->piece = NULL;
    from->count = from->room = 0;
    from->held = 0;
    zc_late_keep_promise(to, due - zc_vmm_due(to));
    record(to, ZC_ELIDED);
    unlink_pair(to);
    zc_late_take_out(from);
    zc_spare_keep(to, from, block);
    *kept = true;
    return CUDA_SUCCESS;
}

/* Nobody will look at what a copy into a block would bring. */
static void elide(struct zc_vmm *v)
{
    if (!v->growth->source)
        return;
    record(v, ZC_ELIDED);
    unlink_pair(v);
}

CUresult zc_grow_freeing(struct zc_block *block, bool busy, bool *kept_out)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    *kept_out = false;
    if (!v || !v->late || !zc_driver_lock())
        return CUDA_SUCCESS;
    if (!busy && v->growth->spare)
        zc_window_rest(&v->growth->spare->window);
    if (!busy && v->growth->echo)
        zc_window_rest(&v->growth->echo->window);
    elide(v);
    if (v->growth->sink) {
        v->window.busy = v->window.busy || busy;
        result = hand_over(v, block, kept_out, &why);
    }
    if (result != CUDA_SUCCESS)
        zc_late_blame(v, ZC_FN_cuMemFree_v2, result, why);
    if (!*kept_out)
        zc_driver_unlock();
    return result;
}

CUresult zc_grow_leaving(struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (!v || !v->late || !zc_driver_lock())
        return CUDA_SUCCESS;
    elide(v);
    if (v->growth->sink)
        result = copy_now(v->growth->sink, &why);
    if (result == CUDA_SUCCESS) {
        zc_late_forget(v);
        v->late = false;
    } else {
        zc_late_blame(v, ZC_FN_cuMemFreeAsync, result, why);
    }
    zc_driver_unlock();
    return result;
}

/* Records a pending copy that nobody needs any more, of which the ledger may have let a side go. */
static void record_left(struct zc_vmm *sink)
{
    if (zc_block_find(sink->window.base) != sink->growth->copy.dst)
        sink->growth->copy.dst = NULL;
    if (zc_block_find(sink->growth->source->window.base) != sink->growth->copy.src)
        sink->growth->copy.src = NULL;
    record(sink, ZC_ELIDED);
}

void zc_grow_unlink(struct zc_vmm *v)
{
    struct zc_vmm *sink = v->growth->source ? v : v->growth->sink;
    if (!sink)
        return;
    record_left(sink);
    unlink_pair(sink);
}

/* Records the copies that are pending as the process ends: they were not needed. */
static void finish(void)
{
    for (struct zc_vmm *v = zc_late_opened; v; v = v->next)
        if (v->growth->source)
            record_left(v);
}

const struct zc_module zc_module_grow = {.finish = finish};
