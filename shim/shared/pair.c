/* SPDX-License-Identifier: MIT */
/* Device blocks of the place `shared`: their records, locks and counts. */
#include "shared/pair.h"

#include <string.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "host/extent.h"
#include "vmm/vmm.h"

static ZC_LOCK(list, ZC_RANK_PAIRS);
static ZC_OWN struct {
    struct zc_shared *live, *ended; /* Ended ones are for reuse. */
} pairs;                            /* Under the lock. */
ZC_OWN uint32_t zc_shared_ones;
ZC_OWN uint32_t zc_shared_undecided;

bool zc_shared_lock_host(struct zc_shared *p, const struct zc_extent *e)
{
    if (!p || !e)
        return false;
    zc_word_lock(&p->owner);
    if (p->one && p->extent == e && p->era == zc_extent_era)
        return true;
    zc_word_unlock(&p->owner);
    return false;
}

struct zc_shared *zc_shared_of(const struct zc_block *block)
{
    struct zc_vmm *v = block && block->place == ZC_PLACE_SHARED ? zc_vmm_of(block) : NULL;
    return v ? v->pair : NULL;
}

struct zc_shared *zc_shared_at(uint64_t address)
{
    const struct zc_extent *e = zc_hostheap_owns(address) ? zc_hostheap_extent(address) : NULL;
    return e ? __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) : NULL;
}

struct zc_shared *zc_shared_new(const struct zc_rule *rule)
{
    if (!zc_lock_take(&list))
        return NULL;
    struct zc_shared *p = pairs.ended ? pairs.ended : zc_arena_get(sizeof(*p));
    if (p) {
        pairs.ended = pairs.ended ? p->next : NULL;
        /* A thread that came too late may hold the lock, and give it back at any time. */
        memset((char *)p + sizeof(p->owner), 0, sizeof(*p) - sizeof(p->owner));
        p->era = zc_extent_era;
        p->rule = rule;
        p->names.why = "no host block of place 'shared' was copied into it first";
        DL_PREPEND2(pairs.live, p, before, next);
    }
    zc_lock_drop(&list);
    return p;
}

void zc_shared_end(struct zc_shared *p)
{
    if (!zc_lock_take(&list))
        return;
    DL_DELETE2(pairs.live, p, before, next);
    p->next = pairs.ended;
    pairs.ended = p;
    zc_lock_drop(&list);
}

void zc_shared_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg)
{
    ZC_LOCK_HELD(mine, &list);
    for (struct zc_shared *p = mine ? pairs.live : NULL; p; p = p->next)
        visit(p, arg);
}

struct zc_shared *zc_shared_find(bool (*fits)(const struct zc_shared *pair))
{
    ZC_LOCK_HELD(mine, &list);
    struct zc_shared *p = mine ? pairs.live : NULL;
    while (p && !fits(p))
        p = p->next;
    return p;
}

/* The extent's memory is the device block's now, and no other host block's. */
void zc_shared_host_gone(struct zc_extent *e)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    if (!zc_shared_lock_host(p, e))
        return;
    p->extent = NULL;
    __atomic_store_n(&e->no_reuse, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->pin, ZC_PIN_NONE, __ATOMIC_RELEASE);
    __atomic_store_n(&e->shared, NULL, __ATOMIC_RELEASE);
    zc_word_unlock(&p->owner);
}
