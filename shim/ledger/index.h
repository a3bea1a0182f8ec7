/* SPDX-License-Identifier: MIT */
/* The ordered index of blocks: finds the block that contains an address, or tells that none does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The part of a block that the index reads, its first member.  A reader may still come to it when
 * it was removed, so its memory is never unmapped, and these words are stored as atomics. */
struct zc_index_node {
    uint64_t base;                 /* First address. */
    uint64_t size;                 /* Bytes; 0 counts as 1. */
    struct zc_index_node *side[2]; /* Nodes of smaller and of larger addresses; the index's own. */
};

/* The result of a look-up: [base, base + bytes) is part of `node`, or of none if that is NULL.  It
 * holds while zc_index_sequence is the same. */
struct zc_index_seen {
    uint64_t sequence; /* Even. */
    uint64_t base, bytes;
    struct zc_index_node *node;
};

/* Counts changes: odd during one, 0 while nothing was ever entered.  Read with acquire order. */
extern uint64_t zc_index_sequence;

/*
 * Looks an address up without a lock.  True: *seen_out is what it is in; `bytes` is 0 where that
 * can't be told again without a look-up.  False if writers interfered in each of a limited number
 * of attempts, or the caller is a signal handler that interrupted a writer.  Then only a look-up
 * under the ledger's lock can tell, and `node` is NULL.
 */
bool zc_index_find(uint64_t address, struct zc_index_seen *seen_out);

/* The functions below need the ledger's lock. */

/* Enters a node.  If one that is there overlaps, returns that, and enters nothing; else NULL. */
struct zc_index_node *zc_index_insert(struct zc_index_node *node);

/* Removes a node.  False if it is not there. */
bool zc_index_remove(struct zc_index_node *node);

/* The node with the lowest base at or above `from`, or NULL. */
struct zc_index_node *zc_index_next(uint64_t from);
