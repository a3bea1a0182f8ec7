/* SPDX-License-Identifier: MIT */
/* What the program does to the pages of a host block that is one with a device block. */
#ifndef ZC_SHARED_REMAP_H
#define ZC_SHARED_REMAP_H

#include "shared/pair.h"

enum zc_remap {
    ZC_REMAP_DISCARD, /* Zeroes come in the place of the pages (madvise(2), MADV_DONTNEED). */
    ZC_REMAP_GUARD,   /* The rights in the extent's record have changed. */
    ZC_REMAP_REPLACE, /* Other mappings are about to come in the place of the pages, */
    ZC_REMAP_MOVE,    /* or the pages are about to go elsewhere. */
};

/*
 * Makes a pair ready for a change of [low, high), whole pages of the CPU's; the first two are all
 * done then.  The device block keeps its content.  False when the kernel gives no memory or
 * mappings.  Nothing to do where the pair has ended meanwhile: *ended then.
 */
bool zc_shared_remap(struct zc_shared *pair, enum zc_remap what, uintptr_t low, uintptr_t high,
                     bool *ended);

#endif
