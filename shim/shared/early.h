/* SPDX-License-Identifier: MIT */
/*
 * Host blocks of `shared` are mapped a second time, and registered there for the GPU to read, while
 * the program fills them: a thread of libzc's does that as soon as something is written to them.
 * The next device block of the size gets that address, and the first copy between both finds it all
 * done.
 */
#pragma once

#include "shared/pair.h"

/* The program was given a host block whose memory is a file; the policy has `access = read`. */
void zc_early_want(struct zc_extent *extent);

/* A host block that may be copied to such a request, and is registered or about to be: NULL for
 * none.  Its addresses are the caller's: with zc_early_keep() for the new block, which may
 * have got them, or until zc_early_spurn().  A block that has got them, or that kernels may write,
 * is undecided: no memory is attached to it. */
struct zc_early *zc_early_take(const struct zc_want *want);
void zc_early_addresses(const struct zc_early *early, CUdeviceptr *base_out, size_t *bytes_out);
void zc_early_keep(struct zc_early *early, struct zc_vmm *vmm);
void zc_early_spurn(struct zc_early *early);

/* Device blocks that are undecided.  Atomic. */
extern uint32_t zc_early_blocks;

/* Host blocks that may be copied to such a request.  Atomic. */
extern uint32_t zc_early_entries;

/* True for an address that no device block has yet: to the program nothing is there. */
bool zc_early_covers_any(CUdeviceptr address);
static inline bool zc_early_covers(CUdeviceptr address)
{
    return __atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED) && zc_early_covers_any(address);
}

/* The functions below are called with driver/lock.h. */

/* True if the host block of `extent` is registered at the device block's addresses, which is all
 * the caller's from now on.  Else nothing is registered there any more. */
bool zc_early_finish(struct zc_shared *pair, const struct zc_extent *extent);

/* The device block is undecided no more: ONE, or as any that is OWN, and what there is at its
 * addresses ends.  Waits for the device if something is registered. */
void zc_early_drop(struct zc_shared *pair);

/* The memory of an extent is about to be another extent's. */
void zc_early_forget(const struct zc_extent *extent);

/* Blocks that were freed, and whose memory exceeds the pool, may give it back.  Waits for the
 * device.  Takes the lock. */
void zc_early_trim(void);

/* Keeps the thread out of the driver, also while the process exits. */
void zc_early_pause(void);
void zc_early_resume(void);
