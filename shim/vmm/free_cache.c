/* SPDX-License-Identifier: MIT */
/* A cache of freed vmm blocks, still mapped, for the next request of their size. */
#include "vmm/free_cache.h"

#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "memory/limits.h"
#include "memory/release.h"
#include "vmm/access.h"

#define DEVICES_MAX 64
#define PART 16       /* At most 1/PART of a device's memory is kept. */
#define LOOKED_AT 32u /* How many kept blocks a request is compared with. */

static struct zc_lock lock = ZC_LOCK(ZC_RANK_FREE_CACHE);
static struct zc_vmm
    *kept[DEVICES_MAX][ZC_LISTS];    /* Lists by size; the block kept last comes first. */
static uint64_t serial;              /* Counts the blocks kept so far. */
static unsigned blocks;              /* Blocks kept now.  Atomic. */
static uint64_t bytes[DEVICES_MAX];  /* Their bytes by device.  Atomic. */
static uint64_t limits[DEVICES_MAX]; /* Most bytes to keep of a device; 0 until asked.  Atomic. */

static uint64_t limit_of(int device)
{
    size_t total = 0;
    uint64_t limit = __atomic_load_n(&limits[device], __ATOMIC_RELAXED);
    if (limit || zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return limit;
    __atomic_store_n(&limits[device], total / PART, __ATOMIC_RELAXED);
    return total / PART;
}

static const struct zc_backing *backing_of(const struct zc_vmm *v)
{
    return v->quarantined->backing;
}

static struct zc_vmm **list_of(const struct zc_vmm *v)
{
    return &kept[v->device][zc_list_of(backing_of(v)->size)];
}

/* Takes a block out of its list.  Under the lock. */
static struct zc_vmm *cache_remove(struct zc_vmm *v)
{
    DL_DELETE2(*list_of(v), v, before, next);
    bytes[v->device] -= zc_vmm_own(v);
    blocks--;
    return v;
}

static struct zc_vmm *oldest(int device)
{
    struct zc_vmm *found = NULL;
    for (unsigned i = 0; i < ZC_LISTS; i++) {
        struct zc_vmm *last = kept[device][i] ? kept[device][i]->before : NULL;
        if (last && (!found || last->kept < found->kept))
            found = last;
    }
    return found;
}

/* Adds a block, then removes the oldest ones of its device until the rest is within the limit.
 * Returns the removed blocks, linked by `next`.  Under the lock. */
static struct zc_vmm *put(struct zc_vmm *v, uint64_t limit)
{
    struct zc_vmm *out = NULL;
    v->kept = ++serial;
    DL_PREPEND2(*list_of(v), v, before, next);
    bytes[v->device] += zc_vmm_own(v);
    blocks++;
    while (bytes[v->device] > limit) {
        struct zc_vmm *gone = cache_remove(oldest(v->device));
        LL_PREPEND2(out, gone, next);
    }
    return out;
}

/* Removes a kept block from the ledger.  Its memory is the caller's then. */
static struct zc_backing *wake(struct zc_vmm *v)
{
    struct zc_backing *backing = v->quarantined->backing;
    zc_block_remove(v->quarantined);
    v->quarantined = NULL;
    return backing;
}

/* Gives blocks back to the driver, and ends the release that their removal began. */
static unsigned give_back(struct zc_vmm *list)
{
    unsigned count = 0;
    while (list) {
        struct zc_vmm *next = list->next;
        struct zc_backing *backing = wake(list);
        zc_vmm_give_back(list);
        zc_arena_put(backing, sizeof(*backing));
        list = next;
        count++;
    }
    zc_release_end();
    return count;
}

static bool fits(const struct zc_vmm *v, const struct zc_want *want)
{
    return v->device == want->device && v->va.context == want->context && zc_vmm_suits(v, want) &&
           backing_of(v)->size == want->size;
}

/* Under the lock. */
static struct zc_vmm *cache_find(const struct zc_want *want)
{
    struct zc_vmm *v = kept[want->device][zc_list_of(want->size)];
    for (unsigned i = 0; v && i < LOOKED_AT; v = v->next, i++)
        if (fits(v, want))
            return cache_remove(v);
    return NULL;
}

struct zc_backing *zc_free_cache_take(const struct zc_want *want)
{
    struct zc_vmm *v = NULL;
    const char *why;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) || want->device >= DEVICES_MAX ||
        want->rule->grow || !zc_limits_take(ZC_PLACE_VMM, want->device, want->size, &why))
        return NULL;
    if (zc_lock_take(&lock)) {
        v = cache_find(want);
        zc_lock_drop(&lock);
    }
    if (v)
        return wake(v);
    zc_limits_give(ZC_PLACE_VMM, want->device, want->size);
    return NULL;
}

bool zc_free_cache_fits(const struct zc_block *block)
{
    const struct zc_vmm *v = zc_vmm_of(block);
    return v && !v->lazy && zc_vmm_whole(v) && v->device < DEVICES_MAX && !zc_life_closing() &&
           zc_vmm_own(v) <= limit_of(v->device);
}

bool zc_free_cache_keep(struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    if (!zc_free_cache_fits(block) || zc_access_end_copies(&v->va) != CUDA_SUCCESS ||
        !zc_lock_take(&lock))
        return false;
    zc_release_begin();
    v->quarantined = block;
    if (!(block->flags & ZC_BLOCK_QUARANTINED))
        zc_block_quarantine(block);
    zc_limits_give(ZC_PLACE_VMM, v->device, block->size);
    struct zc_vmm *out = put(v, limit_of(v->device));
    zc_lock_drop(&lock);
    give_back(out);
    return true;
}

unsigned zc_free_cache_trim(void)
{
    struct zc_vmm *all = NULL;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return 0;
    zc_release_begin();
    for (int d = 0; d < DEVICES_MAX; d++)
        for (struct zc_vmm *v; (v = oldest(d));) {
            cache_remove(v);
            LL_PREPEND2(all, v, next);
        }
    zc_lock_drop(&lock);
    return give_back(all);
}

uint64_t zc_free_cache_bytes(void)
{
    CUdevice device = 0;
    if (!__atomic_load_n(&blocks, __ATOMIC_RELAXED) ||
        zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device >= DEVICES_MAX)
        return 0;
    return __atomic_load_n(&bytes[device], __ATOMIC_RELAXED);
}

static void in_child(void)
{
    zc_lock_reset(&lock);
    memset(kept, 0, sizeof(kept));
    memset(bytes, 0, sizeof(bytes));
    blocks = 0;
}

static void context_gone(CUcontext context)
{
    (void)context;
    zc_free_cache_trim();
}

static unsigned reclaim(int place)
{
    return place == ZC_PLACE_COUNT ? zc_free_cache_trim() : 0;
}

const struct zc_module zc_module_free_cache = {.child = in_child,
                                               .context_gone = context_gone,
                                               .reclaim = reclaim,
                                               .idle_bytes = zc_free_cache_bytes};
