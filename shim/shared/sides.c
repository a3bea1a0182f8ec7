/* SPDX-License-Identifier: MIT */
/* Holds both sides of a copy.  Pairs are locked in the order of their addresses, so that two copies
 * never deadlock. */
#include "shared/sides.h"

#include "base/life.h"
#include "ledger/rules.h"
#include "log/refusals.h"
#include "shared/report.h"
#include "shared/transfer.h"

CUresult zc_sides_answer(struct zc_copy *copy, struct zc_shared *p, enum zc_effect v, uint64_t at)
{
    if (v == ZC_EFFECT_DONE)
        return CUDA_SUCCESS;
    copy->answered = true;
    zc_refusal_count(zc_rules(), p->rule);
    if (v == ZC_EFFECT_REFUSED) {
        zc_shared_stuck(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    __atomic_fetch_add(&p->conflicts, 1, __ATOMIC_RELAXED);
    zc_shared_conflict(p, ZC_CULPRIT_COPY, at);
    return CUDA_ERROR_INVALID_VALUE;
}

void zc_sides_close(struct zc_sides *s)
{
    for (int i = 1; i >= 0; i--)
        if (s->held[i])
            zc_shared_unlock(s->held[i], &s->hold[i]);
    s->held[0] = s->held[1] = NULL;
}

/* Other threads pair and free blocks meanwhile.  If the pair of a host block has ended, the block
 * is the heap's alone.  If a device block is freed during a copy, that is the program's error. */
static bool current(struct zc_operand *b, CUdeviceptr address)
{
    struct zc_shared *p = b ? zc_shared_at(address) : NULL;
    if (!b || p == b->pair)
        return true;
    if (p && zc_shared_resolve(b))
        return false;
    bool ended = !p && b->pair;
    if (ended)
        b->pair = NULL;
    return !ended;
}

static bool hold(struct zc_sides *s)
{
    struct zc_shared *a = s->dst ? s->dst->pair : NULL, *b = s->src ? s->src->pair : NULL;
    struct zc_shared *order[2] = {a && (!b || a < b) ? a : b, a && (!b || a < b) ? b : a};
    if (order[1] == order[0])
        order[1] = NULL;
    for (int i = 0; i < 2; i++) {
        s->held[i] = NULL;
        if (!order[i])
            continue;
        if (!zc_shared_lock(order[i], &s->hold[i])) {
            zc_sides_close(s);
            return false;
        }
        s->held[i] = order[i];
    }
    return true;
}

/* Prepares one side's pages, under the lock. */
static enum zc_effect make_ready(const struct zc_sides *s, bool target, struct zc_shared **pair_out,
                                 uint64_t *at_out)
{
    const struct zc_operand *b = target ? s->dst : s->src;
    if (!b || !b->pair)
        return ZC_EFFECT_DONE;
    struct zc_shared *p = *pair_out = b->pair;
    uint64_t low = (target ? s->to : s->from) - p->pages.base;
    if (target && !b->host)
        p->written = true;
    return (b->host ? zc_coherent_host : zc_coherent_device)(&p->pages, low, low + s->bytes, target,
                                                             at_out);
}

CUresult zc_sides_open(struct zc_sides *s)
{
    for (;;) {
        bool held = hold(s);
        bool known = current(s->src, s->from);
        known = current(s->dst, s->to) && known;
        struct zc_shared *p = NULL;
        uint64_t at = 0;
        if (!held || !known) {
            if (held)
                zc_sides_close(s);
            if (!held && known) {
                s->copy->answered = true; /* The program has freed the block meanwhile. */
                return CUDA_ERROR_INVALID_VALUE;
            }
            continue;
        }
        enum zc_effect v = make_ready(s, false, &p, &at);
        if (v == ZC_EFFECT_DONE)
            v = make_ready(s, true, &p, &at);
        if (v == ZC_EFFECT_DONE)
            return CUDA_SUCCESS;
        zc_sides_close(s);
        return zc_sides_answer(s->copy, p, v, at);
    }
}
