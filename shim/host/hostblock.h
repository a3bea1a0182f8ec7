/* SPDX-License-Identifier: MIT */
/* The ledger's blocks for memory of the host heap that libc was asked for, also while they are in a
 * pair. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"

struct zc_extent;
struct zc_shared;
struct zc_slot;

/* The slot of a live block of libc's, else NULL.  Pinned memory that the program asked the driver
 * for lies in the heap too, and is nothing to libc. */
struct zc_slot *zc_hostblock_slot(const void *p);

/* Enters the block at `base`, whose slot lies in the extent.  NULL without memory for it. */
struct zc_block *zc_hostblock_enter(uintptr_t base, const struct zc_slot *slot,
                                    const struct zc_extent *extent);

/* The ledger's block for an address in the heap, entered at its first use where it was asked for
 * before CUDA was up.  NULL when there is no live block or no memory for it. */
struct zc_block *zc_hostblock_find(uint64_t address);

/* Takes the block at the address out; `say` writes the line of its free. */
void zc_hostblock_unlist(uint64_t address, bool say);
