/* SPDX-License-Identifier: MIT */
/* Copies of growing arrays that become remaps. */
#ifndef ZC_VMM_GROW_H
#define ZC_VMM_GROW_H

#include "driver/copy.h"
#include "vmm/vmm.h"

/*
 * A program grows an array by asking for a larger block, copying the smaller one into it and
 * freeing that.  The copy stays pending: nothing has memory twice.  When the small block is freed
 * its physical memory becomes the beginning of the large one's; when something could tell the
 * difference before that (a launch, a copy, a set), memory is attached and the copy is made.
 */

/*
 * A transfer that touches a block that is attached lazily.  True when it is answered: it stays
 * pending, or c->result is the code of the driver call that failed to make the block ready for it.
 */
bool zc_grow_copy(struct zc_copy *c);

/* Makes one block ready for a call that looks at its addresses; says why where it can't. */
CUresult zc_grow_materialize(const struct zc_block *block, enum zc_fn fn);

/*
 * The program frees a claimed block that nothing uses any more, or, with `busy`, work given
 * before: one that is copied into another hands its memory over.  Then *kept_out is true: its
 * addresses stay mapped for the next growth, so its record and the ledger's, which the caller makes
 * quarantined, are not the caller's to remove; and the caller has driver/lock.h, to drop it
 * when that is done.  On failure nothing has changed, and the code is the program's answer.
 */
CUresult zc_grow_freeing(struct zc_block *block, bool busy, bool *kept_out);

/*
 * The program frees a claimed block in the order of a stream: a copy into it is needed no more, one
 * out of it is made, and calls that come later attach no memory to it.  On failure nothing has
 * changed, and the code is the program's answer.
 */
CUresult zc_grow_leaving(struct zc_block *block);

/* With the turn: makes the copy into a block if one is pending, and its bytes from `from` to `to`
 * usable. */
CUresult zc_grow_ready(struct zc_vmm *v, size_t from, size_t to, const char **why);

/* With the turn: makes all copies that are pending, before the program's call of `fn`. */
CUresult zc_grow_copy_all(enum zc_fn fn);

/* With the turn: a block goes with its context, and with it the copy into it or out of it that is
 * pending. */
void zc_grow_unlink(struct zc_vmm *v);

#endif
