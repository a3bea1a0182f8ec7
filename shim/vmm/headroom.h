/* SPDX-License-Identifier: MIT */
/* What growing arrays have beyond their requests. */
#ifndef ZC_VMM_HEADROOM_H
#define ZC_VMM_HEADROOM_H

#include "vmm/vmm.h"

/*
 * A step of an array that grows costs three calls of the driver's, which take as long for 2 MiB as
 * for 100.  So an array that has grown gets the memory of its next small steps with that of the
 * present one: up to 512 MiB in all, or an eighth of a larger array whose step is smaller than
 * that, and all arrays together no more than a 256th of the device's memory, because nobody else
 * can have it.  All of this is done with driver/lock.h.
 */

/* Raises the span of a block that grew from another and is to get memory now; false where it has
 * enough, or nothing more is to be had. */
bool zc_headroom_take(struct zc_vmm *v);

/* Lowers it to what was asked for: there is no memory for more, or the block goes. */
void zc_headroom_give(struct zc_vmm *v);

/* `to` has taken over the chunks of `from`, which may be more than its span. */
void zc_headroom_move(struct zc_vmm *to, struct zc_vmm *from);

#endif
