/* SPDX-License-Identifier: MIT */
/* Changes that the program makes to the pages of pairs, as steps of the state machine. */
#include "shared/remap.h"

#include "shared/access.h"

static enum zc_effect step(struct zc_coherent *c, enum zc_remap what, uint64_t low, uint64_t high,
                           uint64_t *at_out)
{
    switch (what) {
    case ZC_REMAP_DISCARD:
        return zc_coherent_discard(c, low, high, at_out);
    case ZC_REMAP_GUARD:
        return zc_coherent_guard(c, low, high);
    default:
        return zc_coherent_exile(c, low, high, what == ZC_REMAP_MOVE, at_out);
    }
}

bool zc_shared_remap(struct zc_shared *p, enum zc_remap what, uintptr_t low, uintptr_t high,
                     bool *ended)
{
    struct zc_shared_hold hold;
    uint64_t at = 0;
    *ended = !zc_shared_lock(p, &hold);
    if (*ended)
        return true;
    uintptr_t base = p->pages.base;
    enum zc_effect v = step(&p->pages, what, low - base, high - base, &at);
    zc_shared_unlock(p, &hold);
    if (v == ZC_EFFECT_CONFLICT)
        zc_shared_resolve_lost(p, at, what != ZC_REMAP_MOVE);
    return v == ZC_EFFECT_DONE;
}
