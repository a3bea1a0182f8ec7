/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of `vmm` with `spill = move` are on the device: those that kernels use, as far as
 * launches name them.  A block in host memory comes in once kernels have lost more time with it
 * there than moving takes, in this launch or in those before, and blocks that will be used later
 * leave for it.
 *
 * Until a kernel has run over the link nobody knows what it loses there, so its blocks come before
 * it if a move takes less than such a launch is likely to, by its time on the device, and as long
 * as all these moves have taken less than one such launch may at most.  Then it is tried, so that
 * not knowing costs at most about twice what the better of both, always moving and trying at once,
 * would have cost.
 */
#pragma once

#include "driver/launch.h"
#include "vmm/move.h"

/* A block that moves was made: launches are watched from now on. */
void zc_migrate_watch(void);

/* True while there are such blocks; and what a kernel names of them is the graph's. */
static inline bool zc_migrate_any(void)
{
    return __atomic_load_n(&zc_vmm_movable, __ATOMIC_RELAXED);
}
void zc_migrate_note(struct zc_launch_graph *graph, const struct zc_launch *kernel);

/* A copy of such a block is about to be made in a stream.  False if that is one of another context,
 * whose work goes unnoticed where blocks move: the block must stay (zc_move_never()), and if the
 * context is of the same device, all of them do. */
bool zc_migrate_meets(CUstream stream, enum zc_flavour flavour);
