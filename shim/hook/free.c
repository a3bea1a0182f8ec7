/* SPDX-License-Identifier: MIT */
/* Freeing device memory. */
#include "hook/free.h"

#include "base/life.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "hook/diagnose.h"
#include "hook/request.h"
#include "ledger/rules.h"
#include "place/fallback.h"
#include "place/freed.h"
#include "vmm/grow.h"

/* Returns an event behind everything that may use a block whose rule defers frees, or NULL if the
 * free has to wait.  A lazy block from which another one grows is kept instead. */
static CUevent mark_deferred(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    bool may = v && block->rule >= 0 && !(block->flags & ZC_BLOCK_STREAM) &&
               zc_rules()->rules[block->rule].free == ZC_FREE_DEFER &&
               (!v->lazy || zc_growth_pending(v->as_old));
    return may ? zc_stream_mark_context(v->va.context) : NULL;
}

/* How a block is freed. */
struct parting {
    CUevent mark;   /* Its memory waits for this; NULL: for nothing. */
    bool kept;      /* Another block has its memory; see zc_grow_freeing(). */
    bool waited;    /* The call has waited for the context. */
    bool diagnosed; /* The failure has been reported. */
};

/* Waits for the block's context, as cuMemFree does, or records what it would wait for.  Then hands
 * the memory to a block that grew from this one. */
static CUresult let_go(struct zc_block *block, struct parting *out)
{
    const struct zc_backing *backing = block->backing;
    CUresult result = CUDA_SUCCESS;
    out->kept = out->diagnosed = false;
    out->mark = mark_deferred(block);
    out->waited = !out->mark && !(block->flags & ZC_BLOCK_STREAM);
    if (out->waited)
        result = zc_stream_wait_context(backing->context);
    if (result == CUDA_SUCCESS) {
        result = zc_grow_freeing(block, out->mark != NULL, zc_note_free, &out->kept);
        out->diagnosed = result != CUDA_SUCCESS;
    }
    bool settled = result != CUDA_SUCCESS || out->kept || zc_vmm_lazy(block);
    if (!out->mark || !settled)
        return result;
    zc_real.cuEventDestroy_v2(out->mark);
    out->mark = NULL;
    out->waited = result == CUDA_SUCCESS && !out->kept;
    return out->waited ? zc_stream_wait_context(backing->context) : result;
}

/* Gives back memory that streams have passed.  Places that wait for the device are included only if
 * this free waited, too. */
static CUresult reap(const struct parting *p, CUresult result)
{
    if (p->waited)
        zc_freed_reap_all();
    else
        zc_freed_tidy();
    return result;
}

/* Does what the driver may refuse; then nothing has changed.  Memory stays mapped if another block,
 * the device or the next request has a use for it. */
static CUresult detach_claimed(struct zc_block *block, const struct parting *p)
{
    if (p->kept) /* It may belong to another thread's block by now. */
        return CUDA_SUCCESS;
    bool stays = block->place == ZC_PLACE_VMM && (p->mark || zc_freed_fits(block));
    return stays ? CUDA_SUCCESS : zc_place_detach(block->backing);
}

/* Not while it is moved. */
static bool claim_still(struct zc_block *block)
{
    bool mine = block->place == ZC_PLACE_VMM && zc_driver_lock();
    bool claimed = zc_block_claim(block);
    if (mine)
        zc_driver_unlock();
    return claimed;
}

static CUresult free_placed(struct zc_block *block, bool *diagnosed_out)
{
    struct zc_backing *backing = block->backing;
    struct parting p;
    *diagnosed_out = !claim_still(block);
    if (*diagnosed_out)
        return CUDA_ERROR_INVALID_VALUE;
    bool apart = zc_block_hosted(block) && zc_capture_any();
    if (apart || ((block->flags & ZC_BLOCK_STREAM) && zc_place_of(backing->place)->waits)) {
        zc_note_free(block);
        zc_freed_defer(block, NULL, NULL, NULL, ZC_LEGACY);
        return CUDA_SUCCESS;
    }
    CUresult result = let_go(block, &p);
    if (result == CUDA_SUCCESS)
        result = detach_claimed(block, &p);
    if (result != CUDA_SUCCESS) { /* Something may still use it, so it stays allocated. */
        zc_block_unclaim(block);
        *diagnosed_out = p.diagnosed;
        return result;
    }
    if (p.kept)
        return reap(&p, CUDA_SUCCESS);
    zc_note_free(block);
    if (p.mark)
        zc_freed_defer(block, p.mark, backing->context, CU_STREAM_LEGACY, ZC_LEGACY);
    if (p.mark || zc_freed_keep(block))
        return reap(&p, CUDA_SUCCESS);
    zc_block_remove(block);
    return reap(&p, zc_place_release(backing, false));
}

CUresult zc_free_at_exit(struct zc_block *block, CUresult answer)
{
    if (!zc_block_claim(block))
        return CUDA_ERROR_INVALID_VALUE;
    zc_note_free(block);
    zc_block_remove(block);
    return answer;
}

