/* SPDX-License-Identifier: MIT */
/* The ordered index of blocks: finds the block that an address lies in. */
#ifndef ZC_LEDGER_INDEX_H
#define ZC_LEDGER_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_block;

/*
 * Looks an address up without a lock.  Returns true with the block, or NULL, in *block_out.
 * Returns false when writers were in the way each of a bounded number of times, or when the caller
 * is a signal handler that interrupted a writer: then only a lookup under the ledger's lock can
 * tell.
 */
bool zc_index_find(uint64_t address, struct zc_block **block_out);

/* The functions below are called with the ledger's lock held. */

/* Enters block under [base, end).  False, and nothing entered, when an entry overlaps, which goes
 * to *overlap_out, or when memory ran out; then that is NULL. */
bool zc_index_insert(uint64_t base, uint64_t end, struct zc_block *block,
                     struct zc_block **overlap_out);

/* Takes the entry of block at base out.  False when base is not there or is another block's. */
bool zc_index_remove(uint64_t base, const struct zc_block *block);

/* Looks for the blocks that begin at or below an address, and above it, as zc_index_find() does. */
bool zc_index_around(uint64_t address, struct zc_block **below_out, struct zc_block **above_out);

/* The entry with the lowest base at or above `from`, or NULL. */
struct zc_block *zc_index_next(uint64_t from);

/* Bytes that the index has taken from the arena. */
size_t zc_index_bytes(void);

/* For the child of fork(2): an empty index; its memory is the arena's to reuse. */
void zc_index_reset(void);

#endif
