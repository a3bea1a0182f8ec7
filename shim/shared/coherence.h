/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages: what a copy between both has to move.
 *
 * The program believes in two memories: h, the host block, and d, the device block.  Each has an
 * address of its own.  G is a page of the file that h was made of.  d always shows G, to the GPU,
 * which may only read it, and to libzc.  The kernel knows which page h shows (host/memfile.h,
 * host/pagemap.h):
 *
 *   page    h shows          the CPU writes h    a copy from h to d            from d to h
 *   ALONE   G                writes G            nothing moves; becomes SAME   nothing moves
 *   SAME    G                it becomes APART    nothing moves                 nothing moves
 *   APART   its own page     writes that         its bytes are copied to G     G's are copied to it
 *
 * ALONE are the pages behind all that was ever copied to a device.  Whatever writes a SAME page,
 * Linux gives h a page of its own, for good: to show G there again could lose what another thread
 * is writing, and a page that a device of the program's has pinned.
 *
 * What is written to G was APART before, so that neither h nor a child of fork(2) shows it.  A
 * child does show the pages that are SAME when it is made: from then on the block is frozen, and
 * nothing may be written to G.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "host/hostheap.h"

/* Bytes of a copy between h and d that did not have to be copied, and that the CPU copied. */
struct zc_moved {
    uint64_t elided, copied;
};

/* A copy of the program's from h, the block of an extent, to d (`in`), or from d to h: the bytes
 * [low, high) of both.  With the lock of the device block; counts in the extent.  False where h is
 * frozen and differs, or can't become a private view: then not all was copied to d. */
bool zc_coherent_copy(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high, bool in,
                      struct zc_moved *moved);

/* True where a copy from h to d would have to copy bytes into G. */
bool zc_coherent_differs(const struct zc_extent *h, uint64_t low, uint64_t high);

/* True when it has cost more to keep device blocks one with the host block than it saved, by what
 * all copies of them came to. */
bool zc_coherent_unprofitable(const struct zc_extent *h);
