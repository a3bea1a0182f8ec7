/* SPDX-License-Identifier: MIT */
/* Prefetches of managed blocks to the place of use. */
#include "managed/hint.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "log/lines.h"

#define BATCH 16 /* Most blocks prefetched for one launch; others follow with the next. */

static ZC_LOCK(lock, ZC_RANK_HINT);
static ZC_OWN struct zc_backing *waiting; /* Blocks that a launch may want, newest first. */

static CUresult call_prefetch(CUdeviceptr base, size_t size, int device, CUstream stream,
                              enum zc_flavour flavour)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    location.id = device;
    result = ZC_FLAVOURED(flavour, cuMemPrefetchAsync_v2)(base, size, location, 0, stream);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = ZC_FLAVOURED(flavour, cuMemPrefetchAsync)(base, size, device, stream);
    return result;
}

/* True if kernels that are about to use the block want it on its device. */
static bool is_wanted(const struct zc_hinting *h)
{
    return h->pages == ZC_HINT_AWAY && (!h->chosen || h->prefetch & ZC_PREFETCH_LAUNCH);
}

static CUresult hint_before_launch(const struct zc_launch *launch);

/* Records whether a block waits for a launch; launches are watched while one does.  Under the
 * lock. */
static void set_waits(struct zc_backing *b, bool now)
{
    if (now && !b->hinting.waits)
        DL_PREPEND2(waiting, b, hint.before, hint.next);
    else if (!now && b->hinting.waits)
        DL_DELETE2(waiting, b, hint.before, hint.next);
    b->hinting.waits = now;
    zc_launch_call(ZC_LAUNCH_PREFETCH, waiting ? hint_before_launch : NULL);
}

static void set_away(struct zc_backing *b, bool away)
{
    __atomic_store_n(&b->hinting.pages, away ? ZC_HINT_AWAY : ZC_HINT_HOME, __ATOMIC_RELAXED);
}

/* A block that a launch removes from the list. */
struct taken {
    CUdeviceptr base;
    size_t size;  /* Bytes to prefetch. */
    bool chosen;  /* It was chosen before. */
    bool partial; /* Kernels may need only a part: nothing is prefetched. */
};

/* Takes the blocks to prefetch for a launch out of the list, and marks them as home, so that the
 * driver is called without the lock.  If a block's prefetch is not chosen yet and copies wrote to
 * it, kernels may need only a part of it. */
static unsigned take_waiting(int device, struct taken out[BATCH])
{
    unsigned n = 0;
    if (!zc_lock_take(&lock))
        return 0;
    for (struct zc_backing *b = waiting, *next; b && n < BATCH; b = next) {
        bool chosen = b->hinting.chosen;
        next = b->hint.next;
        if (b->device != device)
            continue;
        out[n++] = (struct taken){b->base, b->size, chosen, !chosen && b->hint.copied};
        set_away(b, false);
        b->hinting.chosen = true;
        set_waits(b, false);
    }
    zc_lock_drop(&lock);
    return n;
}

static CUresult hint_before_launch(const struct zc_launch *launch)
{
    struct taken batch[BATCH];
    CUdevice device;
    if (!launch->kernels || zc_capture_any() || zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    unsigned n = take_waiting(device, batch);
    for (unsigned i = 0; i < n; i++) {
        const struct taken *t = &batch[i];
        if (t->partial)
            zc_log_hint(zc_block_find(t->base), "none", "copies filled less than half of it");
        else if (!t->chosen)
            zc_log_hint(zc_block_find(t->base), "launch", "a kernel is the first to use it");
        if (!t->partial)
            call_prefetch(t->base, t->size, device, launch->stream, launch->flavour);
    }
    return CUDA_SUCCESS;
}

/* True if the pages of a copy should be prefetched first.  Without a hint in the rule that is done
 * for blocks that copies fill by half or more.  Under the lock. */
static bool send_first(struct zc_backing *b, uint64_t bytes, bool *chosen)
{
    struct zc_hinting *h = &b->hinting;
    if (h->pages != ZC_HINT_AWAY)
        return false;
    b->hint.copied += bytes;
    *chosen = !h->chosen && b->hint.copied >= b->size / 2;
    if (*chosen) {
        h->chosen = true;
        h->prefetch = ZC_PREFETCH_COPY;
    }
    if (!(h->prefetch & ZC_PREFETCH_COPY))
        return false;
    set_away(b, b->hint.copied < b->size);
    return true;
}

void zc_hint_copy(const struct zc_copy *c)
{
    const struct zc_block *block = c->dst.block;
    bool chosen = false;
    if (!block || block->place != ZC_PLACE_MANAGED || !(block->flags & ZC_BLOCK_CONVERTED) ||
        c->shape == ZC_SHAPE_PREFETCH || zc_capture_any() || !zc_lock_take(&lock))
        return;
    struct zc_backing *b = block->backing;
    bool send = send_first(b, c->bytes, &chosen);
    int device = b->device;
    if (send)
        set_waits(b, is_wanted(&b->hinting));
    zc_lock_drop(&lock);
    if (!send)
        return;
    if (chosen)
        zc_log_hint(block, "copy", "copies fill half of it or more");
    call_prefetch(c->dst.address, c->dst.span, device, c->stream, c->flavour);
}

void zc_hint_make(const struct zc_want *want, struct zc_backing *b)
{
    bool away = true;
    if (want->rule->prefetch & ZC_PREFETCH_ALLOC)
        away = call_prefetch(b->base, want->size, want->device,
                             want->stream_ordered ? want->stream : CU_STREAM_LEGACY,
                             want->flavour) != CUDA_SUCCESS;
    if (!zc_lock_take(&lock))
        return;
    b->hinting =
        (struct zc_hinting){.prefetch = want->rule->prefetch & 0xf,
                            .chosen = (want->rule->given & ZC_KEY_BIT(ZC_KEY_PREFETCH)) != 0,
                            .pages = away ? ZC_HINT_AWAY : ZC_HINT_HOME};
    set_waits(b, is_wanted(&b->hinting));
    zc_lock_drop(&lock);
}

void zc_hint_unmake(struct zc_backing *b)
{
    if (b->hinting.pages == ZC_HINT_NONE || !zc_lock_take(&lock))
        return;
    set_waits(b, false);
    __atomic_store_n(&b->hinting.pages, ZC_HINT_NONE, __ATOMIC_RELAXED);
    zc_lock_drop(&lock);
}
