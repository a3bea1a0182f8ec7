/* SPDX-License-Identifier: MIT */
/* Turns the copies of growing arrays into remaps. */
#include "vmm/grow.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "driver/streams.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "memory/deep.h"
#include "memory/limits.h"
#include "memory/reclaim.h"
#include "vmm/access.h"
#include "vmm/grown.h"
#include "vmm/lazy.h"
#include "vmm/lineage.h"

static ZC_OWN bool quiesced; /* No deferred work is left to wait for, and none comes.  Atomic. */

static void record_copy(struct zc_vmm *to, enum zc_outcome outcome)
{
    struct zc_pending_copy *copy = to->lineage->copy;
    copy->transfer.outcome = outcome;
    zc_traffic_record(&copy->transfer);
    if (zc_log_level() >= ZC_LOG_EVENTS)
        zc_log_transfer(&copy->transfer, &copy->call);
}

static void end_copy(struct zc_vmm *to)
{
    struct zc_vmm *from = to->lineage->older;
    zc_lineage_end_copy(to);
    zc_lazy_update(from);
    zc_lazy_update(to);
}

/* Makes a pending copy, and waits for it: events that the program recorded behind its own copy do
 * not cover this one.  After a failure the copy is still pending. */
static CUresult copy_now(struct zc_vmm *to, const char **why)
{
    bool entered;
    struct zc_vmm *from = to->lineage->older;
    CUresult result = CUDA_SUCCESS;
    if (!zc_vmm_whole(to))
        result = zc_lazy_attach(to, 0, to->span, why);
    if (result == CUDA_SUCCESS && !zc_va_holds(&from->va, 0, to->lineage->copy->transfer.bytes))
        result = zc_lazy_attach(from, 0, to->lineage->copy->transfer.bytes, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = zc_stream_enter(to->va.context, &entered);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyDtoDAsync_v2(to->va.base, from->va.base,
                                          to->lineage->copy->transfer.bytes, CU_STREAM_LEGACY);
    if (result == CUDA_SUCCESS)
        result = zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    zc_stream_lent(entered);
    if (result == CUDA_SUCCESS) {
        record_copy(to, ZC_MOVED);
        end_copy(to);
    }
    return result;
}

/* True if the copy is in order behind all other work.  The legacy stream orders it behind
 * everything in its context except streams that are independent of it; for those, nothing may be
 * running.  Work that is not ordered before the copy could change the source after it.  Work of
 * another context is ordered only before copies of that context. */
static bool in_order(const struct zc_copy *c, CUcontext context)
{
    bool legacy = c->stream == CU_STREAM_LEGACY || (!c->stream && c->flavour == ZC_LEGACY);
    return zc_stream_context(c->stream, c->flavour) == context &&
           (legacy || zc_stream_idle(CU_STREAM_LEGACY, ZC_LEGACY)) && zc_streams_idle();
}

/* True for a copy of one whole block into the beginning of a larger one that is still empty. */
static bool grows(const struct zc_copy *c, const struct zc_vmm *to, const struct zc_vmm *from)
{
    if (!to || !from || to == from || !to->grows || !from->grows || zc_copy_peers(c))
        return false;
    bool empty = !to->held && !to->lineage->copy && !zc_vmm_copy_to(to);
    bool full = from->held >= from->span && !from->lineage->copy && !zc_vmm_copy_to(from);
    if (zc_await_any())
        return false;
    bool room = to->span >= zc_vmm_own(from) && to->va.size >= from->held;
    bool alike =
        to->device == from->device && to->va.context == from->va.context && to->rdma == from->rdma;
    return zc_grown_whole(c) && empty && full && room && alike && !zc_capture_any() &&
           in_order(c, to->va.context);
}

static CUresult copy_all(enum zc_fn fn)
{
    CUresult result = CUDA_SUCCESS;
    const char *why = "";
    for (struct zc_vmm *v = zc_lazy_list, *next; v && result == CUDA_SUCCESS; v = next) {
        struct zc_vmm *from = zc_vmm_copy_from(v);
        next = from && v->next == from ? from->next : v->next;
        bool pending = from && !zc_leaving(v->va.context);
        result = pending ? copy_now(v, &why) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            zc_lazy_diagnose(v, fn, result, why);
    }
    return result;
}

/* Does nothing during a capture: nothing may be waited for then, and nothing runs before the graph
 * is launched, by another call. */
CUresult zc_quiesce(enum zc_fn fn)
{
    if (__atomic_load_n(&quiesced, __ATOMIC_ACQUIRE) || !zc_life_on() || zc_life_closing() ||
        !zc_driver_lock())
        return CUDA_SUCCESS;
    zc_release_await();
    CUresult result = CUDA_SUCCESS;
    if (!zc_capture_any()) {
        result = copy_all(fn);
        if (result == CUDA_SUCCESS)
            result = zc_access_quiesce();
        __atomic_store_n(&quiesced, result == CUDA_SUCCESS, __ATOMIC_RELEASE);
    }
    zc_driver_unlock();
    return result;
}

/* False where libzc has no memory for it, or the driver refuses: then the copy is made. */
static bool leave_pending(struct zc_copy *c, struct zc_vmm *to, struct zc_vmm *from)
{
    struct zc_pending_copy *copy = zc_arena_get(sizeof(*copy));
    if (!copy || !zc_lineage_join(to, from)) {
        zc_arena_put(copy, sizeof(*copy));
        return false;
    }
    to->lineage->copy = copy;
    copy->transfer = (struct zc_transfer){.bytes = c->bytes,
                                          .copies = c->copies,
                                          .dst = c->dst.block,
                                          .src = c->src.block,
                                          .ticks = zc_ticks() - c->start};
    copy->transfer.asked = zc_copy_asked(c);
    copy->transfer.real = zc_copy_real(c);
    copy->call = (struct zc_log_call){
        .function = zc_fn_name(c->fn),
        .dst = c->dst.address,
        .src = c->src.address,
        .stream = c->async ? zc_stream_kind_of(c->stream, c->flavour) : ZC_STREAM_NONE,
        .handle = (uintptr_t)c->stream,
        .site = zc_log_level() >= ZC_LOG_EVENTS && c->frame ? zc_site_here(c->frame, c->pc) : 0,
    };
    const char *range = zc_ranges_here();
    if (range)
        copy->call.range = strncpy(copy->range, range, sizeof(copy->range) - 1);
    if (zc_deep())
        zc_deep_written(c->dst.block, c->dst.address, c->bytes);
    zc_lazy_update(from);
    zc_lazy_update(to);
    return true;
}

CUresult zc_grow_ready(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    CUresult result = v->lineage->copy ? copy_now(v, why) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && (v->lineage->alias || !zc_va_holds(&v->va, from, to)))
        result = zc_lazy_attach(v, from, to, why);
    return result;
}

