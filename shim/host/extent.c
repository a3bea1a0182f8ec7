/* SPDX-License-Identifier: MIT */
/* The reserved range of addresses, and the extents that are carved out of it. */
#include "host/extent.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/list.h"
#include "base/memory.h"
#include "base/own.h"
#include "ledger/block.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/pages.h"
#include "memory/workers.h"

_Static_assert(ZC_HOST_UNIT == ZC_HUGE_PAGE, "a unit is one huge page");

/* Unused addresses cost nothing. */
#define RANGE_MAX ((size_t)4 << 40)
#define RANGE_MIN ((size_t)64 << 20)

#define PREFAULT_FROM ((size_t)8 << 20) /* Bytes that are worth starting threads for. */

#define LOOSE_MAX ((uint64_t)32 << 20) /* Bytes that blocks get and do not need, */
#define LOOSE_PART 16                  /* and the part of what the pool may have. */

#define RECORDS_STEP 1024u /* Records become writable in steps of this many units. */

struct zc_hostheap_range zc_hostheap = {.base = (uintptr_t)1 << 63, .threshold = ZC_HOST_MIN};
uint32_t zc_extent_era = 1;
size_t zc_extent_pooled_bytes, zc_extent_loose_bytes;
bool zc_extent_unlisted;
ZC_OWN uint32_t zc_extent_files;

static struct zc_extent
    *extents;             /* One record a unit; only the first unit of an extent uses its record. */
static uint32_t *heads;   /* For every carved unit, the index of its extent's first unit. */
static uint32_t carved;   /* Units below were carved at least once; atomic. */
static uint32_t recorded; /* Units below this one have writable records. */
static struct zc_extent *holes;
static struct zc_extent *pool[2]; /* Newest first: [1] registered when they came, [0] not. */
static unsigned pooled_no_reuse;  /* Of the pool, those that no block may get. */

/* Under RLIMIT_AS reserved addresses count as mapped, so libzc keeps to a quarter of the limit. */
static size_t range_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur / 4 > RANGE_MAX)
        return RANGE_MAX;
    return (size_t)limit.rlim_cur / 4;
}

static bool reserve_records(size_t units)
{
    heads = zc_memory_fresh(units * sizeof(*heads), PROT_NONE);
    extents = zc_memory_fresh(units * sizeof(*extents), PROT_NONE);
    if (heads && extents)
        return true;
    if (heads)
        zc_memory_unmap(heads, units * sizeof(*heads));
    return false;
}

/* Makes the records of the first `units` units writable.  Writable memory counts as the process's,
 * used or not (RLIMIT_DATA, mlockall(2), strict overcommit), so the records of all units would be
 * too much. */
static bool make_records(uint32_t units)
{
    size_t all = zc_hostheap.bytes >> ZC_HOST_UNIT_SHIFT;
    size_t most = (units + RECORDS_STEP - 1) / RECORDS_STEP * (size_t)RECORDS_STEP;
    if (units <= recorded)
        return true;
    if (most > all)
        most = all;
    if (zc_memory_protect(heads, most * sizeof(*heads), PROT_READ | PROT_WRITE) != 0 ||
        zc_memory_protect(extents, most * sizeof(*extents), PROT_READ | PROT_WRITE) != 0)
        return false;
    recorded = (uint32_t)most;
    return true;
}

void zc_extent_reserve(const char **why)
{
    size_t most = range_limit();
    int error = ENOMEM;
    /* After mlockall(MCL_FUTURE) what is reserved counts as locked, which is the program's to use
     * up. */
    for (size_t bytes = RANGE_MAX; bytes >= RANGE_MIN && error != EAGAIN; bytes /= 2) {
        if (bytes > most)
            continue;
        char *p = zc_memory_fresh(bytes + ZC_HOST_UNIT, PROT_NONE);
        if (!p || !reserve_records(bytes >> ZC_HOST_UNIT_SHIFT)) {
            error = errno;
            if (p)
                zc_memory_unmap(p, bytes + ZC_HOST_UNIT);
            continue;
        }
        uintptr_t base = ((uintptr_t)p + ZC_HOST_UNIT - 1) & ~(uintptr_t)(ZC_HOST_UNIT - 1);
        /* Without huge pages everything works, only slower. */
        zc_memory_advise((void *)base, bytes, MADV_HUGEPAGE);
        __atomic_store_n(&zc_hostheap.base, base, __ATOMIC_RELAXED);
        __atomic_store_n(&zc_hostheap.bytes, bytes, __ATOMIC_RELEASE);
        return;
    }
    /* If a quarter of RLIMIT_AS is too little, the limit is what to name. */
    *why = zc_limits_reason(error, 4 * RANGE_MIN);
}

