/* Extents of the host heap that a device block lives in. */
#include <sched.h>

#include "place/extent.h"
#include "place/hostheap.h"

struct election {
    bool (*wants)(const struct zc_extent *extent, void *arg);
    void *arg;
    struct zc_extent *winner;
};

static void vote(struct zc_extent *e, void *arg)
{
    struct election *v = arg;
    if (e->use == ZC_EXTENT_BLOCK && e->live && zc_hostheap_mine(e) && !e->owner &&
        !__atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&e->claim, __ATOMIC_ACQUIRE) == ZC_CLAIM_NONE &&
        (!v->winner || e->serial < v->winner->serial) && v->wants(e, v->arg))
        v->winner = e;
}

static bool take(struct zc_extent *e, uint32_t claim)
{
    uint32_t none = ZC_CLAIM_NONE;
    return __atomic_compare_exchange_n(&e->claim, &none, claim, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
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
    } while (v.winner && !take(v.winner, ZC_CLAIM_DEVICE));
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
    zc_heap_occupy(extent, size);
    if (inside)
        zc_heap_leave();
    return &extent->slot[0];
}
