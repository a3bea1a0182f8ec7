/* SPDX-License-Identifier: MIT */
/* Keeps apart those that use an extent of the host heap: copies, its owner, and device blocks that
 * become one with its block. */
#include "host/visits.h"

#include "base/wait.h"

static bool take_claim(struct zc_extent *e, uint32_t claim)
{
    uint32_t none = ZC_CLAIM_NONE;
    return __atomic_compare_exchange_n(&e->claim, &none, claim, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

/* A visit counts itself before it looks at the claim, so one of both sees the other. */
void zc_hostheap_visit(struct zc_extent *e)
{
    for (;;) {
        __atomic_fetch_add(&e->visits, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&e->claim, __ATOMIC_SEQ_CST) != ZC_CLAIM_DEVICE)
            return;
        zc_hostheap_leave(e);
        while (__atomic_load_n(&e->claim, __ATOMIC_ACQUIRE) == ZC_CLAIM_DEVICE)
            zc_wait(&e->claim, ZC_CLAIM_DEVICE);
    }
}

void zc_hostheap_leave(struct zc_extent *e)
{
    __atomic_fetch_sub(&e->visits, 1, __ATOMIC_RELEASE);
}

void zc_hostheap_claim(struct zc_extent *extent)
{
    while (zc_hostheap_mine(extent) && !take_claim(extent, ZC_CLAIM_OWNER)) {
        uint32_t claim = __atomic_load_n(&extent->claim, __ATOMIC_RELAXED);
        if (claim != ZC_CLAIM_NONE)
            zc_wait(&extent->claim, claim);
    }
}

bool zc_hostheap_claim_for_device(struct zc_extent *extent)
{
    return take_claim(extent, ZC_CLAIM_DEVICE);
}

void zc_hostheap_unclaim(struct zc_extent *extent)
{
    __atomic_store_n(&extent->claim, ZC_CLAIM_NONE, __ATOMIC_SEQ_CST);
    zc_wake(&extent->claim);
}
