/* SPDX-License-Identifier: MIT */
/* Blocks of the host heap: slots of slabs, and extents of their own. */
#include "host/hostheap.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/module.h"
#include "base/own.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/visits.h"
#include "ledger/block.h"
#include "log/summary.h"
#include "memory/cgroup.h"
#include "memory/limits.h"
#include "memory/workers.h"

#define SLOT_MAX (ZC_HOST_UNIT / 2) /* Larger blocks get an extent of their own. */
#define SLOT_STEP ((size_t)4 << 10) /* Slots begin at multiples of it. */

/* Bytes in the pool, beyond those that blocks once had, or at all until CUDA is up. */
#define POOL_SLACK ((uint64_t)32 << 20)
#define POOL_KEEP_NS UINT64_C(1000000000) /* And a nanosecond a byte. */

/* The pool keeps no more than this part of what the host has left, which is asked so often. */
#define SPARE_PART 4
#define SPARE_NS UINT64_C(100000000)

/* Threads touch so much for blocks of which nobody knows yet whether the program fills them, and
 * registering brings in no more. */
#define LENT_MAX ((uint64_t)192 << 20)

static ZC_LOCK(zc_heap, ZC_RANK_HEAP);
static struct zc_extent
    *slabs[ZC_HOST_SLOTS + 1];     /* Slabs with free slots, by the number of slots they have. */
static pid_t owner;                /* The process that the heap's memory belongs to. */
static ZC_OWN uint64_t most_live;  /* Bytes that blocks had at a time, so far.  Under the lock. */
static ZC_OWN uint64_t prefaulted; /* `prefaulted` of all extents.  Atomic. */

bool zc_heap_lock(void)
{
    return zc_lock_take(&zc_heap);
}

void zc_heap_unlock(void)
{
    zc_lock_drop(&zc_heap);
}

/* The kernel copies registered pages when the process forks, and others once the parent writes them
 * while a child has them, too.  Of what is in the pool a child needs nothing. */
static void advise_pooled(struct zc_extent *e, void *advice)
{
    if (e->use == ZC_EXTENT_FREE && !e->inode && !e->owner)
        zc_memory_advise((void *)zc_extent_base(e), zc_extent_span(e), *(const int *)advice);
}

static void bequeath(struct zc_extent *e, void *advice)
{
    advise_pooled(e, advice);
    if (e->use != ZC_EXTENT_FREE)
        __atomic_store_n(&e->inherited, true, __ATOMIC_RELAXED);
}

/* Other threads are kept out while the kernel copies what is under the lock, so that the child gets
 * it whole. */
static __thread bool held_for_fork;

static void hold_and_freeze(void)
{
    int advice = MADV_WIPEONFORK;
    held_for_fork = zc_heap_lock();
    if (!held_for_fork)
        return;
    zc_memfile_before_fork();
    zc_extent_each(bequeath, &advice);
}

static void release_after_fork(void)
{
    int advice = MADV_KEEPONFORK;
    if (!held_for_fork)
        return;
    zc_extent_each(advise_pooled, &advice);
    zc_heap_unlock();
}

/* Device blocks, and mappings for the GPU, stay with the parent. */
static void forget_device(struct zc_extent *e, void *unused)
{
    (void)unused;
    e->shared = NULL;
    e->view = NULL; /* Some of it is not there. */
    e->early = false;
}

/* Before any module of the child maps memory: the kernel would give it addresses in the heap of
 * which the child has no pages. */
static void in_child(void)
{
    owner = getpid();
    zc_extent_each(forget_device, NULL);
    __atomic_fetch_add(&zc_extent_era, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&zc_extent_unlisted, true, __ATOMIC_RELAXED);
    for (struct zc_extent *e; held_for_fork && (e = zc_extent_oldest(false, false));) {
        zc_extent_unpool(e);
        zc_extent_unback(e);
        zc_extent_bury(e);
    }
}

