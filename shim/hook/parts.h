/* SPDX-License-Identifier: MIT */
/* Copies and sets that cross a border: of device and host memory, or of parts of pinned memory. */
#pragma once

#include "driver/copy.h"

/* The border in a side of a copy; 0 if it crosses none.  A driver crashes where it makes most
 * copies across a border, and refuses sets, so it gets none of them. */
static inline CUdeviceptr zc_parts_border(const struct zc_operand *b)
{
    CUdeviceptr border = zc_block_border(b->block, b->address);
    return border && border - b->address < b->span ? border : 0;
}

/* The side that crosses one, or NULL. */
static inline const struct zc_operand *zc_parts_side(const struct zc_copy *c)
{
    return zc_parts_border(&c->dst) ? &c->dst : zc_parts_border(&c->src) ? &c->src : NULL;
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
