/* SPDX-License-Identifier: MIT */
/* Both sides of a copy, made accessible and held so while the CPU goes over them. */
#ifndef ZC_SHARED_SIDES_H
#define ZC_SHARED_SIDES_H

#include "driver/copy.h"
#include "shared/pair.h"

/* What one piece of a copy touches; on the stack.  While it is open no page of its pairs changes
 * its state, so the CPU can go over it without a fault, and other threads' accesses wait. */
struct zc_sides {
    struct zc_copy *copy;          /* That it is a piece of. */
    struct zc_operand *dst, *src;  /* NULL for a side that is not touched. */
    CUdeviceptr to, from;          /* First bytes. */
    size_t bytes;                  /* Length of both. */
    struct zc_shared *held[2];     /* Pairs under lock, in the order of their addresses, or NULL. */
    struct zc_shared_hold hold[2]; /* As by zc_shared_lock(). */
};

/* Makes the source readable and the target writable, and holds both.  Sides whose pair has ended or
 * has just been made are looked up again.  On failure nothing is held: the copy is `answered`. */
CUresult zc_sides_open(struct zc_sides *sides);
void zc_sides_close(struct zc_sides *sides);

/* What an effect on a page of a pair comes to for a copy of the program's.  On failure the copy is
 * `answered`. */
CUresult zc_sides_answer(struct zc_copy *copy, struct zc_shared *pair, enum zc_effect effect,
                         uint64_t at);

#endif
