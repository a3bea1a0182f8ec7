/* SPDX-License-Identifier: MIT */
/* The generations of an array that grows. */
#pragma once

#include "vmm/vmm.h"

/*
 * A program that grew an array once will grow it again.  So a block that replaces another keeps its
 * addresses (`previous`), in which the chunks that both had are still mapped.  The next block gets
 * these addresses, and maps only what was added since.
 *
 * Each time an array grows, libzc makes three driver calls, which take as long for 2 MiB as for
 * 100.  So an array that has grown once gets headroom: memory for its next small steps together
 * with the present one.  That is up to 512 MiB in all, or an eighth of a larger array if its step
 * is smaller than that.  All arrays together get at most a 256th of the device's memory, because
 * nobody else can use it.
 *
 * All functions are called with the driver lock.
 */

/* Enters a block that grows, which has no addresses yet.  It gets those that another block keeps,
 * if they fit: then that block is its `older`. */
void zc_lineage_enter(struct zc_vmm *v);

/* Unmaps the chunks of an older block in the addresses of this one, because this one needs memory
 * of its own, or does not grow from it. */
CUresult zc_lineage_part(struct zc_vmm *v, const char **why);

/* `newer` is about to replace `older`, and no other block is.  False if the driver does not unmap
 * what one of them has in common with a third. */
bool zc_lineage_join(struct zc_vmm *newer, struct zc_vmm *older);

/* Ends what a block without pending copies has in common with others, so that its memory is mapped
 * in its own addresses alone.  On failure returns the driver's code, with the reason in *why. */
CUresult zc_lineage_end(struct zc_vmm *v, const char **why);

/* The pending copy into `newer` ended: made, or not needed. */
void zc_lineage_end_copy(struct zc_vmm *newer);

/* Gives the chunks of the older block to the newer one, which keeps the addresses.  `block` is the
 * older one's ledger entry. */
void zc_lineage_inherit(struct zc_vmm *newer, struct zc_vmm *older, struct zc_block *block);

/* Removes a block that goes from all lists and relations.  What is mapped in its addresses stays;
 * the caller unmaps it. */
void zc_lineage_leave(struct zc_vmm *v);

/* The headroom that a block should get that grew from another and is about to get memory. */
size_t zc_lineage_headroom(const struct zc_vmm *v);

/* The memory of a block has changed: counts its headroom. */
void zc_lineage_count(struct zc_vmm *v);

/* The most memory that a new block of this size and context can take over from a block that it may
 * grow from.  With no context: any block of the device from any other. */
size_t zc_lineage_largest(int device, CUcontext context, size_t span);
