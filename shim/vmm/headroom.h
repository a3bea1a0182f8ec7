/* SPDX-License-Identifier: MIT */
/* Memory that growing arrays get beyond their requests. */
#ifndef ZC_VMM_HEADROOM_H
#define ZC_VMM_HEADROOM_H

#include "vmm/vmm.h"

/*
 * Each time an array grows, libzc makes three driver calls, which take as long for 2 MiB as for
 * 100.  So an array that has grown once gets memory for its next small steps together with the
 * present one.  That is up to 512 MiB in all, or an eighth of a larger array if its step is smaller
 * than that.  All arrays together get at most a 256th of the device's memory, because nobody else
 * can use it.  All functions are called with the driver lock.
 */

/* Adds headroom to the span of a block that grew from another and is about to get memory.  False if
 * it has enough, or no more is to be had. */
bool zc_headroom_take(struct zc_vmm *v);

/* Removes the headroom: there is no memory for it, or the block goes. */
void zc_headroom_give(struct zc_vmm *v);

/* `to` has taken over the chunks of `from`, which may exceed its span; the excess is headroom. */
void zc_headroom_move(struct zc_vmm *to, struct zc_vmm *from);

#endif
