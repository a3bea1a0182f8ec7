/* SPDX-License-Identifier: MIT */
/* Extents of the host heap that a device block lives in. */
#include <sched.h>

#include "host/extent.h"
#include "host/hostheap.h"

struct election {
    bool (*wants)(const struct zc_extent *extent, void *arg);
    void *arg;
    struct zc_extent *winner;
};

static void vote(struct zc_extent *e, void *arg)
{
    struct election *v = arg;
    if (e->use == ZC_EXTENT_BLOCK && e->live && !e->lead && zc_hostheap_mine(e) && !e->owner &&
        !__atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&e->claim, __ATOMIC_ACQUIRE) == ZC_CLAIM_NONE &&
        !__atomic_load_n(&e->visits, __ATOMIC_ACQUIRE) &&
        (!v->winner || e->serial < v->winner->serial) && v->wants(e, v->arg))
        v->winner = e;
}

static bool take(struct zc_extent *e, uint32_t claim)
{
    uint32_t none = ZC_CLAIM_NONE;
    return __atomic_compare_exchange_n(&e->claim, &none, claim, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* A visit counts itself before it looks at the claim, so one of both sees the other.  Before the
 * claim was taken another device block may have moved in, or the owner have resized its block. */
static bool move_in(const struct election *v)
{
    struct zc_extent *e = v->winner;
    if (!take(e, ZC_CLAIM_DEVICE))
        return false;
    if (!__atomic_load_n(&e->visits, __ATOMIC_SEQ_CST) &&
        !__atomic_load_n(&e->shared, __ATOMIC_SEQ_CST) && v->wants(e, v->arg))
        return true;
    zc_hostheap_elected(e);
    return false;
}

bool zc_hostheap_visit(struct zc_extent *e)
{
    __atomic_fetch_add(&e->visits, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&e->claim, __ATOMIC_SEQ_CST) != ZC_CLAIM_DEVICE &&
        !__atomic_load_n(&e->shared, __ATOMIC_SEQ_CST))
        return true;
    zc_hostheap_part(e);
    while (__atomic_load_n(&e->claim, __ATOMIC_ACQUIRE) == ZC_CLAIM_DEVICE)
        sched_yield();
    return false;
}

void zc_hostheap_part(struct zc_extent *e)
{
    __atomic_fetch_sub(&e->visits, 1, __ATOMIC_RELEASE);
}

struct zc_extent *zc_hostheap_elect(bool (*wants)(const struct zc_extent *extent, void *arg),
                                    void *arg)
{
    struct election v = {wants, arg, NULL};
    if (!zc_heap_enter())
        return NULL;
    do {
        v.winner = NULL;
        zc_extent_each(vote, &v);
    } while (v.winner && !move_in(&v));
    zc_heap_leave();
    return v.winner;
}

void zc_hostheap_elected(struct zc_extent *extent)
{
    __atomic_store_n(&extent->claim, ZC_CLAIM_NONE, __ATOMIC_SEQ_CST);
}

void zc_hostheap_claim(struct zc_extent *extent)
{
    while (zc_hostheap_mine(extent) && !take(extent, ZC_CLAIM_OWNER))
        sched_yield();
}

void zc_hostheap_unclaim(struct zc_extent *extent)
{
    __atomic_store_n(&extent->claim, ZC_CLAIM_NONE, __ATOMIC_SEQ_CST);
}

void zc_hostheap_vacate(struct zc_extent *extent)
{
    bool inside = zc_heap_enter();
    extent->slot[0].size = 0;
    extent->slot[0].dirty = true;
    extent->live = 0;
    extent->use = ZC_EXTENT_LIMBO;
    if (inside)
        zc_heap_leave();
}

struct zc_slot *zc_hostheap_occupy(struct zc_extent *extent, size_t size)
{
    bool inside = zc_heap_enter();
    extent->lead = 0;
    zc_heap_occupy(extent, size);
    if (inside)
        zc_heap_leave();
    return &extent->slot[0];
}