bool zc_hostheap_open(const char **why)
{
    static bool tried;
    *why = "no addresses are reserved for the host heap";
    if (!__atomic_load_n(&tried, __ATOMIC_ACQUIRE) && zc_heap_lock()) {
        if (!tried) {
            owner = getpid();
            zc_extent_reserve(why);
            __atomic_store_n(&tried, true, __ATOMIC_RELEASE);
        }
        zc_heap_unlock();
    }
    return __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_ACQUIRE) != 0;
}

/* Under the lock.  Other pinned memory than the heap's counts as always live. */
static uint64_t live_bytes(void)
{
    uint64_t used =
        zc_limits_used(ZC_PLACE_PINNED, -1) + zc_limits_used(ZC_PLACE_PINNED, ZC_LIMITS_ASKED);
    return used > zc_extent_pooled_bytes ? used - zc_extent_pooled_bytes : 0;
}

/* Most bytes that the pool may have now. */
static uint64_t pool_most(void)
{
    bool up = __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
    uint64_t most = zc_limits_pool(), live = live_bytes();
    uint64_t room = POOL_SLACK + (up && most_live > live ? most_live - live : 0);
    return room < most ? room : most;
}

/* True if the host, or a control group, lacks the memory that the pool keeps.  Under the lock. */
static bool short_of_memory(void)
{
    static uint64_t asked, spare;
    if (zc_extent_pooled_bytes <= POOL_SLACK)
        return false;
    if (!asked || zc_ticks_to_ns(zc_ticks() - asked) > SPARE_NS) {
        spare = zc_available() / SPARE_PART;
        asked = zc_ticks();
    }
    return zc_extent_pooled_bytes > spare;
}

static bool too_much(const struct zc_extent *e)
{
    return e->no_reuse || zc_extent_pooled_bytes > pool_most() || short_of_memory() ||
           zc_ticks_to_ns(zc_ticks() - e->since) > POOL_KEEP_NS + zc_extent_span(e);
}

/* The quota of libc's blocks, or of the program's cuMemHostAlloc. */
static int quota_of(const void *asker)
{
    return asker ? ZC_LIMITS_ASKED : -1;
}

void zc_hostheap_tidy(bool all)
{
    struct zc_extent *e;
    while ((e = zc_hostheap_surplus(false, all)))
        zc_hostheap_drop(e);
}

/* A child of vfork(2) has its own limits, but uses its parent's memory. */
void zc_hostheap_fit(bool all)
{
    if (!__atomic_load_n(&zc_hostheap.bytes, __ATOMIC_ACQUIRE) || owner != getpid() ||
        !zc_heap_lock())
        return;
    zc_extent_fit(all);
    zc_heap_unlock();
    zc_hostheap_tidy(false);
}

void zc_heap_bury(struct zc_extent *e)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    if (mine) /* Else only the addresses are lost. */
        zc_extent_bury(e);
}

struct zc_extent *zc_heap_carve(uint32_t units)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    errno = 0;
    return mine ? zc_extent_carve(units) : NULL;
}

static struct zc_extent *heap_fresh(uint32_t units, const struct zc_host_want *want,
                                    const char **why)
{
    size_t span = (size_t)units << ZC_HOST_UNIT_SHIFT;
    if (!zc_limits_take(ZC_PLACE_PINNED, quota_of(want->owner), span, why))
        return NULL;
    struct zc_extent *e = zc_heap_carve(units);
    if (!e)
        *why = errno ? zc_limits_reason(errno, span) : "the range of the host heap is full";
    if (e) {
        e->owner = want->owner;
        e->era = __atomic_load_n(&zc_extent_era, __ATOMIC_RELAXED);
    }
    if (e && want->shareable)
        zc_memfile_open(e);
    if (e && !zc_extent_back(e, 0)) {
        *why = zc_limits_reason(errno, span);
        zc_extent_unback(e);
        zc_heap_bury(e);
        e = NULL;
    }
    if (!e)
        zc_limits_give(ZC_PLACE_PINNED, quota_of(want->owner), span);
    return e;
}

