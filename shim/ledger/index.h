/* SPDX-License-Identifier: MIT */
/* The ordered index of blocks: finds the block that contains an address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_block;

/*
 * Looks an address up without a lock.  True: the block, or NULL, is in *block_out.  False if
 * writers interfered in each of a limited number of attempts, or the caller is a signal handler
 * that interrupted a writer.  Then only a look-up under the ledger's lock can tell.
 */
bool zc_index_find(uint64_t address, struct zc_block **block_out);

/* The functions below need the ledger's lock. */

/* Inserts a block for [base, end).  Returns false, and inserts nothing, if an entry overlaps, which
 * is stored in *overlap_out, or if memory ran out; then that is NULL. */
bool zc_index_insert(uint64_t base, uint64_t end, struct zc_block *block,
                     struct zc_block **overlap_out);

/* Removes the block's entry at base.  False if there is none, or it is another block's. */
bool zc_index_remove(uint64_t base, const struct zc_block *block);

/* Finds the block that begins at or below an address, and the one that begins above it, as
 * zc_index_find() does. */
bool zc_index_around(uint64_t address, struct zc_block **below_out, struct zc_block **above_out);

/* The entry with the lowest base at or above `from`, or NULL. */
struct zc_block *zc_index_next(uint64_t from);

/* Bytes from the arena. */
size_t zc_index_bytes(void);
