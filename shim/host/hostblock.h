/* SPDX-License-Identifier: MIT */
/* The ledger's blocks for memory of the host heap that libc was asked for, also while they are in a
 * pair. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"

struct zc_extent;
struct zc_slot;

/* The slot of a live block of libc's, else NULL.  Pinned memory that the program asked the driver
 * for lies in the heap too, and is nothing to libc. */
struct zc_slot *zc_hostblock_slot(const void *p);

/* A block of libc's is complete, and nobody has its address yet: enters it into the ledger, once
 * that has others.  False without memory for it. */
bool zc_hostblock_enter(void *p, struct zc_slot *slot);

/* The owner of a block frees or resizes it: takes it out, with a line of its free. */
void zc_hostblock_leave(void *p);

/* libzc starts: enters all blocks, which may be older, or inherited by a child of fork(2).  A block
 * that could not be entered stays pageable. */
void zc_hostblock_list(void);

/* The same of the block at an address, with `say` alone with a line: none where the program
 * registers memory there itself. */
void zc_hostblock_unlist(uint64_t address, bool say);

/* The last such registration in an extent ends, whose `pin` the caller holds: what it hid, or
 * displaced in the ledger, is entered again.  False if that was not possible. */
bool zc_hostblock_relist(const struct zc_extent *extent);
