/* SPDX-License-Identifier: MIT */
/* The order in which launches name blocks that move, which comes again: each use is one more of an
 * earlier one, and what followed that will follow. */
#pragma once

#include "vmm/move.h"

#define ZC_ORDER 4096u /* Uses that are remembered. */

/* Of a device, with the driver lock. */
struct zc_order {
    uint64_t *used; /* The addresses of blocks, ZC_ORDER of them, */
    uint64_t count; /* so many since the start, the last one is the count-th. */
    uint64_t as;    /* The use that this one is as; 0: as none. */
    unsigned sure;  /* So many uses up to this one are as those up to that one. */
    uint64_t there; /* Those behind that one up to this one lack no block. */
};

/* The address of the block that the i-th use had. */
static inline uint64_t zc_order_at(const struct zc_order *o, uint64_t i)
{
    return o->used[i % ZC_ORDER];
}

/* One more use, of a block that moves; without memory for it there is none. */
void zc_order_note(struct zc_order *o, const struct zc_block *block);

/* Uses until that of a block, if all goes on as before; one that is not in that order has its turn
 * last.  Before there is one the last used has, as in a sweep. */
uint64_t zc_order_due(const struct zc_order *o, const struct zc_block *block);