CUresult zc_free_placed(enum zc_fn fn, struct zc_block *block)
{
    CUdeviceptr address = block->base;
    bool diagnosed;
    CUresult result = free_placed(block, &diagnosed);
    diagnosed = diagnosed || result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
    return diagnosed ? result : zc_diagnose(fn, address, result);
}

/* cuMemFree of a block that libzc made.  During a capture any cuMemFree is refused; freeing NULL
 * gets the driver's code. */
static CUresult free_converted(__typeof__(cuMemFree_v2) *real, enum zc_fn fn,
                               struct zc_block *block, CUdeviceptr dptr)
{
    CUresult captured = zc_capture_any() ? real(0) : CUDA_SUCCESS;
    if (captured != CUDA_SUCCESS)
        return captured;
    if (block->base != dptr || (block->flags & ZC_BLOCK_QUARANTINED))
        return zc_stream_refusal();
    if (zc_life_closing())
        return zc_free_at_exit(block, real(0));
    return zc_free_placed(fn, block);
}

/* Host memory is not a device block: refused, unless the driver has another error to report
 * first. */
static CUresult refused_for_host(CUresult state)
{
    return state == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : state;
}

/* The driver frees pool memory.  It counts until `event`, of its context, recorded on the stream of
 * the free; with NULL nothing uses it any more. */
static void freed(const struct zc_untracked *block, CUevent event, CUcontext home)
{
    bool pooled = block->taken && (block->copy.flags & ZC_BLOCK_POOLED);
    if (pooled)
        zc_freed_defer_pool(&block->copy, event, home);
    else if (event)
        zc_real.cuEventDestroy_v2(event);
}

ZC_BODY(cuMemFree_v2, (CUdeviceptr dptr))
{
    struct zc_block *block = dptr && zc_life_on() ? zc_block_find(dptr) : NULL;
    if (block && zc_block_hosted(block))
        return refused_for_host(real(0));
    if (block && (block->flags & (ZC_BLOCK_CONVERTED | ZC_BLOCK_POOLED)) == ZC_BLOCK_CONVERTED) {
        /* Pool memory may have outlived its context. */
        bool lent = zc_context_lend(block->flags & ZC_BLOCK_STREAM ? NULL : block->context);
        CUresult result = free_converted(real, entry->fn, block, dptr);
        zc_context_leave(lent);
        return result;
    }
    struct zc_untracked untracked;
    zc_untrack_block(block && block->base == dptr ? block : NULL, &untracked);
    CUresult result = real(dptr);
    if (!zc_retrack(&untracked, result))
        freed(&untracked, NULL, NULL);
    if (result == CUDA_SUCCESS && untracked.taken && !(untracked.copy.flags & ZC_BLOCK_STREAM)) {
        zc_grown_freed(&untracked.copy);
        zc_freed_reap_all();
    }
    return result;
}

/* Frees a block once `event` has passed. */
static CUresult free_in_order(struct zc_block *block, CUevent event, CUstream stream,
                              enum zc_flavour flavour)
{
    CUresult result = claim_still(block) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        result = zc_grow_leaving(block);
        if (result != CUDA_SUCCESS)
            zc_block_unclaim(block);
    }
    if (result != CUDA_SUCCESS) {
        if (event)
            zc_real.cuEventDestroy_v2(event);
        return result;
    }
    zc_note_free(block);
    zc_freed_tidy();
    zc_freed_defer(block, event, zc_stream_context(stream, flavour), stream, flavour);
    return CUDA_SUCCESS;
}

/* The program may use the block until the stream reaches the free; after that its pages may go. */
ZC_BODY(cuMemFreeAsync, (CUdeviceptr dptr, CUstream stream))
{
    struct zc_block *block = dptr && zc_life_on() ? zc_converted_at(dptr) : NULL;
    bool pooled = block && (block->flags & ZC_BLOCK_POOLED);
    if (block && !pooled && !zc_capture_holds(stream, entry->flavour)) {
        if (block->base != dptr || (block->flags & ZC_BLOCK_QUARANTINED))
            return zc_stream_refusal();
        if (zc_life_closing())
            return zc_free_at_exit(block, real(0, stream));
        CUevent event = zc_stream_mark(stream, entry->flavour);
        /* Without a mark the call waits.  During a capture that is forbidden; then the block stays
         * allocated. */
        CUresult waited = event              ? CUDA_SUCCESS
                          : zc_capture_any() ? CUDA_ERROR_OUT_OF_MEMORY
                                             : zc_stream_drain(stream, entry->flavour);
        if (waited != CUDA_SUCCESS)
            return zc_diagnose(entry->fn, dptr, waited);
        return free_in_order(block, event, stream, entry->flavour);
    }
    if (dptr && zc_life_on() && zc_hosted_at(dptr))
        return refused_for_host(real(0, stream));
    struct zc_untracked untracked;
    zc_untrack(dptr, &untracked);
    CUresult result = real(dptr, stream);
    if (zc_retrack(&untracked, result) || !pooled)
        return result;
    if (zc_life_closing())
        freed(&untracked, NULL, NULL);
    else
        freed(&untracked, zc_stream_mark(stream, entry->flavour),
              zc_stream_context(stream, entry->flavour));
    return result;
}
