/* SPDX-License-Identifier: MIT */
/* The ordered index of blocks: finds the block that contains an address, or tells that none does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_block;

/* The result of a look-up: [base, base + bytes) is part of `block`, or of none if that is NULL.  It
 * holds while zc_index_sequence is the same. */
struct zc_index_seen {
    uint64_t sequence; /* Even, and never 0. */
    uint64_t base, bytes;
    struct zc_block *block;
};

/* Counts changes: odd during one, 0 while nothing was ever entered.  Read with acquire order. */
extern uint64_t zc_index_sequence;

/*
 * Looks an address up without a lock.  True: *seen_out is what it is in; `bytes` is 0 where that
 * can't be told again without a look-up.  False if writers interfered in each of a limited number
 * of attempts, or the caller is a signal handler that interrupted a writer.  Then only a look-up
 * under the ledger's lock can tell, and `block` is NULL.
 */
bool zc_index_find(uint64_t address, struct zc_index_seen *seen_out);

/* The functions below need the ledger's lock. */

/* Inserts a block for [base, end).  Returns false, and inserts nothing, if an entry overlaps, which
 * is stored in *overlap_out, or if memory ran out; then that is NULL. */
bool zc_index_insert(uint64_t base, uint64_t end, struct zc_block *block,
                     struct zc_block **overlap_out);

/* Removes the block's entry at base.  False if there is none, or it is another block's. */
bool zc_index_remove(uint64_t base, const struct zc_block *block);

/* The entry with the lowest base at or above `from`, or NULL. */
struct zc_block *zc_index_next(uint64_t from);

/* Bytes from the arena. */
size_t zc_index_bytes(void);
