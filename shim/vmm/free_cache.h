/* SPDX-License-Identifier: MIT */
/* A cache of freed vmm blocks, still mapped, for the next request of their size. */
#ifndef ZC_VMM_FREE_CACHE_H
#define ZC_VMM_FREE_CACHE_H

#include "vmm/vmm.h"

/* Takes a freed block of the same size and device for a new request: attached whole, and counted
 * against the limits.  NULL if there is none. */
struct zc_backing *zc_free_cache_take(const struct zc_want *want);

/*
 * Takes over a block that the program has freed and nothing uses any more; it is claimed, or
 * quarantined already.  Older blocks are given back so that no more than a sixteenth of the
 * device's memory is kept.  The block stays in the ledger, quarantined.  Returns false, and does
 * nothing, if the block is not to be kept.
 */
bool zc_free_cache_keep(struct zc_block *block);

/* True if a block may be kept: a vmm block, not too large, attached whole, and not lazy. */
bool zc_free_cache_fits(const struct zc_block *block);

/* Gives all kept blocks back to the driver, and returns how many. */
unsigned zc_free_cache_trim(void);

/* Bytes of kept blocks on the current device. */
uint64_t zc_free_cache_bytes(void);

#endif