static struct zc_extent *extent_for(uint32_t units, const struct zc_host_want *want,
                                    const char **why)
{
    struct zc_extent *e = NULL;
    if (zc_heap_lock()) {
        e = zc_extent_reuse(units, want);
        zc_heap_unlock();
    }
    if (!e) {
        zc_hostheap_tidy(false); /* The pool had nothing that fits. */
        e = heap_fresh(units, want, why);
    }
    if (!e) { /* Its memory may be in the way of a limit, in pieces, or all that is left. */
        zc_hostheap_tidy(true);
        e = heap_fresh(units, want, why);
    }
    if (e)
        e->owner = want->owner;
    return e;
}

/*
 * The number of slots that a unit is divided into for such blocks; 0 if they are too large for
 * slabs.  Numbers of four significant bits keep a slot at most about a quarter larger than its
 * block, up to 512 KiB.
 */
static unsigned slots_for(const struct zc_host_want *want)
{
    size_t least = want->size > ZC_HOST_MIN ? want->size : ZC_HOST_MIN;
    unsigned slots, drop = 0;
    if (least < want->alignment)
        least = want->alignment;
    if (least > SLOT_MAX)
        return 0;
    if (want->alignment > SLOT_STEP) /* Slots then begin at multiples of a power of two. */
        least = (size_t)1 << (64 - __builtin_clzl(least - 1));
    slots = (unsigned)(ZC_HOST_UNIT / ((least + SLOT_STEP - 1) / SLOT_STEP * SLOT_STEP));
    while (slots >> drop > 15)
        drop++;
    return slots >> drop << drop;
}

static struct zc_extent *slab_with_room(unsigned slots, const struct zc_host_want *want)
{
    struct zc_extent *e = slabs[slots];
    while (e && e->owner != want->owner)
        e = e->next;
    return e;
}

static unsigned slots_of(const struct zc_extent *slab)
{
    return (unsigned)(ZC_HOST_UNIT / slab->step);
}

static void make_slab(struct zc_extent *e, unsigned slots)
{
    e->use = ZC_EXTENT_SLAB;
    e->step = (uint32_t)(ZC_HOST_UNIT / slots / SLOT_STEP * SLOT_STEP);
    e->live = 0;
    e->room = slots < 32 ? (1u << slots) - 1 : UINT32_MAX;
    DL_PREPEND2(slabs[slots], e, prev, next);
}

/* Takes and fills the first free slot of a slab. */
static void *take_slot(struct zc_extent *e, size_t size, struct zc_slot **slot_out)
{
    unsigned i = (unsigned)__builtin_ctz(e->room);
    e->room &= e->room - 1;
    e->live++;
    if (!e->room)
        DL_DELETE2(slabs[slots_of(e)], e, prev, next);
    *slot_out = &e->slot[i];
    e->slot[i].size = size;
    return (void *)(zc_extent_base(e) + (uintptr_t)i * e->step);
}

/* Programs with many small blocks may touch little of each.  So their pages come one by one, as
 * libc's do; only registering brings in the whole unit. */
static void *get_small(const struct zc_host_want *want, unsigned slots, struct zc_slot **slot_out,
                       const char **why)
{
    struct zc_host_want slab = *want;
    slab.size = ZC_HOST_UNIT; /* All of it is to be registered. */
    slab.shareable = false;
    *why = "inside a signal handler";
    if (!zc_heap_lock())
        return NULL;
    struct zc_extent *e = slab_with_room(slots, want);
    if (!e) {
        zc_heap_unlock();
        e = extent_for(1, &slab, why);
        if (e)
            zc_extent_pages(e, !want->owner);
        if (!e || !zc_heap_lock())
            return NULL;
        make_slab(e, slots);
    }
    void *p = take_slot(e, want->size, slot_out);
    zc_heap_unlock();
    return p;
}

static void heap_occupy(struct zc_extent *e, size_t size)
{
    e->use = ZC_EXTENT_BLOCK;
    e->live = 1;
    e->elided = e->cpu_copied = 0;
    __atomic_store_n(&e->slot[0].size, size, __ATOMIC_RELAXED);
    zc_extent_fill(e, size);
    zc_hostheap_unclaim(e);
}

