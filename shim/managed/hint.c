/* SPDX-License-Identifier: MIT */
/* Prefetches of managed blocks to the place of use.  What the driver refuses changes no result. */
#include "managed/hint.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/launch.h"

#define BATCH 16 /* Most blocks prefetched for one launch; others follow with the next. */

static ZC_LOCK(lock, ZC_RANK_HINT);
static ZC_OWN struct zc_backing *waiting; /* Those with ZC_HINT_WAITS, newest first. */

static void call_prefetch(CUdeviceptr base, size_t size, int device, CUstream stream,
                          enum zc_flavour flavour)
{
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    location.id = device;
    if (ZC_FLAVOURED(flavour, cuMemPrefetchAsync_v2)(base, size, location, 0, stream) ==
        CUDA_ERROR_NOT_SUPPORTED)
        ZC_FLAVOURED(flavour, cuMemPrefetchAsync)(base, size, device, stream);
}

static CUresult hint_before_launch(const struct zc_launch *launch);

/* Launches are watched while a block waits for one.  Under the lock. */
static void hint_set_state(struct zc_backing *b, enum zc_hint_state state)
{
    if (b->hint_state == ZC_HINT_WAITS)
        DL_DELETE2(waiting, b, hint.before, hint.next);
    if (state == ZC_HINT_WAITS)
        DL_PREPEND2(waiting, b, hint.before, hint.next);
    __atomic_store_n(&b->hint_state, state, __ATOMIC_RELAXED);
    zc_launch_call(ZC_LAUNCH_PREFETCH, waiting ? hint_before_launch : NULL);
}

struct range {
    CUdeviceptr base;
    size_t size;
};

/* Takes the blocks to prefetch for a launch out of the list, so that the driver is called without
 * the lock.  Of one that copies wrote to kernels may need only a part: that is left to them. */
static unsigned take_waiting(int device, struct range out[BATCH])
{
    unsigned n = 0;
    ZC_LOCK_HELD(mine, &lock);
    for (struct zc_backing *b = mine ? waiting : NULL, *next; b && n < BATCH; b = next) {
        next = b->hint.next;
        if (b->device != device)
            continue;
        if (!b->hint.copied)
            out[n++] = (struct range){b->base, b->size};
        hint_set_state(b, ZC_HINT_NONE);
    }
    return n;
}

static CUresult hint_before_launch(const struct zc_launch *launch)
{
    struct range batch[BATCH];
    CUdevice device;
    if (!launch->kernels || zc_capture_any() || zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    unsigned n = take_waiting(device, batch);
    for (unsigned i = 0; i < n; i++)
        call_prefetch(batch[i].base, batch[i].size, device, launch->stream, launch->flavour);
    return CUDA_SUCCESS;
}

/* True if the pages of a copy should be prefetched first.  Under the lock. */
static bool send_first(struct zc_backing *b, uint64_t bytes)
{
    if (b->hint_state == ZC_HINT_NONE)
        return false;
    b->hint.copied += bytes;
    if (b->hint_state == ZC_HINT_WAITS && b->hint.copied < b->size / 2)
        return false;
    hint_set_state(b, b->hint.copied < b->size ? ZC_HINT_COPIES : ZC_HINT_NONE);
    return true;
}

void zc_hint_copy(const struct zc_copy *c)
{
    const struct zc_block *block = c->dst.block;
    if (!block || block->place != ZC_PLACE_MANAGED || !(block->flags & ZC_BLOCK_CONVERTED) ||
        c->shape == ZC_SHAPE_PREFETCH || zc_capture_any() || !zc_lock_take(&lock))
        return;
    struct zc_backing *b = block->backing;
    bool send = send_first(b, c->bytes);
    int device = b->device;
    zc_lock_drop(&lock);
    if (send)
        call_prefetch(c->dst.address, c->dst.span, device, c->stream, c->flavour);
}

void zc_hint_make(const struct zc_want *want, struct zc_backing *b)
{
    if (want->rule->prefetch == ZC_PREFETCH_NONE || !zc_lock_take(&lock))
        return;
    hint_set_state(b, ZC_HINT_WAITS);
    zc_lock_drop(&lock);
}

void zc_hint_unmake(struct zc_backing *b)
{
    if (__atomic_load_n(&b->hint_state, __ATOMIC_RELAXED) == ZC_HINT_NONE || !zc_lock_take(&lock))
        return;
    hint_set_state(b, ZC_HINT_NONE);
    zc_lock_drop(&lock);
}
