/* SPDX-License-Identifier: MIT */
/* Resizes large blocks of the host heap by page tables, without copying: for realloc(3). */
#include "host/extent.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/limits.h"

/* The driver knows pages by their addresses, so registered memory must stay as it is, and a file
 * has the length that it has.  While `pin` is MAKING nobody registers the extent. */
static bool resize_claim(struct zc_extent *e)
{
    uint32_t none = ZC_PIN_NONE;
    return e->use == ZC_EXTENT_BLOCK && !e->inode && zc_hostheap_mine(e) &&
           !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE) &&
           __atomic_compare_exchange_n(&e->pin, &none, ZC_PIN_MAKING, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

static struct zc_extent *resize_shrink(struct zc_extent *e, uint32_t units)
{
    struct zc_extent *rest = zc_extent_cut(e, units);
    if (!rest)
        return NULL;
    zc_limits_give(ZC_PLACE_PINNED, -1, zc_extent_span(rest));
    zc_extent_unback(rest);
    zc_heap_bury(rest);
    return e;
}

static bool grow_in_place(struct zc_extent *e, uint32_t units)
{
    uint32_t had = e->units;
    if (!zc_heap_lock())
        return false;
    bool longer = zc_extent_stretch(e, units);
    zc_heap_unlock();
    if (!longer || zc_extent_back(e, had))
        return longer;
    struct zc_extent *rest = zc_extent_cut(e, had);
    if (rest)
        zc_heap_bury(rest);
    return false;
}

/* Copies the record of a block whose pages have moved. */
static void take_over(struct zc_extent *to, const struct zc_extent *from)
{
    to->era = from->era;
    to->copied = from->copied;
    to->prefaulted = from->prefaulted;
    to->small = from->small;
    to->lead = from->lead;
    to->inherited = from->inherited;
    to->live = 1;
    to->slot[0] = from->slot[0];
    __atomic_store_n(&to->pin, ZC_PIN_MAKING, __ATOMIC_RELEASE);
    to->use = ZC_EXTENT_BLOCK;
}

static struct zc_extent *grow_elsewhere(struct zc_extent *e, uint32_t units)
{
    bool intact = true;
    struct zc_extent *to = zc_heap_carve(units);
    if (!to)
        return NULL;
    if (!zc_extent_back(to, e->units) || !zc_extent_move(e, to, &intact)) {
        if (intact) {
            zc_extent_unback(to);
            zc_heap_bury(to);
        }
        return NULL;
    }
    if (zc_heap_lock()) {
        take_over(to, e);
        e->prefaulted = 0;
        e->use = ZC_EXTENT_NONE;
        zc_pinned_release(e, ZC_PIN_NONE);
        zc_extent_bury(e);
        zc_heap_unlock();
    }
    return to;
}

static struct zc_extent *resize_grow(struct zc_extent *e, uint32_t units)
{
    const char *why;
    uint32_t had = e->units;
    size_t more = (size_t)(units - had) << ZC_HOST_UNIT_SHIFT;
    bool taken = zc_limits_take(ZC_PLACE_PINNED, -1, more, &why);
    if (!taken) { /* By what the pool has. */
        zc_hostheap_tidy(true);
        taken = zc_limits_take(ZC_PLACE_PINNED, -1, more, &why);
    }
    if (!taken)
        return NULL;
    struct zc_extent *grown = grow_in_place(e, units) ? e : grow_elsewhere(e, units);
    if (!grown)
        zc_limits_give(ZC_PLACE_PINNED, -1, more);
    return grown;
}

void *zc_hostheap_resize(void *p, size_t size, struct zc_slot **slot_out)
{
    struct zc_extent *e = zc_hostheap_extent((uintptr_t)p), *now;
    /* Smaller sizes belong into slabs.  Larger ones must not wrap around in the computation
     * below. */
    if (size <= ZC_HOST_UNIT / 2 || size > zc_hostheap.bytes - e->lead || !resize_claim(e))
        return NULL;
    uint64_t units = zc_extent_units(size + e->lead);
    size_t had = zc_extent_span(e);
    now = units > e->units   ? resize_grow(e, (uint32_t)units)
          : units < e->units ? resize_shrink(e, (uint32_t)units)
                             : e;
    zc_pinned_release(now ? now : e, ZC_PIN_NONE);
    if (!now)
        return NULL;
    if (!now->slot[0].dirty && now->lead + size > had)
        zc_extent_prefault(now, had, had + zc_heap_may_prefault(now, now->lead + size - had));
    *slot_out = &now->slot[0];
    return (void *)(zc_extent_base(now) + now->lead);
}
