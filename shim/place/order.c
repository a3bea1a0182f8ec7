/* SPDX-License-Identifier: MIT */
/* The order in which launches name blocks that move. */
#include "place/order.h"

#include "base/arena.h"

#define ALIKE 16u /* Most uses that are compared once the order has changed. */

/* So many of the last uses are those up to the i-th. */
static unsigned alike(const struct zc_order *o, uint64_t i)
{
    unsigned n = 0;
    while (n < ALIKE && n < i && zc_order_at(o, i - n) == zc_order_at(o, o->count - n))
        n++;
    return n;
}

/* Once the order has changed, it goes on as behind the use that most before it are like those
 * before this one, of these the last; where a block is new, as it did. */
void zc_order_note(struct zc_order *o, const struct zc_block *block)
{
    if (!o->used && !(o->used = zc_arena_get(ZC_ORDER * sizeof(*o->used))))
        return;
    uint64_t oldest = o->count > ZC_ORDER - ALIKE ? o->count - (ZC_ORDER - ALIKE) + 1 : 0;
    o->used[++o->count % ZC_ORDER] = block->base;
    zc_movable(zc_vmm_of(block))->last = o->count;
    o->as = o->as > oldest ? o->as : 0;
    bool follows = o->as && zc_order_at(o, o->as + 1) == block->base;
    o->as += follows;
    o->there = follows ? o->there : 0;
    o->sure = follows ? o->sure + 1 : 0;
    for (uint64_t i = o->count - 1; !follows && i > oldest && o->sure < ALIKE; i--)
        if (alike(o, i) > o->sure) {
            o->sure = alike(o, i);
            o->as = i;
        }
}

uint64_t zc_order_due(const struct zc_order *o, const struct zc_block *block)
{
    struct zc_movable *m = zc_movable(zc_vmm_of(block));
    uint64_t since = o->count - m->last;
    if (!o->as)
        return UINT32_MAX - since;
    if (o->as < m->from || o->as >= m->due) {
        m->from = o->as;
        m->due = o->as + 1;
    }
    while (m->due <= o->count && zc_order_at(o, m->due) != block->base)
        m->due++;
    return m->due <= o->count ? m->due - o->as : since;
}
