/* SPDX-License-Identifier: MIT */
/* The addresses of blocks that grew: kept mapped, for the block that grows next. */
#ifndef ZC_VMM_REUSE_H
#define ZC_VMM_REUSE_H

#include "vmm/vmm.h"

/*
 * A program that grew an array once will grow it again.  So the addresses of the block that grew
 * away stay with the one that grew from it, as its `previous`, with the chunks mapped that both
 * had: the next block gets them, and has to map only what was added since.  All of this is done
 * with the turn of vmm/lazy.h.
 */

/* Gives a block without addresses those that another one has to spare, if one has. */
void zc_reuse_adopt(struct zc_vmm *v);

/* Unmaps what another block has in the addresses of one that does not grow from it. */
CUresult zc_reuse_unalias(struct zc_vmm *v, const char **why);

/* `from` has given its memory to `to`, and keeps nothing but its addresses.  `block` is what the
 * ledger has of it. */
void zc_reuse_keep(struct zc_vmm *to, struct zc_vmm *from, struct zc_block *block);

/* Gives the addresses that a block has to spare back to the driver. */
CUresult zc_reuse_drop(struct zc_vmm *v);

/* A block that goes: nothing is left that names it.  What is mapped in its addresses stays, for the
 * caller to unmap. */
void zc_reuse_forget(struct zc_vmm *v);

#endif
