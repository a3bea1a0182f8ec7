/* SPDX-License-Identifier: MIT */
/* Reuses the addresses of an array that grew when it grows again. */
#ifndef ZC_VMM_REUSE_H
#define ZC_VMM_REUSE_H

#include "vmm/vmm.h"

/*
 * A program that grew an array once will grow it again.  So when a block grows, the block that
 * replaces it keeps it as its `previous`: the old addresses, in which the chunks that both had are
 * still mapped.  The next block gets these addresses, and maps only what was added since.  All
 * functions are called with the driver lock.
 */

/* Gives a block without addresses those that another block keeps, if one fits. */
void zc_reuse_adopt(struct zc_vmm *v);

/* Unmaps the chunks that another block still has in the addresses of this one, because this one
 * does not grow from it. */
CUresult zc_reuse_unalias(struct zc_vmm *v, const char **why);

/* `from` has handed its memory to `to`, and has only its addresses left.  `block` is its ledger
 * entry. */
void zc_reuse_keep(struct zc_vmm *to, struct zc_vmm *from, struct zc_block *block);

/* Gives the addresses that a block keeps back to the driver. */
void zc_reuse_drop(struct zc_vmm *v);

/* Removes every reference to a block that goes.  What is mapped in its addresses stays; the caller
 * unmaps it. */
void zc_reuse_forget(struct zc_vmm *v);

#endif
