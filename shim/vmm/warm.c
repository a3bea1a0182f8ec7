/* Blocks of `vmm` that were freed, kept mapped for the next request of their size. */
#include "vmm/warm.h"

#include "base/module.h"
#include "base/arena.h"
#include "base/lock.h"
#include "hook/life.h"
#include "vmm/access.h"
#include "memory/limits.h"
#include "memory/transit.h"

#define DEVICES_MAX 64
#define PART 16 /* Of a device's memory, the most that is kept. */

static struct zc_lock lock = ZC_LOCK(ZC_RANK_CATCH);
static struct zc_vmm *newest;        /* All kept blocks, the one kept last first. */
static uint64_t bytes[DEVICES_MAX];  /* Of them by device. */
static uint64_t limits[DEVICES_MAX]; /* Most bytes of a device; 0 until asked.  Atomic. */

static uint64_t limit_of(int device)
{
    size_t total = 0;
    uint64_t limit = __atomic_load_n(&limits[device], __ATOMIC_RELAXED);
    if (limit || zc_real.cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return limit;
    __atomic_store_n(&limits[device], total / PART, __ATOMIC_RELAXED);
    return total / PART;
}

/* Takes out a block, under the lock. */
static struct zc_vmm *take(struct zc_vmm **at)
{
    struct zc_vmm *v = *at;
    *at = v->next;
    v->next = NULL;
    bytes[v->device] -= v->span;
    return v;
}

/* Puts a block in and takes the oldest of its device out until the rest keeps the limit; returns
 * these, linked by `next`.  Under the lock. */
static struct zc_vmm *put(struct zc_vmm *v, uint64_t limit)
{
    struct zc_vmm *out = NULL;
    v->next = newest;
    newest = v;
    bytes[v->device] += v->span;
    while (bytes[v->device] > limit) {
        struct zc_vmm **oldest = NULL, *gone;
        for (struct zc_vmm **at = &newest; *at; at = &(*at)->next)
            if ((*at)->device == v->device)
                oldest = at;
        gone = take(oldest);
        gone->next = out;
        out = gone;
    }
    return out;
}

/* Lets the ledger forget a kept block; its memory is the caller's. */
static struct zc_backing *wake(struct zc_vmm *v)
{
    struct zc_backing *backing = v->ghost->backing;
    zc_block_remove(v->ghost);
    v->ghost = NULL;
    return backing;
}

/* Ends what began before the blocks were taken out. */
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
    zc_transit_end();
    return count;
}

static bool fits(const struct zc_vmm *v, const struct zc_want *want)
{
    return v->device == want->device && v->context == want->context && zc_vmm_suits(v, want) &&
           ((const struct zc_backing *)v->ghost->backing)->size == want->size;
}

struct zc_backing *zc_warm_take(const struct zc_want *want)
{
    struct zc_vmm *v = NULL;
    const char *why;
    if (!__atomic_load_n(&newest, __ATOMIC_RELAXED) || want->rule->grow ||
        !zc_limits_take(ZC_PLACE_VMM, want->device, want->size, &why))
        return NULL;
    if (zc_lock_take(&lock)) {
        struct zc_vmm **at = &newest;
        while (*at && !fits(*at, want))
            at = &(*at)->next;
        v = *at ? take(at) : NULL;
        zc_lock_drop(&lock);
    }
    if (v)
        return wake(v);
    zc_limits_give(ZC_PLACE_VMM, want->device, want->size);
    return NULL;
}

bool zc_warm_keep(struct zc_block *block)
{
    struct zc_vmm *v = zc_vmm_of(block);
    if (!v || v->late || !zc_vmm_whole(v) || v->device >= DEVICES_MAX || zc_life_closing())
        return false;
    uint64_t limit = limit_of(v->device);
    if (v->span > limit || zc_access_end_copies(&v->window) != CUDA_SUCCESS || !zc_lock_take(&lock))
        return false;
    zc_transit_begin();
    v->ghost = block;
    if (!(block->flags & ZC_BLOCK_GHOST))
        zc_block_make_ghost(block);
    zc_limits_give(ZC_PLACE_VMM, v->device, block->size);
    struct zc_vmm *out = put(v, limit);
    zc_lock_drop(&lock);
    give_back(out);
    return true;
}

unsigned zc_warm_trim(void)
{
    if (!__atomic_load_n(&newest, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return 0;
    zc_transit_begin();
    struct zc_vmm *all = newest;
    newest = NULL;
    for (struct zc_vmm *v = all; v; v = v->next)
        bytes[v->device] -= v->span;
    zc_lock_drop(&lock);
    return give_back(all);
}

uint64_t zc_warm_bytes(void)
{
    CUdevice device = 0;
    if (!__atomic_load_n(&newest, __ATOMIC_RELAXED) ||
        zc_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device >= DEVICES_MAX)
        return 0;
    return __atomic_load_n(&bytes[device], __ATOMIC_RELAXED);
}

static void in_child(void)
{
    zc_lock_reset(&lock);
    newest = NULL;
    for (unsigned i = 0; i < DEVICES_MAX; i++)
        bytes[i] = 0;
}

static void context_gone(CUcontext context)
{
    (void)context;
    zc_warm_trim();
}

static unsigned reclaim(int place)
{
    return place == ZC_PLACE_COUNT ? zc_warm_trim() : 0;
}

const struct zc_module zc_module_warm = {.child = in_child,
                                         .context_gone = context_gone,
                                         .reclaim = reclaim,
                                         .idle_bytes = zc_warm_bytes};