CUresult zc_grow_settle(struct zc_vmm *v, const char **why)
{
    CUresult result = zc_vmm_copy_to(v) ? copy_now(zc_vmm_copy_to(v), why) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && v->lineage->copy)
        result = copy_now(v, why);
    return result == CUDA_SUCCESS ? zc_lineage_end(v, why) : result;
}

/* Makes one side of a transfer ready. */
static CUresult side_ready(const struct zc_operand *b, struct zc_vmm *v, bool written,
                           enum zc_fn fn)
{
    const char *why = "";
    size_t from = b->address - b->block->base, to = from + b->span;
    CUresult result = CUDA_SUCCESS;
    if (!v->lineage->copy && zc_vmm_copy_to(v) && written)
        result = copy_now(zc_vmm_copy_to(v), &why);
    if (result == CUDA_SUCCESS)
        result = zc_grow_ready(v, from, to, &why);
    /* Existing data stays reachable even if no more memory is to be had. */
    if (result != CUDA_SUCCESS && !v->lineage->copy && !zc_vmm_copy_to(v) && !v->lineage->alias &&
        zc_va_holds(&v->va, from, to))
        return CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? result : zc_lazy_diagnose(v, fn, result, why);
}

static struct zc_vmm *lazy_block(const struct zc_operand *b)
{
    struct zc_vmm *v = zc_vmm_of(b->block);
    return v && v->lazy ? v : NULL;
}

uint32_t zc_grow_facts(struct zc_copy *c)
{
    struct zc_vmm *to = lazy_block(&c->dst), *from = lazy_block(&c->src);
    CUresult result = CUDA_SUCCESS;
    if ((!zc_lazy_pending(to) && !zc_lazy_pending(from)) || !zc_driver_lock())
        return 0;
    bool pending = grows(c, to, from) && leave_pending(c, to, from);
    if (!pending && zc_lazy_pending(to))
        result = side_ready(&c->dst, to, true, c->fn);
    if (!pending && result == CUDA_SUCCESS && zc_lazy_pending(from))
        result = side_ready(&c->src, from, false, c->fn);
    zc_driver_unlock();
    c->result = result;
    c->answered = result != CUDA_SUCCESS;
    return ZC_FACT_IF(FAILED, c->answered) | ZC_FACT_IF(PENDING, pending);
}

