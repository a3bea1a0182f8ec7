/* SPDX-License-Identifier: MIT */
/*
 * Blocks of `vmm` that are whole on the device or in host memory, behind the same addresses, and
 * move between both (spill = move).  A block moves while nothing runs that may use it, no launch is
 * on its way to the driver, and no call that zc_move_enter() announced uses one.
 */
#pragma once

#include "driver/copy.h"
#include "ledger/block.h"
#include "vmm/vmm.h"

/* The record of a block that moves; NULL for others. */
static inline struct zc_vmm *zc_move_of(const struct zc_block *block)
{
    struct zc_vmm *v =
        __atomic_load_n(&zc_vmm_counts.movable, __ATOMIC_RELAXED) ? zc_vmm_of(block) : NULL;
    return v && v->moves ? v : NULL;
}

/* Announces a call that may use such a block: waits for blocks that are being moved.  True if
 * zc_move_leave() must follow. */
bool zc_move_announce(void);
static inline bool zc_move_enter(void)
{
    return __atomic_load_n(&zc_vmm_counts.movable, __ATOMIC_ACQUIRE) && zc_move_announce();
}
void zc_move_leave(bool entered);

/* Before `fn`: the block, if it is one that moves, stays where it is, mapped, and open to the CPU
 * as the driver's copies want it.  With driver/lock.h, or between the two above.  Returns the
 * driver's code, which was explained. */
CUresult zc_move_never(const struct zc_block *block, enum zc_fn fn);

/* The functions below are called with driver/lock.h, in the blocks' context. */

/* After true blocks may be moved until zc_move_end(): no other thread uses one, and the context
 * `rest` is idle, if that is not NULL.  False where that takes longer than `most_ms`. */
bool zc_move_begin(CUcontext rest, unsigned most_ms);
void zc_move_end(void);

/* The copy of a block to the device has not ended; NULL has none. */
bool zc_move_under_way(const struct zc_block *block);

/* Whether the second block, of the same device and rule, can come into the memory that the first
 * one leaves. */
bool zc_move_fits(const struct zc_block *leaves, const struct zc_block *comes);

/* Smaller copies over several links end before the peers' parts have begun to pay for the calls
 * that they take. */
#define ZC_LINKS_LEAST ((uint64_t)32 << 20)

/* May make a copy between two ranges, over links besides the own one; false: it has done nothing.
 */
typedef bool (*zc_move_carry)(struct zc_copy *c, struct zc_va *const *va);

/* Moves live blocks, and counts them where they are: one to host memory, one to the device, or
 * both, if they fit; NULL for none.  On failure, with the reason in *why, the one that comes is
 * where it was, and the other one may be.  A block that the driver maps nowhere keeps its content,
 * and calls that touch it try to map it again, or fail.  `carry` is asked to make copies, if it is
 * not NULL. */
bool zc_move(struct zc_block *leaves, struct zc_block *comes, zc_move_carry carry,
             const char **why);

/* Copies the first bytes of a block whose pages are registered to its device memory, which is
 * mapped elsewhere for that.  In the block's context.  On failure returns the driver's code, and
 * the reason in *why. */
CUresult zc_move_in(const struct zc_vmm *v, size_t bytes, const char **why);