/* Unmaps whole pages of [at + from, at + to). */
static void cut_off(void *at, size_t from, size_t to)
{
    size_t first = zc_page_end(from);
    if (first < to)
        zc_memory_unmap((char *)at + first, to - first);
}

void zc_extent_fit(bool carved_only)
{
    size_t all = zc_hostheap.bytes >> ZC_HOST_UNIT_SHIFT;
    size_t units = range_limit() >> ZC_HOST_UNIT_SHIFT;
    if (units < carved || carved_only)
        units = carved;
    if (units >= all)
        return;
    /* First of all: the addresses may soon belong to others. */
    __atomic_store_n(&zc_hostheap.bytes, units << ZC_HOST_UNIT_SHIFT, __ATOMIC_SEQ_CST);
    cut_off((void *)zc_hostheap.base, units << ZC_HOST_UNIT_SHIFT, all << ZC_HOST_UNIT_SHIFT);
    cut_off(heads, units * sizeof(*heads), all * sizeof(*heads));
    cut_off(extents, units * sizeof(*extents), all * sizeof(*extents));
}

bool zc_hostheap_mine(const struct zc_extent *extent)
{
    return extent->era == __atomic_load_n(&zc_extent_era, __ATOMIC_RELAXED);
}

uintptr_t zc_extent_base(const struct zc_extent *extent)
{
    return zc_hostheap.base + ((uintptr_t)(extent - extents) << ZC_HOST_UNIT_SHIFT);
}

struct zc_extent *zc_hostheap_extent(uint64_t address)
{
    uint64_t unit = (address - zc_hostheap.base) >> ZC_HOST_UNIT_SHIFT;
    if (!zc_hostheap_owns(address) || unit >= __atomic_load_n(&carved, __ATOMIC_ACQUIRE))
        return NULL;
    return &extents[__atomic_load_n(&heads[unit], __ATOMIC_RELAXED)];
}

/* Makes units [first, first + units) one extent.  `heads` of each unit leads to the first. */
static struct zc_extent *set_extent(uint32_t first, uint32_t units, uint8_t use)
{
    struct zc_extent *e = &extents[first];
    e->units = units;
    e->use = use;
    for (uint32_t i = first; i < first + units; i++)
        __atomic_store_n(&heads[i], first, __ATOMIC_RELAXED);
    return e;
}

static void add_hole(uint32_t first, uint32_t units)
{
    struct zc_extent *hole = set_extent(first, units, ZC_EXTENT_HOLE);
    DL_PREPEND2(holes, hole, prev, next);
}

/* Nothing is left of what lay there before. */
static struct zc_extent *carve_at(uint32_t first, uint32_t units)
{
    extents[first] = (struct zc_extent){.use = ZC_EXTENT_NONE};
    return set_extent(first, units, ZC_EXTENT_NONE);
}

struct zc_extent *zc_extent_carve(uint32_t units)
{
    uint32_t top = carved; /* Changes under the lock only. */
    for (struct zc_extent *hole = holes; hole; hole = hole->next) {
        uint32_t first = (uint32_t)(hole - extents), rest = hole->units - units;
        if (hole->units < units)
            continue;
        DL_DELETE2(holes, hole, prev, next);
        if (rest)
            add_hole(first + units, rest);
        return carve_at(first, units);
    }
    if (units > (zc_hostheap.bytes >> ZC_HOST_UNIT_SHIFT) - top || !make_records(top + units))
        return NULL;
    struct zc_extent *e = carve_at(top, units);
    __atomic_store_n(&carved, top + units, __ATOMIC_RELEASE);
    return e;
}

bool zc_extent_stretch(struct zc_extent *extent, uint32_t units)
{
    uint32_t first = (uint32_t)(extent - extents), end = first + extent->units;
    uint32_t more = units - extent->units;
    if (end == carved) {
        if (more > (zc_hostheap.bytes >> ZC_HOST_UNIT_SHIFT) - end || !make_records(end + more))
            return false;
        set_extent(first, units, extent->use);
        __atomic_store_n(&carved, end + more, __ATOMIC_RELEASE);
        return true;
    }
    struct zc_extent *hole = &extents[end];
    if (hole->use != ZC_EXTENT_HOLE || hole->units < more)
        return false;
    DL_DELETE2(holes, hole, prev, next);
    hole->use = ZC_EXTENT_NONE;
    if (hole->units > more)
        add_hole(end + more, hole->units - more);
    set_extent(first, units, extent->use);
    return true;
}

