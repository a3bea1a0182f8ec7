/* SPDX-License-Identifier: MIT */
/*
 * A host block and a device block on the same pages: what a copy between both has to move.
 *
 * The program believes in two memories: h, the host block, and d, the device block.  Each has an
 * address of its own.  G is a page of the file that h was made of.  d always shows G, to the GPU,
 * which may only read it, and to libzc.  What h shows is the kernel's to know (host/memfile.h,
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

/* What a copy between h and d came to: bytes that nobody had to copy, and that the CPU copied. */
struct zc_moved {
    uint64_t elided, copied;
};

/* Copies of the program's from h, the block of an extent, to d, and from d to h: the bytes
 * [low, high) of both.  The first returns false where h is frozen and differs, or can't become a
 * private view: then not all was copied. */
bool zc_coherent_to_device(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high,
                           struct zc_moved *moved);
void zc_coherent_to_host(struct zc_extent *h, uintptr_t d, uint64_t low, uint64_t high,
                         struct zc_moved *moved);

/* True where a copy from h to d would have to copy bytes into G. */
bool zc_coherent_differs(const struct zc_extent *h, uint64_t low, uint64_t high);

/* True when it has cost more to keep device blocks one with the host block than it saved, by what
 * all copies of them came to. */
bool zc_coherent_cooling(const struct zc_extent *h);
