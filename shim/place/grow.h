/* Blocks of `vmm` whose memory is attached late, and copies between them that become remaps. */
#ifndef ZC_PLACE_GROW_H
#define ZC_PLACE_GROW_H

#include "catch/describe.h"
#include "place/vmm.h"

/*
 * A program grows an array by asking for a larger block, copying the smaller one into it and
 * freeing that.  The copy stays pending: nothing has memory twice.  When the small block is freed
 * its physical memory becomes the beginning of the large one's; when something could tell the
 * difference before that (a launch, a copy, a set), memory is attached and the copy is made.
 *
 * One thread at a time changes such blocks: it has the turn.  Others wait for it; a signal handler
 * of that thread passes through.  The turn is no lock: it is kept while the driver is called.
 */
bool zc_grow_turn_take(void);
void zc_grow_turn_drop(void);

/*
 * Enters a block that is attached late.  Refuses what the device could not hold even if the block
 * took over the memory of the largest one that it might grow from.  Gives it the addresses that a
 * block which it might grow from has to spare; else its `base` is left 0.
 */
CUresult zc_grow_admit(struct zc_vmm *v, const char **why);

/* Takes a block out, whatever is pending; its memory is the caller's to give back. */
void zc_grow_forget(struct zc_vmm *v);

/*
 * A transfer that touches such a block.  True when it is answered: it stays pending, or c->result
 * is the code of the driver call that failed to make the block ready for it.
 */
bool zc_grow_copy(struct zc_copy *c);

/* Makes one block ready for calls that look at its addresses. */
CUresult zc_grow_settle(const struct zc_block *block);

/*
 * The program frees a claimed block that nothing uses any more: one that is copied into another
 * hands its memory over.  Then *kept_out is true: its addresses stay mapped for the next growth, so
 * its record and the ledger's, which the caller makes a ghost, are not the caller's to remove; and
 * the caller has the turn, to drop it when that is done.  On failure nothing has changed, and the
 * code is the program's answer.
 */
CUresult zc_grow_freeing(struct zc_block *block, bool *kept_out);

/* Bytes that were given to the program and have no memory yet. */
uint64_t zc_grow_promised(void);

/* Records the copies that are pending as the process ends: they were not needed. */
void zc_grow_finish(void);

void zc_grow_reset(void); /* For the child of fork(2). */

#endif
