/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` that were freed, kept mapped for the next request of their size. */
#ifndef ZC_VMM_FREE_CACHE_H
#define ZC_VMM_FREE_CACHE_H

#include "vmm/vmm.h"

/* Memory for a new request that a freed block of its size and device has left, attached whole and
 * counted against the limits; NULL if there is none. */
struct zc_backing *zc_free_cache_take(const struct zc_want *want);

/*
 * Takes over a claimed block or a quarantined one that the program has freed and nothing uses any
 * more, giving back older ones where a device would then have more than a sixteenth of its memory
 * kept. It stays in the ledger, quarantined.  False, and nothing done, if it is not to be kept.
 */
bool zc_free_cache_keep(struct zc_block *block);

/* Whether a block may be kept: of vmm, not too large, attached whole, and not lazy. */
bool zc_free_cache_fits(const struct zc_block *block);

/* Gives all kept blocks back to the driver, and returns how many. */
unsigned zc_free_cache_trim(void);

/* Bytes that the current device has in kept blocks. */
uint64_t zc_free_cache_bytes(void);

#endif
