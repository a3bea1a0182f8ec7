/* SPDX-License-Identifier: MIT */
/* Cells: the traffic of one live block in one direction. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ledger/block.h"
#include "ledger/traffic.h"

/* Adds to a count that only the calling thread writes. */
static inline void zc_add_own(uint64_t *count, uint64_t n)
{
    __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Adds to one that any thread may write.  Without a change it is not written. */
static inline void zc_add_shared(uint64_t *count, uint64_t n)
{
    if (n != 0)
        __atomic_fetch_add(count, n, __ATOMIC_RELAXED);
}

/*
 * Counts one transfer of a block.  `slot` is the thread's slot of totals, 0 if it shares one.  The
 * first thread that transfers in a direction gets a cell of its own, and writes it by plain stores;
 * all others share a second one.  Cells come from the counters file, or from the arena when that is
 * full.  If there is none, or the block has four, the transfer goes directly to the total of the
 * block's site.
 */
void zc_cell_count(struct zc_block *block, enum zc_dir dir, const struct zc_transfer *t,
                   uint32_t slot);

/* The cell that the thread with this slot writes alone, NULL if it has none. */
static inline struct zc_cell *zc_cell_own(const struct zc_block *block, enum zc_dir dir,
                                          uint32_t slot)
{
    for (size_t i = 0; i < ZC_BLOCK_CELLS; i++) {
        struct zc_cell *cell = __atomic_load_n(&block->cell[i], __ATOMIC_ACQUIRE);
        if (!cell || (__atomic_load_n(&cell->dir, __ATOMIC_RELAXED) == (uint8_t)dir &&
                      __atomic_load_n(&cell->writer, __ATOMIC_RELAXED) == slot))
            return cell;
    }
    return NULL;
}

/* Adds the block's cells to its site's totals, and frees them.  The caller has claimed the
 * block. */
void zc_cell_fold_all(struct zc_block *block);
