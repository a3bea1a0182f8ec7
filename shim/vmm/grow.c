/* SPDX-License-Identifier: MIT */
/* Turns the copies of growing arrays into remaps. */
#include "vmm/grow.h"

#include <string.h>

#include "base/life.h"
#include "base/list.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "memory/limits.h"
#include "vmm/lazy.h"

static ZC_OWN struct {
    struct zc_growth *pending; /* Pending copies. */
    bool drained;              /* No copy is pending, and none will be.  Atomic. */
} grow;

static CUresult grow_before_launch(const struct zc_launch *launch);

/* Records a pending copy, which has been made or is not needed any more.  The ledger may have
 * forgotten one of its sides. */
static void end_copy(struct zc_growth *g, enum zc_outcome outcome)
{
    struct zc_transfer *t = &g->transfer;
    struct zc_vmm *old = g->old, *new = g->new;
    t->outcome = outcome;
    if (zc_block_find(new->va.base) != t->dst)
        t->dst = NULL;
    if (zc_block_find(old->va.base) != t->src)
        t->src = NULL;
    zc_traffic_record(t);
    if (zc_log_level() >= ZC_LOG_EVENTS)
        zc_log_transfer(t, &g->call);
    DL_DELETE2(grow.pending, g, before, next);
    zc_launch_call(ZC_LAUNCH_GROW, grow.pending ? grow_before_launch : NULL);
    zc_growth_end(g);
    zc_lazy_update(old);
    zc_lazy_update(new);
}

/* Nobody will read what the pending copy would bring. */
static void elide(struct zc_growth *g)
{
    if (zc_growth_pending(g))
        end_copy(g, ZC_ELIDED);
}

/* Makes a copy if it is pending, and waits for it: events that the program recorded behind its own
 * copy do not cover this one.  After a failure the copy is still pending. */
