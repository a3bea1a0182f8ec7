/* SPDX-License-Identifier: MIT */
/* Copies and sets that cross a border: between device and host memory in a split block, or between
 * the parts in which pinned memory is registered. */
#pragma once

#include "driver/copy.h"

/* The border in a side of a copy; 0 if it crosses none.  A driver crashes where it makes most
 * copies across a border, and refuses sets, so it gets none of them. */
static inline CUdeviceptr zc_parts_border(const struct zc_operand *b)
{
    CUdeviceptr border = zc_block_border(b->block, b->address);
    return border && border - b->address < b->span ? border : 0;
}

/* True for what the driver may not copy or set across a border.  It takes linear copies between the
 * device memory of a split block and arrays (tests/gpu/border_facts.h200.txt). */
static inline bool zc_parts_any(const struct zc_copy *c)
{
    enum zc_side to = c->dst.side, from = c->src.side;
    const struct zc_block *split = c->shape != ZC_SHAPE_LINE                       ? NULL
                                   : to == ZC_SIDE_ARRAY && from == ZC_SIDE_DEVICE ? c->src.block
                                   : to == ZC_SIDE_DEVICE && from == ZC_SIDE_ARRAY ? c->dst.block
                                                                                   : NULL;
    bool taken = split && (split->flags & ZC_BLOCK_SPLIT);
    return !taken && (zc_parts_border(&c->dst) || zc_parts_border(&c->src));
}

/* Makes each part as if the program had asked for it: decides, makes and records it, by
 * zc_copy_begin() and zc_copy_end().  c->result is
 * the first code of a failure, which has been explained.  What can't be divided is refused:
 * c->result says so, and the caller explains it. */
struct zc_parts_calls {
    bool (*begin)(struct zc_copy *c);
    CUresult (*end)(struct zc_copy *c);
};
void zc_parts_copy(struct zc_copy *c, const struct zc_parts_calls *calls);

/* Adds a graph of the parts as the node that c->behind asks for.  Returns the driver's code, or
 * that for what can't be divided.  The program may launch, clone and destroy it, and not change it.
 */
CUresult zc_parts_node(struct zc_copy *c);
