/* SPDX-License-Identifier: MIT */
/*
 * While the program fills a host block of `shared`, a thread of libzc's maps it a second time, and
 * registers it there for the GPU to read.  The next device block of the size gets that address, and
 * the first copy between both finds it all done.
 *
 * A site whose block is freed without such a copy has guessed wrong: its later blocks are
 * registered by their first copy, until that makes one of them a device block's.
 */
#pragma once

#include "shared/pair.h"

/* A host block that is registered, or about to be. */
struct zc_early;

/* The program was given a host block that device blocks may be one with; and frees one.  Call no
 * driver. */
void zc_early_want(struct zc_extent *extent);
void zc_early_freed(const struct zc_extent *extent);

/* A device block has become one with the host block of an extent. */
void zc_early_used(const struct zc_extent *extent);

/* The oldest host block that may be copied to such a request, with the addresses for the device
 * block; NULL for none.  They are the caller's until zc_early_end() or zc_early_spurn(). */
struct zc_early *zc_early_take(const struct zc_want *want, CUdeviceptr *base_out,
                               size_t *bytes_out);

/* The device block has not got the addresses: the next request may have them. */
void zc_early_spurn(struct zc_early *early);

/* Registers the pages of an extent at reserved addresses for kernels to read; with `window`, where
 * the driver refuses, as zc_reach_show().  In the current context, with driver/lock.h.  False, with
 * the reason in *why, and nothing is there. */
bool zc_early_register(struct zc_extent *extent, CUdeviceptr base, uintptr_t *window,
                       const char **why);

/* Host blocks that are registered, or about to be.  Atomic. */
extern uint32_t zc_early_entries;

/* Ends what zc_early_take() returned; the addresses stay the device block's.  True if the memory of
 * `extent` is registered there, which is the caller's from now on.  Else nothing is there any more:
 * waits for the device if another one's was.  With driver/lock.h. */
bool zc_early_end(struct zc_early *early, const struct zc_extent *extent);

/* Gives back what is registered of blocks that were freed, if their memory exceeds the pool.  Waits
 * for the device.  Takes the lock. */
void zc_early_trim(void);

/* Keeps the thread out of the driver, also while the process exits. */
void zc_early_pause(void);
void zc_early_resume(void);
