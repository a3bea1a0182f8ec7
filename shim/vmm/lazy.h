/* SPDX-License-Identifier: MIT */
/* vmm blocks that get their memory from the first call that could touch them. */
#pragma once

#include "driver/launch.h"
#include "vmm/vmm.h"

/* Such blocks change only with the lock of driver/lock.h, called "the driver lock" below. */

/*
 * Enters a lazy block, at the addresses that a block keeps which it might grow from, or at its own:
 * for one that grows so many that its successor can reuse them.  Refuses what the device could not
 * hold even if all kept blocks were given back and the memory of the largest such block were its
 * own.  On failure returns the driver's code, and the block is not entered.
 */
CUresult zc_lazy_admit(struct zc_vmm *v, const char **why);

/* The program's own call is about to take memory of the current device.  If too little would be
 * left, all that was promised is attached now: then the driver refuses exactly what it would have
 * refused without lazy blocks. */
void zc_lazy_before_request(int device, size_t bytes);

/* Bytes of a device that the program was given and that have no memory yet. */
uint64_t zc_lazy_promised(int device);

/* The functions below are for the rest of vmm/.  The caller holds the driver lock. */

/* Makes the bytes [from, to) of a block usable, as zc_vmm_attach() does.  Allowed during captures,
 * too. */
CUresult zc_lazy_attach(struct zc_vmm *v, size_t from, size_t to, const char **why);

/* Checks again whether something of a block is pending, and updates the list.  Launches are watched
 * while the list is not empty. */
void zc_lazy_update(struct zc_vmm *v);

/* Removes a block that has no pending copy. */
void zc_lazy_forget(struct zc_vmm *v);

/* No call attaches memory to a block until zc_lazy_update(): it goes, or is one of `shared` and has
 * memory that is not its own.  Its promised bytes stay promised. */
void zc_lazy_suspend(struct zc_vmm *v);

/* Creates all memory of a block without mapping it; and takes it back, mapped or not.  On failure
 * return the driver's code, with what there was before. */
CUresult zc_lazy_create(struct zc_vmm *v);
CUresult zc_lazy_empty(struct zc_vmm *v);

/* So many promised bytes of a block no longer need memory. */
void zc_lazy_keep_promise(const struct zc_vmm *v, size_t bytes);

/* Reports which block could not be made ready for a call, and its rule.  Returns `code`. */
CUresult zc_lazy_diagnose(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why);

/* True if something of the block is pending.  Needs no lock. */
static inline bool zc_lazy_pending(const struct zc_vmm *v)
{
    return v && __atomic_load_n(&v->open, __ATOMIC_ACQUIRE);
}
