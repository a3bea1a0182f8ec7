/* SPDX-License-Identifier: MIT */
/* Both sides of a copy, made accessible and held while the CPU copies. */
#ifndef ZC_SHARED_SIDES_H
#define ZC_SHARED_SIDES_H

#include "driver/copy.h"
#include "shared/pair.h"

/* The memory of one part of a copy; lives on the stack.  While it is open no page of its pairs
 * changes state.  So the CPU can access it without a fault, and accesses of other threads wait. */
struct zc_sides {
    struct zc_copy *copy;          /* The copy that this is a part of. */
    struct zc_operand *dst, *src;  /* NULL for a side that is not accessed. */
    CUdeviceptr to, from;          /* First bytes. */
    size_t bytes;                  /* Bytes of both. */
    struct zc_shared *held[2];     /* Locked pairs, by address, or NULL. */
    struct zc_shared_hold hold[2]; /* See zc_shared_lock(). */
};

/* Makes the source readable and the target writable, and holds both.  Looks up a side again if its
 * pair has ended or has just been made.  On failure nothing is held, and the copy is `answered`. */
CUresult zc_sides_open(struct zc_sides *sides);
void zc_sides_close(struct zc_sides *sides);

/* The code that a copy gets for an effect on a page.  On failure the copy is `answered`. */
CUresult zc_sides_answer(struct zc_copy *copy, struct zc_shared *pair, enum zc_effect effect,
                         uint64_t at);

#endif