struct zc_extent *zc_extent_cut(struct zc_extent *extent, uint32_t units)
{
    uint32_t first = (uint32_t)(extent - extents), rest = extent->units - units;
    ZC_HEAP_HELD mine = zc_heap_lock();
    if (!mine)
        return NULL;
    set_extent(first, units, extent->use);
    return set_extent(first + units, rest, ZC_EXTENT_NONE);
}

/* Most large blocks fill all but a part of their last unit. */
void zc_extent_fill(struct zc_extent *e, size_t size)
{
    size_t over = size ? zc_extent_span(e) - size : 0, before = e->loose;
    e->loose = e->units < ZC_HOST_LEAD_UNITS || over > size / 4 ? over : 0;
    __atomic_fetch_add(&zc_extent_loose_bytes, e->loose - before, __ATOMIC_RELAXED);
}

void zc_extent_bury(struct zc_extent *extent)
{
    uint32_t first = (uint32_t)(extent - extents), end = first + extent->units;
    struct zc_extent *after = end < carved ? &extents[end] : NULL;
    struct zc_extent *before = first ? &extents[heads[first - 1]] : NULL;
    extent->use = ZC_EXTENT_NONE;
    zc_extent_fill(extent, 0);
    if (after && after->use == ZC_EXTENT_HOLE) {
        DL_DELETE2(holes, after, prev, next);
        after->use = ZC_EXTENT_NONE;
        end += after->units;
    }
    if (before && before->use == ZC_EXTENT_HOLE) {
        DL_DELETE2(holes, before, prev, next);
        first = (uint32_t)(before - extents);
    }
    add_hole(first, end - first);
}

/* True if a block of `units` units may take the extent.  It takes the extent whole, so of one that
 * is much too large blocks have only so much, and slabs nothing, nor what may become one memory
 * with a device block, which would have to be as large. */
static bool extent_fits(const struct zc_extent *e, uint32_t units, const struct zc_host_want *want)
{
    uint64_t over = e->units - units;
    uint64_t all =
        __atomic_load_n(&zc_extent_loose_bytes, __ATOMIC_RELAXED) + (over << ZC_HOST_UNIT_SHIFT);
    return e->units >= units && !e->no_reuse && (e->inode != 0) == want->shareable &&
           !e->owner == !want->owner &&
           (over <= units / 4 || (units > 1 && !want->shareable && all <= LOOSE_MAX &&
                                  all <= zc_limits_pool() / LOOSE_PART));
}

/* Another context could be destroyed first and take its registration along.  Those of libc's blocks
 * are whole. */
static bool suits(const struct zc_extent *e, const struct zc_host_want *want)
{
    return !zc_extent_registered(e) || !want->owner ||
           (e->context == want->owner && e->pinned >= want->size);
}

struct zc_extent *zc_extent_reuse(uint32_t units, const struct zc_host_want *want)
{
    struct zc_extent *best = NULL;
    for (int list = 1; list >= 0; list--)
        for (struct zc_extent *e = pool[list]; e && !(best && best->units == units); e = e->next)
            if (extent_fits(e, units, want) && suits(e, want) && (!best || e->units < best->units))
                best = e;
    if (best)
        zc_extent_unpool(best);
    return best;
}

/* Bytes that come into the pool, or leave it. */
static void pooled(size_t change)
{
    __atomic_store_n(&zc_extent_pooled_bytes, zc_extent_pooled_bytes + change, __ATOMIC_RELAXED);
}

void zc_extent_pool(struct zc_extent *extent)
{
    zc_extent_fill(extent, 0);
    extent->use = ZC_EXTENT_FREE;
    extent->listed = zc_extent_registered(extent);
    DL_PREPEND2(pool[extent->listed], extent, prev, next);
    pooled(zc_extent_span(extent));
    pooled_no_reuse += extent->no_reuse;
}

void zc_extent_unpool(struct zc_extent *extent)
{
    DL_DELETE2(pool[extent->listed], extent, prev, next);
    pooled(-zc_extent_span(extent));
    pooled_no_reuse -= extent->no_reuse;
    extent->use = ZC_EXTENT_NONE;
}

/* Those whose state has changed in the pool count as older than the others. */
static void list_anew(bool had)
{
    for (struct zc_extent *e = pool[had], *next; e; e = next) {
        next = e->next;
        if (zc_extent_registered(e) == had)
            continue;
        DL_DELETE2(pool[had], e, prev, next);
        e->listed = !had;
        DL_APPEND2(pool[!had], e, prev, next);
    }
}

/* While a registration is being ended the driver knows the pages, and nobody may get the
 * addresses with others. */
static bool may_leave(const struct zc_extent *e)
{
    bool held = __atomic_load_n(&e->pin, __ATOMIC_ACQUIRE) == ZC_PIN_MAKING;
    return !(held && zc_hostheap_mine(e)) && !__atomic_load_n(&e->early, __ATOMIC_ACQUIRE);
}

