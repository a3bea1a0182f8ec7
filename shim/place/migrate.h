/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of `vmm` with `spill = move` are on their device: those that launches name.  A block
 * in host memory comes in once kernels have lost more time with it there than moving takes
 * (memory/regret.h), and blocks that will be used later leave for it.
 *
 * Until a kernel has run over the link nobody knows what it loses there.  So its blocks come before
 * it, as long as all these moves take less than one launch over the link may, by its time on the
 * device; then it is tried.  That costs at most about twice what the better of both would have
 * cost.
 *
 * Each device has an order, room and budgets of its own.  On each the blocks of one context move.
 */
#pragma once

#include "driver/launch.h"
#include "vmm/move.h"

/* A block that moves was made, or may be: launches are watched from now on.  False if it will never
 * move, as another context's blocks do. */
bool zc_migrate_watch(void);

/* True while there are such blocks; and what a kernel names of them is the graph's: all, if its
 * arguments are unknown.  One of another context than the current one runs unseen. */
static inline bool zc_migrate_any(void)
{
    return __atomic_load_n(&zc_vmm_counts.movable, __ATOMIC_RELAXED);
}
void zc_migrate_note(struct zc_launch_graph *graph, const struct zc_launch *kernel, CUcontext of);

/* Before `fn`, which libzc can't follow: blocks with `spill = fetch` stay mapped from now on.
 * Returns the code for the program's call, which was explained. */
CUresult zc_migrate_keep_all(enum zc_fn fn);

/* `fn` keeps an address where launches don't show it: a block with `spill = fetch` there stays
 * mapped, but if it is a word of `map`, which they may be given. */
void zc_migrate_kept(enum zc_fn fn, CUdeviceptr address, const CUtensorMap *map);

/* Before a copy of a block with `spill = fetch`, which `fills` it with host memory's bytes: it is
 * written where it is, or stays.  As above. */
CUresult zc_migrate_to_host(struct zc_block *block, enum zc_fn fn, bool fills);

/* Uses by launches until that of a block that moves, if all goes on as before; 0: it may not move.
 * With the driver lock. */
uint64_t zc_migrate_due(const struct zc_block *block);

/* A block that moves leaves the device but for at most `keeps` bytes of what it has in both
 * memories, if the GPU rests within `most_ms`.  With the driver lock. */
bool zc_migrate_away(struct zc_block *block, uint64_t keeps, unsigned most_ms);

/* A copy of such a block is about to be made in a stream.  False if that is of another context,
 * whose work goes unnoticed: the block must stay, and if the context is of a device with such
 * blocks, all of that device do. */
bool zc_migrate_meets(const struct zc_block *block, CUstream stream, enum zc_flavour flavour);