/* The offset of the next block in its extent. */
static uint16_t next_lead(const struct zc_host_want *want)
{
    static unsigned turn;
    uint64_t units = zc_extent_units(want->size);
    unsigned lead =
        (__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % ZC_HOST_LEADS + 1) * ZC_HOST_LEAD;
    if (!want->spread || want->alignment > ZC_HOST_LEAD ||
        (units < ZC_HOST_LEAD_UNITS && zc_extent_units(want->size + lead) > units))
        return 0;
    return (uint16_t)lead;
}

size_t zc_heap_may_prefault(struct zc_extent *e, size_t bytes)
{
    uint64_t before = __atomic_load_n(&prefaulted, __ATOMIC_RELAXED), more;
    do {
        more = before < LENT_MAX ? LENT_MAX - before : 0;
        more = more < bytes ? more : bytes;
    } while (!__atomic_compare_exchange_n(&prefaulted, &before, before + more, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    __atomic_fetch_add(&e->prefaulted, more, __ATOMIC_RELAXED);
    return more;
}

void zc_hostheap_needed(struct zc_extent *e)
{
    uint64_t bytes = __atomic_exchange_n(&e->prefaulted, 0, __ATOMIC_RELAXED);
    if (bytes && zc_hostheap_mine(e))
        __atomic_fetch_sub(&prefaulted, bytes, __ATOMIC_RELAXED);
}

static void *get_large(const struct zc_host_want *want, struct zc_slot **slot_out, const char **why)
{
    *why = "it is too large";
    if (want->size > zc_hostheap.bytes)
        return NULL;
    *why = "the driver pins less than 512 GiB in one piece";
    if (!want->owner && want->size >= ZC_REGISTRATION_MAX)
        return NULL;
    uint16_t lead = next_lead(want);
    struct zc_extent *e = extent_for((uint32_t)zc_extent_units(want->size + lead), want, why);
    if (!e)
        return NULL;
    zc_extent_pages(e, false);
    bool inside = zc_heap_lock();
    e->lead = lead;
    heap_occupy(e, want->size);
    if (inside)
        zc_heap_unlock();
    *slot_out = &e->slot[0];
    /* Programs take large tables of calloc(3) because they cost what is used of them.  Pinned
     * memory comes in while it is registered. */
    bool waits = want->owner || (want->zero && !e->inode);
    if (!e->slot[0].dirty && !waits)
        zc_extent_prefault(
            e, 0, e->inode ? lead + want->size : zc_heap_may_prefault(e, lead + want->size));
    return (void *)(zc_extent_base(e) + lead);
}

void *zc_hostheap_get(const struct zc_host_want *want, struct zc_slot **slot_out, const char **why)
{
    unsigned slots = slots_for(want);
    void *p = slots ? get_small(want, slots, slot_out, why) : get_large(want, slot_out, why);
    if (p && want->zero && (*slot_out)->dirty)
        zc_workers_zero(p, want->size);
    return p;
}

static struct zc_slot *slot_at(struct zc_extent *e, uintptr_t offset)
{
    if (e && e->use == ZC_EXTENT_BLOCK)
        return &e->slot[0];
    return e && e->use == ZC_EXTENT_SLAB ? &e->slot[offset / e->step] : NULL;
}

uintptr_t zc_hostheap_block(uint64_t address)
{
    struct zc_extent *e = zc_hostheap_extent(address);
    uintptr_t base = e ? zc_extent_base(e) : 0;
    const struct zc_slot *slot = slot_at(e, address - base);
    if (!slot || !slot->size)
        return 0;
    if (e->use == ZC_EXTENT_BLOCK)
        return address - base < e->lead ? 0 : base + e->lead;
    return address - (address - base) % e->step;
}

struct zc_slot *zc_hostheap_slot(const void *p)
{
    uintptr_t address = (uintptr_t)p;
    if (!address || zc_hostheap_block(address) != address)
        return NULL;
    struct zc_extent *e = zc_hostheap_extent(address);
    return slot_at(e, address - zc_extent_base(e));
}

size_t zc_hostheap_room(const void *p)
{
    const struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    return e->use == ZC_EXTENT_SLAB ? e->step : zc_extent_span(e) - e->lead;
}

/* A registration of the program's, or a device block, outlives the block.  Nobody else may get
 * these addresses before it ends. */
static void heap_retire(struct zc_extent *e)
{
    uint64_t live = live_bytes();
    if (most_live < live)
        most_live = live;
    zc_hostheap_needed(e);
    bool others = e->use == ZC_EXTENT_BLOCK && e->owner &&
                  __atomic_load_n(&e->inherited, __ATOMIC_RELAXED); /* A child may write them. */
    if (others || !zc_hostheap_mine(e))
        __atomic_store_n(&e->no_reuse, true, __ATOMIC_RELEASE);
    e->live = 0;
    e->since = zc_ticks();
    e->graphed = false;
    zc_memfile_drop_private(e);
    zc_hostheap_unclaim(e);
    for (unsigned i = 0; i < ZC_HOST_SLOTS; i++)
        e->slot[i].dirty = true;
    bool known = __atomic_load_n(&e->pin, __ATOMIC_ACQUIRE) == ZC_PIN_PROGRAM;
    if (known && zc_hostheap_mine(e))
        e->use = ZC_EXTENT_LIMBO;
    else
        zc_extent_pool(e);
    if (zc_log_kept_peak < zc_extent_pooled_bytes)
        __atomic_store_n(&zc_log_kept_peak, zc_extent_pooled_bytes, __ATOMIC_RELAXED);
}

/* True if memory went into the pool. */
static bool put_locked(void *p)
{
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    struct zc_slot *slot = zc_hostheap_slot(p);
    if (!slot)
        return false;
    __atomic_store_n(&slot->size, 0, __ATOMIC_RELAXED);
    slot->dirty = true;
    if (e->use == ZC_EXTENT_BLOCK) {
        heap_retire(e);
        return true;
    }
    struct zc_extent **list = &slabs[slots_of(e)];
    /* A slot whose mappings may have changed is never used again. */
    bool again = !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE);
    if (!e->room && again)
        DL_PREPEND2(*list, e, prev, next);
    if (again)
        e->room |= 1u << (slot - e->slot);
    if (--e->live)
        return false;
    if (e->room)
        DL_DELETE2(*list, e, prev, next);
    heap_retire(e);
    return true;
}

void zc_hostheap_put(void *p)
{
    if (!zc_heap_lock())
        return;
    bool pooled = put_locked(p);
    zc_heap_unlock();
    if (pooled)
        zc_hostheap_tidy(false);
}

void zc_hostheap_revive(struct zc_extent *extent)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    if (mine && extent->use == ZC_EXTENT_LIMBO)
        zc_extent_pool(extent);
}

