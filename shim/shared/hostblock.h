/* SPDX-License-Identifier: MIT */
/* The ledger's entries for blocks of the host heap that libc was asked for, also while they are in
 * a pair. */
#ifndef ZC_SHARED_HOSTBLOCK_H
#define ZC_SHARED_HOSTBLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"

struct zc_extent;
struct zc_shared;
struct zc_slot;

/* The slot of a live block that libc was asked for, else NULL; also NULL for pinned memory that the
 * program asked the driver for. */
struct zc_slot *zc_hostblock_slot(const void *p);

/* Enters the block at `base`, whose slot is in the extent.  NULL if there is no memory for it. */
struct zc_block *zc_hostblock_enter(uintptr_t base, const struct zc_slot *slot,
                                    const struct zc_extent *extent);

/* The ledger's entry for an address in the heap.  A block from before CUDA was up is entered at its
 * first use.  NULL if there is no live block, or no memory for the entry. */
struct zc_block *zc_hostblock_find(uint64_t address);

/* Removes the block at the address; `say` writes its `free` line. */
void zc_hostblock_unlist(uint64_t address, bool say);

/* A device block begins, or ends, to use the extent of a host block.  Meanwhile the ledger keeps
 * the host block at its shadow's address. */
void zc_hostblock_hide(struct zc_shared *pair);
void zc_hostblock_unhide(struct zc_shared *pair);

#endif
