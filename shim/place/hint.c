/* Hints for managed blocks: advice, and prefetches to where pages will be used. */
#include "place/hint.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "catch/capture.h"
#include "catch/launch.h"
#include "log/log.h"

#define BATCH 16 /* Blocks prefetched for one launch; further ones go with the next launch. */

static struct zc_lock lock = ZC_LOCK(ZC_RANK_CATCH);
static struct zc_hinted *waiting; /* Blocks that a launch may want, the newest first. */

/* Only advice about a NUMA node needs the newer call: what it names beside that has a number in the
 * older one (CUDA Driver API, cuMemAdvise). */
static CUresult advise(CUdeviceptr base, size_t size, CUmem_advise advice, enum zc_where where,
                       int id)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
#if CUDA_VERSION >= 12020
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    location.id = id;
    if (where == ZC_WHERE_HOST)
        location.type = CU_MEM_LOCATION_TYPE_HOST;
    else if (where == ZC_WHERE_NUMA)
        location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    result = zc_real.cuMemAdvise_v2(base, size, advice, location);
#endif
    if (result != CUDA_ERROR_NOT_SUPPORTED || where == ZC_WHERE_NUMA)
        return result;
    return zc_real.cuMemAdvise(base, size, advice, where == ZC_WHERE_HOST ? CU_DEVICE_CPU : id);
}

static CUresult prefetch(CUdeviceptr base, size_t size, int device, CUstream stream,
                         enum zc_flavour flavour)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
#if CUDA_VERSION >= 12020
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    location.id = device;
    result = ZC_FLAVOURED(flavour, cuMemPrefetchAsync_v2)(base, size, location, 0, stream);
#endif
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = ZC_FLAVOURED(flavour, cuMemPrefetchAsync)(base, size, device, stream);
    return result;
}

static void give_advice(const struct zc_want *want, CUdeviceptr base)
{
    static const CUmem_advise names[] = {
        [ZC_ADVICE_READ_MOSTLY] = CU_MEM_ADVISE_SET_READ_MOSTLY,
        [ZC_ADVICE_PREFERRED] = CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
        [ZC_ADVICE_ACCESSED_BY] = CU_MEM_ADVISE_SET_ACCESSED_BY,
    };
    const struct zc_advice_list *list = &want->rule->advise;
    for (unsigned i = 0; i < list->count; i++) {
        const struct zc_advice *a = &list->item[i];
        enum zc_where where = a->kind == ZC_ADVICE_READ_MOSTLY ? ZC_WHERE_DEVICE : a->where;
        int id = where == ZC_WHERE_DEVICE ? want->device
                 : where == ZC_WHERE_NUMA ? (int)a->numa
                                          : 0;
        advise(base, want->size, names[a->kind], where, id);
    }
}

/* Says what was chosen for a block whose rule names no hint. */
static void choose(struct zc_hinted *h, unsigned what, const char *why)
{
    h->chosen = true;
    h->prefetch = what;
    zc_log_hint(zc_block_find(h->base),
                what & ZC_PREFETCH_COPY     ? "copy"
                : what & ZC_PREFETCH_LAUNCH ? "launch"
                                            : "none",
                why);
}

/* Whether kernels that are about to use the block want it on its device. */
static bool wanted(const struct zc_hinted *h)
{
    return h->away && (!h->chosen || h->prefetch & ZC_PREFETCH_LAUNCH);
}

static CUresult before_launch(const struct zc_launch *launch);

/* Notes whether a block waits for a launch; launches are watched while any does.  Under the lock.
 */
static void set_waits(struct zc_hinted *h, bool now)
{
    if (now && !h->waits)
        DL_PREPEND2(waiting, h, before, next);
    else if (!now && h->waits)
        DL_DELETE2(waiting, h, before, next);
    h->waits = now;
    zc_launch_call(ZC_LAUNCH_PREFETCH, waiting ? before_launch : NULL);
}

/* Takes the blocks to prefetch for a launch, which are away no more, so that the driver is
 * called without the lock.  Of a block that is still to be chosen for and that copies wrote to,
 * kernels may need a part only: its size is 0 in the result. */