static CUresult grow_copy_now(struct zc_growth *g, const char **why)
{
    bool pushed;
    if (!zc_growth_pending(g))
        return CUDA_SUCCESS;
    struct zc_vmm *old = g->old, *new = g->new;
    size_t bytes = g->transfer.bytes;
    CUresult result = CUDA_SUCCESS;
    if (!zc_vmm_whole(new))
        result = zc_lazy_attach(new, 0, new->span, why);
    if (result == CUDA_SUCCESS && !zc_va_holds(&old->va, 0, bytes))
        result = zc_lazy_attach(old, 0, bytes, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver refuses the copy";
    result = zc_context_push(new->va.context, &pushed);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuMemcpyDtoDAsync_v2(new->va.base, old->va.base, bytes, CU_STREAM_LEGACY)
                 ?: zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    zc_context_pop(pushed);
    if (result == CUDA_SUCCESS)
        end_copy(g, ZC_MOVED);
    return result;
}

static CUresult copy_all(enum zc_fn fn)
{
    CUresult result = CUDA_SUCCESS;
    const char *why = "";
    for (struct zc_growth *g = grow.pending, *next; g && result == CUDA_SUCCESS; g = next) {
        struct zc_vmm *new = g->new;
        next = g->next;
        result = zc_leaving(new->va.context) ? CUDA_SUCCESS : grow_copy_now(g, &why);
        if (result != CUDA_SUCCESS)
            zc_lazy_diagnose(new, fn, result, why);
    }
    return result;
}

/* A launch can touch every block. */
static CUresult grow_before_launch(const struct zc_launch *launch)
{
    ZC_DRIVER_HELD mine = !zc_await_host(launch->fn) && zc_driver_lock();
    return mine ? copy_all(launch->fn) : CUDA_SUCCESS;
}

/* True if the copy is in order behind all other work.  The legacy stream orders it behind
 * everything in its context except streams that are independent of it; where there are such,
 * nothing may be running.  Work that is not ordered before the copy could change the source after
 * it.  Work of another context is ordered only before copies of that context. */
static bool in_order(const struct zc_copy *c, CUcontext context)
{
    bool legacy = c->stream == CU_STREAM_LEGACY || (!c->stream && c->flavour == ZC_LEGACY);
    return zc_stream_context(c->stream, c->flavour) == context &&
           (zc_stream_covered() ? legacy || zc_stream_idle(CU_STREAM_LEGACY, ZC_LEGACY)
                                : zc_stream_come_to_rest());
}

static bool pends(const struct zc_vmm *v)
{
    return zc_growth_pending(v->as_new) || zc_growth_pending(v->as_old);
}

/* True if the bytes [from, to) of a block are mapped, and no other block's there. */
static bool has_mapped(const struct zc_vmm *v, size_t from, size_t to)
{
    return !(v->as_new && v->as_new->mapped) && zc_va_holds(&v->va, from, to);
}

/* True for a copy of one whole block into the beginning of a larger one that is still empty. */
static bool grows(const struct zc_copy *c, const struct zc_vmm *to, const struct zc_vmm *from)
{
    if (!to || !from || to == from || !to->grows || !from->grows || zc_copy_peers(c))
        return false;
    if (zc_await_any() || pends(to) || pends(from))
        return false;
    bool empty = !to->held, full = from->held >= from->span;
    bool room = to->span >= zc_vmm_own(from) && to->va.size >= from->held;
    bool alike = to->va.device == from->va.device && to->va.context == from->va.context &&
                 to->rdma == from->rdma;
    return zc_grown_whole(c) && empty && full && room && alike && !zc_capture_any() &&
           in_order(c, to->va.context);
}

/* Does nothing during a capture: nothing may be waited for then, and nothing runs before the graph
 * is launched, by another call. */
CUresult zc_grow_drain(enum zc_fn fn)
{
    if (__atomic_load_n(&grow.drained, __ATOMIC_ACQUIRE) || !zc_life_on() || zc_life_closing() ||
        !zc_driver_lock())
        return CUDA_SUCCESS;
    zc_await_note();
    CUresult result = CUDA_SUCCESS;
    if (!zc_capture_any()) {
        result = copy_all(fn);
        __atomic_store_n(&grow.drained, result == CUDA_SUCCESS, __ATOMIC_RELEASE);
    }
    zc_driver_unlock();
    return result;
}

/* False where libzc has no memory for it, or the driver refuses: then the copy is made. */
static bool leave_pending(struct zc_copy *c, struct zc_vmm *to, struct zc_vmm *from)
{
    struct zc_growth *g = zc_growth_begin(to, from);
    if (!g)
        return false;
    g->transfer = zc_copy_transfer(c);
    g->call = zc_copy_call(c);
    if (g->call.range)
        g->call.range = strncpy(g->range, g->call.range, sizeof(g->range) - 1);
    g->pending = true;
    DL_APPEND2(grow.pending, g, before, next);
    zc_launch_call(ZC_LAUNCH_GROW, grow_before_launch);
    zc_lazy_update(from);
    zc_lazy_update(to);
    return true;
}

/* Makes the bytes [from, to) of a block usable, with `written` for a call that may write them. */
static CUresult grow_make_ready(struct zc_vmm *v, size_t from, size_t to, bool written,
                                enum zc_fn fn)
{
    const char *why = "";
    CUresult result = written ? grow_copy_now(v->as_old, &why) : CUDA_SUCCESS;
    result = result ?: grow_copy_now(v->as_new, &why);
    if (result == CUDA_SUCCESS && !has_mapped(v, from, to))
        result = zc_lazy_attach(v, from, to, &why);
    /* Existing data stays reachable even if no more memory is to be had. */
    if (result == CUDA_SUCCESS || (!pends(v) && has_mapped(v, from, to)))
        return CUDA_SUCCESS;
    return zc_lazy_diagnose(v, fn, result, why);
}

static CUresult side_ready(const struct zc_operand *b, struct zc_vmm *v, bool written,
                           enum zc_fn fn)
{
    size_t from = v ? b->address - v->va.base : 0;
    return zc_lazy_pending(v) ? grow_make_ready(v, from, from + b->span, written, fn)
                              : CUDA_SUCCESS;
}

static struct zc_vmm *lazy_block(const struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    return v && v->lazy ? v : NULL;
}

uint32_t zc_grow_facts(struct zc_copy *c)
{
    struct zc_vmm *to = lazy_block(c->dst.block), *from = lazy_block(c->src.block);
    CUresult result = CUDA_SUCCESS;
    if ((!zc_lazy_pending(to) && !zc_lazy_pending(from)) || !zc_driver_lock())
        return 0;
    bool pending = grows(c, to, from) && leave_pending(c, to, from);
    if (!pending)
        result = side_ready(&c->dst, to, true, c->fn);
    if (!pending && result == CUDA_SUCCESS)
        result = side_ready(&c->src, from, false, c->fn);
    zc_driver_unlock();
    c->result = result;
    c->answered = result != CUDA_SUCCESS;
    return ZC_FACT_IF(FAILED, c->answered) | ZC_FACT_IF(PENDING, pending);
}

CUresult zc_grow_materialize(const struct zc_block *block, enum zc_fn fn)
{
    struct zc_vmm *v = zc_vmm_of(block);
    ZC_DRIVER_HELD mine = zc_lazy_pending(v) && !zc_life_closing() && zc_driver_lock();
    return mine ? grow_make_ready(v, 0, v->span, true, fn) : CUDA_SUCCESS;
}

/*
 * Hands the physical memory of the small block to the large one, which maps it when it is first
 * needed.  The small block's addresses stay mapped, for the block that will grow from the large
 * one.  If the large block already got memory of its own for a copy that failed, the copy is made
 * again.  The call has waited for the context: bytes that the copy left out belong to the large
 * block at once.
 */
static CUresult hand_over(struct zc_growth *g, struct zc_block *block, bool *kept, const char **why)
{
    struct zc_vmm *old = g->old, *new = g->new;
    size_t due = zc_vmm_due(new);
    if (new->held)
        return grow_copy_now(g, why);
    zc_growth_inherit(g, block);
    end_copy(g, ZC_ELIDED);
    zc_lazy_suspend(old);
    zc_lazy_keep_promise(new, due - zc_vmm_due(new));
    *kept = true;
    return CUDA_SUCCESS;
}

CUresult zc_grow_freeing(struct zc_block *block, void (*freed)(struct zc_block *block),
                         bool *kept_out)
{
    struct zc_vmm *v = lazy_block(block);
    const char *why = "";
    CUresult result = CUDA_SUCCESS;
    *kept_out = false;
    if (!v || !zc_driver_lock())
        return CUDA_SUCCESS;
    elide(v->as_new);
    if (zc_growth_pending(v->as_old))
        result = hand_over(v->as_old, block, kept_out, &why);
    if (result != CUDA_SUCCESS)
        zc_lazy_diagnose(v, ZC_FN_cuMemFree_v2, result, why);
    if (*kept_out) {
        freed(block);
        zc_block_quarantine(block);
        zc_limits_give(ZC_PLACE_VMM, v->va.device, block->size);
    }
    zc_driver_unlock();
    return result;
}

CUresult zc_grow_leaving(struct zc_block *block)
{
    struct zc_vmm *v = lazy_block(block);
    const char *why = "";
    if (!v || !zc_driver_lock())
        return CUDA_SUCCESS;
    elide(v->as_new);
    CUresult result = grow_copy_now(v->as_old, &why);
    if (result == CUDA_SUCCESS) {
        zc_lazy_forget(v);
        v->lazy = false;
    } else {
        zc_lazy_diagnose(v, ZC_FN_cuMemFreeAsync, result, why);
    }
    zc_driver_unlock();
    return result;
}

/* Until its memory is given back nobody else can reach the block: it has left the ledger. */
void zc_grow_forget(struct zc_vmm *v)
{
    ZC_DRIVER_HELD mine = zc_driver_lock();
    elide(v->as_new);
    elide(v->as_old);
    zc_lazy_forget(v);
}

/* At the end of the process the pending copies turn out not to be needed. */
static void grow_finish(void)
{
    while (grow.pending)
        end_copy(grow.pending, ZC_ELIDED);
}

const struct zc_module zc_module_grow = {.finish = grow_finish};
