/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` whose memory is attached lazily: by the first call that could touch it. */
#ifndef ZC_VMM_LAZY_H
#define ZC_VMM_LAZY_H

#include "driver/launch.h"
#include "vmm/vmm.h"

/* One thread at a time changes such blocks: it has driver/lock.h, "the turn" below. */

/*
 * Enters a block that is attached lazily.  Refuses what the device could not hold even if what is
 * kept of freed blocks went, and the block took over the memory of the largest one that it might
 * grow from.  Gives it the addresses that a block which it might grow from has to spare, else
 * addresses of its own: one that grows gets room for more, so that the block that grows from it can
 * have them again.  On failure the driver's code, and the block is not entered.
 */
CUresult zc_lazy_admit(struct zc_vmm *v, const char **why);

/* Takes a block out, whatever is pending; its memory is the caller's to give back. */
void zc_lazy_forget(struct zc_vmm *v);

/*
 * Before the program's own call takes memory of the current device: where that would leave none for
 * what was promised, the promises are kept now, and the driver refuses what it would refuse if they
 * had been from the start.
 */
void zc_lazy_before_request(int device, size_t bytes);

/* Bytes of a device that were given to the program and have no memory yet. */
uint64_t zc_lazy_promised(int device);

/* The functions below are for the rest of vmm/, and are called with the turn. */

/* The blocks that are open, the one opened last first, linked by `next`: so a call costs what is
 * not done, however many blocks there are. */
extern struct zc_vmm *zc_lazy_list;

/* Makes the bytes from `from` to `to` of a block usable, as zc_vmm_attach() does; legal during
 * captures too. */
CUresult zc_lazy_attach(struct zc_vmm *v, size_t from, size_t to, const char **why);

/* Says anew whether something of a block is not done; launches are watched while any is open.  A
 * block that is no longer open leaves the list. */
void zc_lazy_update(struct zc_vmm *v);

/* Takes a block out of those that launches look at. */
void zc_lazy_remove(struct zc_vmm *v);

/* So many bytes were promised for a block and need no memory of their own any more. */
void zc_lazy_keep_promise(const struct zc_vmm *v, size_t bytes);

/* Says which block could not be made ready for a call of the program's, and by which rule it is
 * late; returns `code`. */
CUresult zc_lazy_diagnose(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why);

/* True if something of the block is not done; needs no turn. */
static inline bool zc_lazy_pending(const struct zc_vmm *v)
{
    return v && __atomic_load_n(&v->open, __ATOMIC_ACQUIRE);
}

#endif
