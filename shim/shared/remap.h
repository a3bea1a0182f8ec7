/* SPDX-License-Identifier: MIT */
/* Changes that the program makes to the pages of a host block in a pair. */
#ifndef ZC_SHARED_REMAP_H
#define ZC_SHARED_REMAP_H

#include "shared/pair.h"

enum zc_remap {
    ZC_REMAP_DISCARD, /* The pages become zeroes (madvise(2), MADV_DONTNEED). */
    ZC_REMAP_GUARD,   /* The rights in the extent's record have changed. */
    ZC_REMAP_REPLACE, /* The pages are about to be replaced by other mappings, */
    ZC_REMAP_MOVE,    /* or are about to move elsewhere. */
};

/*
 * Prepares a pair for a change of [low, high), whole CPU pages; the first two kinds are complete
 * then.  The device block keeps its content.  False if the kernel refuses memory or mappings.  If
 * the pair has ended, does nothing and sets *ended.
 */
bool zc_shared_remap(struct zc_shared *pair, enum zc_remap what, uintptr_t low, uintptr_t high,
                     bool *ended);

#endif
