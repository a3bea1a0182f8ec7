/* SPDX-License-Identifier: MIT */
/* Records of the program's rights to pages: a byte for each 4 KiB. */
#include "host/overlay.h"

#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "fault/fault.h"

#define GRAIN_SHIFT 12u /* No processor has smaller pages. */

static size_t grains(const struct zc_extent *e)
{
    return zc_extent_span(e) >> GRAIN_SHIFT;
}

static size_t grain_of(const struct zc_extent *e, uintptr_t at)
{
    return (at - zc_extent_base(e)) >> GRAIN_SHIFT;
}

static uint8_t *record_of(const struct zc_extent *e)
{
    return __atomic_load_n(&e->rights, __ATOMIC_ACQUIRE);
}

/* Two threads may call this at once, for two blocks of a slab. */
static uint8_t *make_record(struct zc_extent *e)
{
    uint8_t *record = record_of(e), *fresh;
    if (record || !(fresh = zc_arena_get(grains(e))))
        return record;
    memset(fresh, ZC_OVERLAY_OPEN, grains(e));
    if (__atomic_compare_exchange_n(&e->rights, &record, fresh, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return fresh;
    zc_arena_put(fresh, grains(e));
    return record;
}

bool zc_overlay_note(struct zc_extent *e, uintptr_t at, size_t n, int rights)
{
    uint8_t *record = make_record(e);
    size_t first = grain_of(e, at), end = first + (n >> GRAIN_SHIFT);
    if (!record)
        return false;
    for (size_t i = first; i < end; i++) {
        uint32_t now = rights != ZC_OVERLAY_OPEN;
        uint8_t was = __atomic_exchange_n(&record[i], (uint8_t)rights, __ATOMIC_RELAXED);
        __atomic_fetch_add(&e->guards, now - (uint32_t)(was != ZC_OVERLAY_OPEN), __ATOMIC_RELEASE);
    }
    return true;
}

static int rights_at(const uint8_t *record, size_t grain)
{
    return record ? __atomic_load_n(&record[grain], __ATOMIC_RELAXED) : ZC_OVERLAY_OPEN;
}

int zc_overlay_run(const struct zc_extent *e, uintptr_t at, uintptr_t high, uintptr_t *end_out)
{
    const uint8_t *record = record_of(e);
    size_t grain = grain_of(e, at), last = grain_of(e, high - 1);
    int rights = rights_at(record, grain);
    while (record && ++grain <= last && rights_at(record, grain) == rights)
        ;
    uintptr_t end = zc_extent_base(e) + ((uintptr_t)grain << GRAIN_SHIFT);
    *end_out = record && end < high ? end : high;
    return rights;
}

bool zc_overlay_permits(const struct zc_extent *e, uintptr_t address, bool write)
{
    int needed = write ? PROT_WRITE : PROT_READ;
    return !zc_overlay_any(e) || (rights_at(record_of(e), grain_of(e, address)) & needed);
}

void zc_overlay_probe(const struct zc_extent *e, uintptr_t at, size_t n, bool write)
{
    if (!zc_overlay_any(e))
        return;
    for (uintptr_t high = at + n; at < high; at = ((at >> GRAIN_SHIFT) + 1) << GRAIN_SHIFT)
        if (!zc_overlay_permits(e, at, write))
            zc_fault_probe(at, write);
}

void zc_overlay_drop(struct zc_extent *e)
{
    uint8_t *record = __atomic_exchange_n(&e->rights, NULL, __ATOMIC_ACQ_REL);
    __atomic_store_n(&e->guards, 0, __ATOMIC_RELEASE);
    if (record)
        zc_arena_put(record, grains(e));
}
