/* SPDX-License-Identifier: MIT */
/* Chooses the extent of the host heap that a device block will use. */
#include "base/wait.h"
#include "host/extent.h"
#include "host/hostheap.h"

struct pairing {
    bool (*wants)(const struct zc_extent *extent, void *arg);
    void *arg;
    struct zc_extent *best;
};

static void consider(struct zc_extent *e, void *arg)
{
    struct pairing *p = arg;
    if (e->use == ZC_EXTENT_BLOCK && e->live && !e->lead && zc_hostheap_mine(e) && !e->owner &&
        !__atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&e->claim, __ATOMIC_ACQUIRE) == ZC_CLAIM_NONE &&
        !__atomic_load_n(&e->visits, __ATOMIC_ACQUIRE) &&
        (!p->best || e->serial < p->best->serial) && p->wants(e, p->arg))
        p->best = e;
}

static bool take_claim(struct zc_extent *e, uint32_t claim)
{
    uint32_t none = ZC_CLAIM_NONE;
    return __atomic_compare_exchange_n(&e->claim, &none, claim, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* A visit counts itself before it reads the claim, and the claim is taken before the visits are
 * read, so one of the two sees the other.  Before the claim was taken, another device block may
 * have come, or the owner may have resized its block. */
static bool move_in(const struct pairing *p)
{
    struct zc_extent *e = p->best;
    if (!take_claim(e, ZC_CLAIM_DEVICE))
        return false;
    if (!__atomic_load_n(&e->visits, __ATOMIC_SEQ_CST) &&
        !__atomic_load_n(&e->shared, __ATOMIC_SEQ_CST) && p->wants(e, p->arg))
        return true;
    zc_hostheap_unclaim(e);
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
        zc_wait(&e->claim, ZC_CLAIM_DEVICE);
    return false;
}

void zc_hostheap_part(struct zc_extent *e)
{
    __atomic_fetch_sub(&e->visits, 1, __ATOMIC_RELEASE);
}

struct zc_extent *zc_hostheap_pair(bool (*wants)(const struct zc_extent *extent, void *arg),
                                   void *arg)
{
    struct pairing p = {wants, arg, NULL};
    if (!zc_heap_lock())
        return NULL;
    do {
        p.best = NULL;
        zc_extent_each(consider, &p);
    } while (p.best && !move_in(&p));
    zc_heap_unlock();
    return p.best;
}

void zc_hostheap_claim(struct zc_extent *extent)
{
    while (zc_hostheap_mine(extent) && !take_claim(extent, ZC_CLAIM_OWNER)) {
        uint32_t claim = __atomic_load_n(&extent->claim, __ATOMIC_RELAXED);
        if (claim != ZC_CLAIM_NONE)
            zc_wait(&extent->claim, claim);
    }
}

void zc_hostheap_unclaim(struct zc_extent *extent)
{
    __atomic_store_n(&extent->claim, ZC_CLAIM_NONE, __ATOMIC_SEQ_CST);
    zc_wake(&extent->claim);
}

void zc_hostheap_vacate(struct zc_extent *extent)
{
    bool inside = zc_heap_lock();
    extent->slot[0].size = 0;
    extent->slot[0].dirty = true;
    extent->live = 0;
    extent->use = ZC_EXTENT_LIMBO;
    if (inside)
        zc_heap_unlock();
}

struct zc_slot *zc_hostheap_occupy(struct zc_extent *extent, size_t size)
{
    bool inside = zc_heap_lock();
    extent->lead = 0;
    zc_heap_occupy(extent, size);
    if (inside)
        zc_heap_unlock();
    return &extent->slot[0];
}
