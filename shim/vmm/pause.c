/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` whose device memory the program has given back for a while (zc.h). */
#include "vmm/pause.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "memory/budget.h"
#include "memory/limits.h"
#include "vmm/grow.h"
#include "vmm/lazy.h"

/* A call of zc_pause() or zc_resume(). */
struct call {
    const char *name;  /* As the log calls it. */
    const char *range; /* NULL for all blocks. */
    uint64_t number;   /* Of the range. */
    bool resumes, keep;
    struct item {
        struct zc_block *block;
        CUcontext context;
    } * item; /* The blocks that it means, from the arena. */
    unsigned count, room;
    unsigned others; /* Blocks of the range with which there is nothing to do. */
    /* Its effect. */
    uint64_t blocks, bytes, kept; /* Bytes of device memory, and of what was kept. */
    uint64_t left;                /* Blocks that are as before. */
    CUresult result;              /* The first code, */
    const char *why;              /* and its reason. */
};

static void failed(struct call *c, CUresult result, const char *why)
{
    c->left++;
    if (c->result == CUDA_SUCCESS) {
        c->result = result;
        c->why = why;
    }
}

static bool is_meant(const struct call *c, const struct zc_block *block, const struct zc_vmm *v)
{
    bool in = !c->range;
    for (unsigned i = 0; i < v->ranges && !in; i++)
        in = v->range[i] == c->number;
    return in && !(block->flags & ZC_BLOCK_QUARANTINED) &&
           __atomic_load_n(&block->state, __ATOMIC_ACQUIRE) == ZC_BLOCK_LIVE;
}

static bool gather(struct zc_block *block, void *arg)
{
    struct call *c = arg;
    const struct zc_vmm *v = block->place == ZC_PLACE_VMM ? zc_vmm_of(block) : NULL;
    if (!v || !is_meant(c, block, v))
        return true;
    if (zc_block_paused(block) != c->resumes) {
        c->others++;
        return true;
    }
    bool room = zc_arena_extend(&c->item, &c->room, c->count, sizeof(*c->item), 64);
    if (room)
        c->item[c->count++] = (struct item){block, v->va.context};
    else
        failed(c, CUDA_ERROR_OUT_OF_MEMORY, "libzc has no memory for the list of them");
    return room;
}

/* The blocks stay while the driver lock is held: who frees one claims it with that lock. */
static void find(struct call *c)
{
    c->count = c->others = 0;
    zc_block_each(gather, c);
}

/* With the driver lock this could wait for a thread that wants it.  If a context is gone, so is its
 * work. */
static CUresult wait_for_contexts(struct call *c)
{
    CUresult result = CUDA_SUCCESS;
    find(c);
    for (unsigned i = 0; i < c->count && result == CUDA_SUCCESS; i++) {
        if (i && c->item[i].context == c->item[i - 1].context)
            continue;
        result = zc_stream_wait_context(c->item[i].context);
        if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
            result = CUDA_SUCCESS;
    }
    return result;
}

/* Copies what is on the device to the stash of a block, or back.  With `out` the stash is made
 * first. */
static CUresult copy_stash(const struct zc_block *block, struct zc_stash *stash, size_t bytes,
                           bool out, const char **why)
{
    bool entered;
    *why = "its context does not answer";
    CUresult result = zc_context_enter(zc_vmm_of(block)->va.context, &entered);
    if (result != CUDA_SUCCESS)
        return result;
    if (out)
        result = zc_stash_make(stash, bytes, why);
    enum zc_kind host = stash->pinned ? ZC_KIND_PINNED : ZC_KIND_PAGEABLE;
    if (result == CUDA_SUCCESS) {
        *why = "the driver refuses the copy";
        result = out ? zc_real.cuMemcpyDtoH_v2(stash->pages, block->base, bytes)
                     : zc_real.cuMemcpyHtoD_v2(block->base, stash->pages, bytes);
    }
    if (result == CUDA_SUCCESS)
        result = zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    if (result == CUDA_SUCCESS)
        zc_traffic_own(out ? zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, host)
                           : zc_flow(ZC_DIR_HTOD, host, ZC_KIND_DEVICE),
                       bytes);
    zc_context_leave(entered);
    return result;
}

/* Chunks that no call has touched yet may be mapped nowhere. */
static CUresult keep_content(const struct zc_block *block, struct zc_paused *p, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    size_t held = zc_vmm_guard(v) + zc_vmm_on_device(v) - (block->base - v->va.base);
    size_t asked = block->size - zc_block_spilled(block);
    CUresult result = zc_va_map(&v->va, &v->chunks, 0, v->held, why);
    return result == CUDA_SUCCESS
               ? copy_stash(block, &p->stash, held < asked ? held : asked, true, why)
               : result;
}

/* Gives its share of the limits back, too, so that a free gives back nothing. */
static void stop_counting(struct zc_block *block, struct zc_paused *p)
{
    struct zc_backing *backing = block->backing;
    zc_limits_give(ZC_PLACE_VMM, backing->device, block->size - zc_block_spilled(block));
    zc_budget_return(block);
    p->budget = block->flags & ZC_BLOCK_BUDGET;
    __atomic_fetch_and(&block->flags, (uint16_t)~ZC_BLOCK_BUDGET, __ATOMIC_RELAXED);
    backing->size = backing->spilled;
}

static bool start_counting(struct zc_block *block, const struct zc_paused *p, const char **why)
{
    struct zc_backing *backing = block->backing;
    int device = backing->device;
    size_t bytes = block->size - zc_block_spilled(block);
    if (!zc_limits_take(ZC_PLACE_VMM, device, bytes, why) &&
        (!zc_modules_reclaim(ZC_PLACE_VMM) || !zc_limits_take(ZC_PLACE_VMM, device, bytes, why)))
        return false;
    *why = "over its budget";
    if (p->budget && !zc_budget_take(&zc_rules()->rules[block->rule], device, bytes)) {
        zc_limits_give(ZC_PLACE_VMM, device, bytes);
        return false;
    }
    __atomic_fetch_or(&block->flags, p->budget ? ZC_BLOCK_BUDGET : 0, __ATOMIC_RELAXED);
    backing->size = block->size;
    return true;
}

static void mark(struct zc_block *block, bool paused)
{
    if (paused)
        __atomic_fetch_or(&block->flags, ZC_BLOCK_PAUSED, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&block->flags, (uint16_t)~ZC_BLOCK_PAUSED, __ATOMIC_RELEASE);
}

/* Unmaps a block, once nothing else uses its memory. */
static CUresult detach(struct zc_block *block, struct zc_paused *p, bool keep, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    *why = "the program has exported its memory";
    CUresult result = v->exported ? CUDA_ERROR_NOT_PERMITTED : zc_grow_isolate(v, why);
    if (result == CUDA_SUCCESS && keep)
        result = keep_content(block, p, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "cuMemUnmap refuses";
    mark(block, true);
    result = zc_vmm_detach(v);
    if (result != CUDA_SUCCESS)
        mark(block, false);
    return result;
}

static void drop_paused(struct zc_paused *p)
{
    if (p)
        zc_stash_unmake(&p->stash);
    zc_arena_put(p, sizeof(*p));
}

/* A block that has no memory yet has nothing to give back, and gets some when it is used. */
static void pause_block(struct call *c, struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    if (!zc_vmm_on_device(v))
        return;
    const char *why = "libzc has no memory for its record";
    struct zc_paused *p = zc_arena_get(sizeof(*p));
    CUresult result = p ? detach(block, p, c->keep, &why) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        failed(c, result, why);
        drop_paused(p);
        return;
    }
    strncpy(p->range, c->range ? c->range : "", sizeof(p->range) - 1);
    v->paused = p;
    if (v->lazy)
        zc_lazy_suspend(v);
    stop_counting(block, p);
    c->bytes += zc_vmm_empty(v);
    c->kept += p->stash.bytes;
    c->blocks++;
}

static CUresult refill(struct zc_block *block, struct zc_paused *p, const char **why)
{
    struct zc_vmm *v = zc_vmm_of(block);
    *why = "cuMemCreate refuses";
    CUresult result = zc_vmm_refill(v);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_va_map(&v->va, &v->chunks, 0, v->held, why);
    if (result == CUDA_SUCCESS && p->stash.pages)
        result = copy_stash(block, &p->stash, p->stash.bytes, false, why);
    if (result != CUDA_SUCCESS && zc_va_unmap(&v->va) == CUDA_SUCCESS)
        zc_vmm_empty(v);
    return result;
}

static void resume_block(struct call *c, struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    struct zc_paused *p = v->paused;
    const char *why;
    bool counts = start_counting(block, p, &why);
    CUresult result = counts ? refill(block, p, &why) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        if (counts)
            stop_counting(block, p);
        failed(c, result, why);
        return;
    }
    c->kept += p->stash.bytes;
    c->bytes += zc_vmm_on_device(v);
    c->blocks++;
    v->paused = NULL;
    mark(block, false);
    drop_paused(p);
    if (v->lazy)
        zc_lazy_update(v);
}

static void tell(const struct call *c)
{
    const char *range = c->range ? c->range : "*";
    if (c->result != CUDA_SUCCESS)
        zc_message(ZC_ERROR, "pause",
                   "zc_%s of range %s leaves %U of its blocks as they are: %s (code %u)", c->name,
                   range, c->left, c->why, (unsigned)c->result);
    else if (!c->resumes && !c->count && !c->others && zc_message_first("pause"))
        zc_message(ZC_WARN, "pause",
                   "zc_%s of range %s finds no block: only blocks in 'vmm' can be paused, which a "
                   "rule with 'place = vmm' makes of what is requested in the range",
                   c->name, range);
}

static void carry_out(struct call *c)
{
    uint64_t start = zc_ticks();
    c->number = c->range ? zc_ranges_number(c->range) : 0;
    CUresult ready = c->resumes ? CUDA_SUCCESS : wait_for_contexts(c);
    if (ready != CUDA_SUCCESS) {
        failed(c, ready, "its context does not answer");
    } else if (!zc_driver_lock()) {
        failed(c, CUDA_ERROR_NOT_PERMITTED, "it is called from a signal handler");
    } else {
        find(c);
        for (unsigned i = 0; i < c->count; i++)
            (c->resumes ? resume_block : pause_block)(c, c->item[i].block);
        zc_driver_unlock();
    }
    zc_log_pause(c->name, c->range, c->blocks, c->bytes, c->kept, zc_ticks() - start);
    tell(c);
    zc_arena_put(c->item, c->room * sizeof(*c->item));
}

static CUresult run_call(struct call *c)
{
    if (!zc_life_on() || zc_life_closing())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!zc_capture_any()) {
        carry_out(c);
        return c->result;
    }
    zc_message(ZC_ERROR, "pause", "zc_%s does nothing while a stream is being captured", c->name);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

size_t zc_pause_blocks(const char *range, bool keep)
{
    struct call c = {.name = "pause", .range = range, .keep = keep};
    run_call(&c);
    return c.bytes;
}

CUresult zc_pause_end(const char *range)
{
    struct call c = {.name = "resume", .range = range, .resumes = true};
    return run_call(&c);
}

bool zc_pause_claim(struct zc_block *block)
{
    bool mine = block->place == ZC_PLACE_VMM && zc_driver_lock();
    bool claimed = zc_block_claim(block);
    if (mine)
        zc_driver_unlock();
    return claimed;
}

void zc_pause_range(const struct zc_block *block, char range[ZC_RANGE_NAME])
{
    bool mine = zc_driver_lock();
    const struct zc_vmm *v = mine ? zc_vmm_of(block) : NULL;
    *range = '\0';
    if (v && v->paused)
        memcpy(range, v->paused->range, ZC_RANGE_NAME);
    if (mine)
        zc_driver_unlock();
}