static struct zc_extent *surplus(bool pinned, bool all)
{
    struct zc_extent *oldest = zc_extent_oldest(pinned, false);
    return !oldest || all || too_much(oldest) ? oldest : zc_extent_oldest(pinned, true);
}

struct zc_extent *zc_hostheap_surplus(bool pinned, bool all)
{
    /* Of an empty pool the limits are not asked.  What another thread is pooling waits. */
    ZC_HEAP_HELD mine =
        __atomic_load_n(&zc_extent_pooled_bytes, __ATOMIC_RELAXED) && zc_heap_lock();
    struct zc_extent *e = mine ? surplus(pinned, all) : NULL;
    if (e)
        zc_extent_unpool(e);
    return e;
}

void *zc_hostheap_surplus_context(void)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    const struct zc_extent *e = mine ? surplus(true, false) : NULL;
    return e ? e->context : NULL;
}

bool zc_hostheap_too_much(const struct zc_extent *e)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    return mine && e->use == ZC_EXTENT_FREE && too_much(e);
}

void zc_hostheap_drop(struct zc_extent *extent)
{
    zc_extent_unback(extent);
    if (zc_hostheap_mine(extent))
        zc_limits_give(ZC_PLACE_PINNED, quota_of(extent->owner), zc_extent_span(extent));
    zc_heap_bury(extent);
}

const struct zc_module zc_module_hostheap = {
    .before_fork = hold_and_freeze, .after_fork = release_after_fork, .inherit = in_child};