CUresult zc_grow_materialize(const struct zc_block *block, enum zc_fn fn)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (!zc_lazy_pending(v) || zc_life_closing() || !zc_driver_lock())
        return CUDA_SUCCESS;
    if (zc_vmm_copy_to(v))
        result = copy_now(zc_vmm_copy_to(v), &why);
    if (result == CUDA_SUCCESS)
        result = zc_grow_ready(v, 0, v->span, &why);
    if (result != CUDA_SUCCESS)
        zc_lazy_diagnose(v, fn, result, why);
    zc_driver_unlock();
    return result;
}

/*
 * Hands the physical memory of the small block to the large one, which maps it when it is first
 * needed.  The small block's addresses stay mapped, for the block that will grow from the large
 * one.  If the large block already got memory of its own for a copy that failed, the copy is made
 * again.  Bytes that the copy left out belong to the large block at once.  So no earlier work may
 * still write them, and devices that were let in only for copies may not either.
 */
static CUresult hand_over(struct zc_vmm *from, struct zc_block *block, bool *kept, const char **why)
{
    struct zc_vmm *to = from->lineage->newer;
    size_t due = zc_vmm_due(to);
    CUresult result = CUDA_SUCCESS;
    if (to->held)
        return copy_now(to, why);
    *why = "the driver does not wait for its context";
    if (to->lineage->copy->transfer.bytes < block->size || from->va.copying)
        result = zc_va_wait(&from->va);
    if (result != CUDA_SUCCESS)
        return result;
    record_copy(to, ZC_ELIDED);
    zc_lineage_inherit(to, from, block);
    end_copy(to);
    zc_lazy_suspend(from);
    zc_lazy_keep_promise(to, due - zc_vmm_due(to));
    *kept = true;
    return CUDA_SUCCESS;
}

/* Drops the copy into a block: nobody will read what it would bring. */
static void elide(struct zc_vmm *v)
{
    if (!v->lineage->copy)
        return;
    record_copy(v, ZC_ELIDED);
    end_copy(v);
}

CUresult zc_grow_freeing(struct zc_block *block, bool busy, void (*freed)(struct zc_block *block),
                         bool *kept_out)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    *kept_out = false;
    if (!v || !v->lazy || !zc_driver_lock())
        return CUDA_SUCCESS;
    if (!busy && v->lineage->previous)
        zc_va_quiesced(&v->lineage->previous->va);
    if (!busy && v->lineage->newer)
        zc_va_quiesced(&v->lineage->newer->va);
    elide(v);
    if (zc_vmm_copy_to(v)) {
        v->va.busy = v->va.busy || busy;
        result = hand_over(v, block, kept_out, &why);
    }
    if (result != CUDA_SUCCESS)
        zc_lazy_diagnose(v, ZC_FN_cuMemFree_v2, result, why);
    if (*kept_out) {
        freed(block);
        zc_block_quarantine(block);
        zc_limits_give(ZC_PLACE_VMM, v->device, block->size);
    }
    zc_driver_unlock();
    return result;
}

CUresult zc_grow_leaving(struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    if (!v || !v->lazy || !zc_driver_lock())
        return CUDA_SUCCESS;
    elide(v);
    if (zc_vmm_copy_to(v))
        result = copy_now(zc_vmm_copy_to(v), &why);
    if (result == CUDA_SUCCESS) {
        zc_lazy_forget(v);
        v->lazy = false;
    } else {
        zc_lazy_diagnose(v, ZC_FN_cuMemFreeAsync, result, why);
    }
    zc_driver_unlock();
    return result;
}

/* Records a pending copy that nobody needs any more.  The ledger may have forgotten one of its
 * sides. */
static void record_left(struct zc_vmm *to)
{
    struct zc_transfer *t = &to->lineage->copy->transfer;
    if (zc_block_find(to->va.base) != t->dst)
        t->dst = NULL;
    if (zc_block_find(to->lineage->older->va.base) != t->src)
        t->src = NULL;
    record_copy(to, ZC_ELIDED);
}

void zc_grow_unlink(struct zc_vmm *v)
{
    struct zc_vmm *to = v->lineage->copy ? v : zc_vmm_copy_to(v);
    if (!to)
        return;
    record_left(to);
    end_copy(to);
}

/* At the end of the process, records the pending copies: they turned out not to be needed. */
static void grow_finish(void)
{
    for (struct zc_vmm *v = zc_lazy_list; v; v = v->next)
        if (v->lineage->copy)
            record_left(v);
}

const struct zc_module zc_module_grow = {.finish = grow_finish};