static unsigned take(int device, struct zc_hinted out[BATCH])
{
    unsigned n = 0;
    if (!zc_lock_take(&lock))
        return 0;
    for (struct zc_hinted *h = waiting, *next; h && n < BATCH; h = next) {
        next = h->next;
        if (h->device != device)
            continue;
        out[n++] = *h;
        h->away = false;
        if (!h->chosen && h->copied)
            out[n - 1].size = 0;
        h->chosen = true;
        set_waits(h, false);
    }
    zc_lock_drop(&lock);
    return n;
}

static CUresult before_launch(const struct zc_launch *launch)
{
    struct zc_hinted batch[BATCH];
    CUdevice device;
    if (!launch->kernels || zc_capture_any() || zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    unsigned n = take(device, batch);
    for (unsigned i = 0; i < n; i++) {
        struct zc_hinted *h = &batch[i];
        if (!h->chosen && h->size)
            choose(h, ZC_PREFETCH_LAUNCH, "a kernel is the first to use it");
        else if (!h->chosen)
            choose(h, 0, "copies filled less than half of it");
        if (h->size)
            prefetch(h->base, h->size, device, launch->stream, launch->flavour);
    }
    return CUDA_SUCCESS;
}

/* Whether the bytes of a copy are to be sent first.  A rule without hints gets that for a block
 * that copies fill by half or more.  Under the lock. */
static bool send_first(struct zc_hinted *h, uint64_t bytes, bool *chosen)
{
    if (!h || !h->away)
        return false;
    h->copied += bytes;
    *chosen = !h->chosen && h->copied >= h->size / 2;
    if (*chosen) {
        h->chosen = true;
        h->prefetch = ZC_PREFETCH_COPY;
    }
    if (!(h->prefetch & ZC_PREFETCH_COPY))
        return false;
    h->away = h->copied < h->size;
    return true;
}

void zc_hint_copy(const struct zc_copy *c)
{
    const struct zc_block *b = c->dst.block;
    bool chosen = false;
    if (!b || b->place != ZC_PLACE_MANAGED || !(b->flags & ZC_BLOCK_CONVERTED) || c->prefetch ||
        zc_capture_any() || !zc_lock_take(&lock))
        return;
    struct zc_hinted *h = ((const struct zc_backing *)b->backing)->hinted;
    bool send = send_first(h, c->bytes, &chosen);
    struct zc_hinted copy;
    if (send) {
        copy = *h;
        set_waits(h, wanted(h));
    }
    zc_lock_drop(&lock);
    if (!send)
        return;
    if (chosen)
        choose(&copy, ZC_PREFETCH_COPY, "copies fill half of it or more");
    prefetch(c->dst.address, c->dst.span, copy.device, c->stream, c->flavour);
}

struct zc_hinted *zc_hint_make(const struct zc_want *want, CUdeviceptr base)
{
    const uint64_t keys = ZC_KEY_BIT(ZC_KEY_PREFETCH) | ZC_KEY_BIT(ZC_KEY_ADVISE);
    give_advice(want, base);
    struct zc_hinted *h = zc_arena_get(sizeof(*h));
    if (!h)
        return NULL;
    h->base = base;
    h->size = want->size;
    h->device = want->device;
    h->chosen = want->rule->given & keys;
    h->prefetch = want->rule->prefetch;
    h->away = true;
    if (h->prefetch & ZC_PREFETCH_ALLOC)
        h->away = prefetch(base, h->size, h->device,
                           want->stream_ordered ? want->stream : CU_STREAM_LEGACY,
                           want->flavour) != CUDA_SUCCESS;
    if (!zc_lock_take(&lock)) {
        zc_arena_put(h, sizeof(*h));
        return NULL;
    }
    set_waits(h, wanted(h));
    zc_lock_drop(&lock);
    return h;
}

void zc_hint_unmake(struct zc_hinted *h)
{
    if (!h || !zc_lock_take(&lock))
        return;
    set_waits(h, false);
    zc_lock_drop(&lock);
    zc_arena_put(h, sizeof(*h));
}

bool zc_hint_home(const struct zc_block *block, int device)
{
    if (!(block->flags & ZC_BLOCK_CONVERTED))
        return false;
    const struct zc_hinted *h = ((const struct zc_backing *)block->backing)->hinted;
    return h && h->device == device && !__atomic_load_n(&h->away, __ATOMIC_RELAXED);
}

void zc_hint_reset(void)
{
    zc_lock_reset(&lock);
    waiting = NULL;
}