struct zc_extent *zc_extent_oldest(bool pinned, bool no_reuse)
{
    if (no_reuse && !pooled_no_reuse)
        return NULL;
    if (__atomic_exchange_n(&zc_extent_unlisted, false, __ATOMIC_ACQUIRE)) {
        list_anew(true);
        list_anew(false);
    }
    struct zc_extent *newest = pool[pinned];
    for (struct zc_extent *e = newest ? newest->prev : NULL; e; e = e == newest ? NULL : e->prev)
        if (zc_extent_registered(e) == pinned && (e->no_reuse || !no_reuse) && may_leave(e))
            return e;
    return NULL;
}

/* A child of fork(2) shares the driver's pinned memory with its parent, and none of it is copied
 * for the child. */
bool zc_extent_back(const struct zc_extent *extent, uint32_t first)
{
    const int rights = PROT_READ | PROT_WRITE;
    size_t from = (size_t)first << ZC_HOST_UNIT_SHIFT, n = zc_extent_span(extent) - from;
    void *at = (void *)(zc_extent_base(extent) + from);
    if (!extent->owner)
        return zc_memory_protect(at, n, rights) == 0;
    return zc_memory_map(at, n, rights, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                         0) != MAP_FAILED;
}

void zc_extent_pages(struct zc_extent *extent, bool small)
{
    if (extent->small == small)
        return;
    extent->small = small;
    /* If the kernel has no huge pages, nothing is lost. */
    zc_memory_advise((void *)zc_extent_base(extent), zc_extent_span(extent),
                     small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

/* The memory lives on wherever the file is mapped.  Nothing is written where there is none: a fork
 * looks at extents that move, which have none. */
static void forget_file(struct zc_extent *e)
{
    if (!e->inode)
        return;
    if (e->view)
        zc_memory_unmap(e->view, 2 * zc_extent_span(e));
    e->view = NULL;
    e->inode = 0;
    if (zc_hostheap_mine(e))
        __atomic_fetch_sub(&zc_extent_files, 1, __ATOMIC_RELAXED);
}

/* A fresh mapping drops the pages.  Replacing a whole mapping can't
 * fail for want of memory; if it does, at least the pages are dropped. */
void zc_extent_unback(struct zc_extent *extent)
{
    forget_file(extent);
    void *base = (void *)zc_extent_base(extent);
    size_t span = zc_extent_span(extent);
    if (zc_memory_map(base, span, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        zc_memory_advise(base, span, MADV_DONTNEED);
    else
        zc_memory_advise(base, span, MADV_HUGEPAGE);
}

void zc_extent_prefault(const struct zc_extent *extent, size_t from, size_t to)
{
    if (extent->inode || to >= from + PREFAULT_FROM)
        zc_workers_prefault((char *)zc_extent_base(extent) + from, to - from, extent->inode, -1);
}

/* The old addresses must stay reserved, so nothing is unmapped (mremap(2), MREMAP_DONTUNMAP, Linux
 * 5.7).  A call that fails late has unmapped its target already; another thread may have mapped
 * something there since, which must not be touched. */
bool zc_extent_move(struct zc_extent *from, const struct zc_extent *to, bool *intact)
{
    void *target = (void *)zc_extent_base(to);
    size_t span = zc_extent_span(from);
    if (zc_memory_move((void *)zc_extent_base(from), span, span,
                       MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target) != MAP_FAILED) {
        zc_extent_unback(from);
        return true;
    }
    *intact = errno == EINVAL || /* The kernel does not know the flag, and has done nothing. */
              zc_memory_map(target, span, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                            0) == target;
    return false;
}

void zc_extent_each(void (*visit)(struct zc_extent *extent, void *arg), void *arg)
{
    for (uint32_t unit = 0; unit < carved;) {
        struct zc_extent *e = &extents[unit];
        uint32_t units = e->units;
        if (e->use != ZC_EXTENT_HOLE && e->use != ZC_EXTENT_NONE)
            visit(e, arg);
        unit += units ? units : 1;
    }
}

struct zc_extent *zc_hostheap_next(const struct zc_extent *after,
                                   bool (*wanted)(const struct zc_extent *e))
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    for (uint64_t unit = after ? after - extents + after->units : 0; mine && unit < carved;) {
        struct zc_extent *e = &extents[heads[unit]];
        if (e->use != ZC_EXTENT_HOLE && e->use != ZC_EXTENT_NONE && wanted(e))
            return e;
        unit = heads[unit] + (uint64_t)(e->units ? e->units : 1);
    }
    return NULL;
}
