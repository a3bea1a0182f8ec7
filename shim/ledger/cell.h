/* SPDX-License-Identifier: MIT */
/* Cells: the traffic of one live block in one direction. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ledger/flow.h"

#define ZC_BLOCK_CELLS 4 /* Cells of a block, in order of first use; NULL: unused. */

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

/* Raises a number that any thread may write, and nobody lowers. */
static inline void zc_raise_shared(uint64_t *number, uint64_t least)
{
    uint64_t now = __atomic_load_n(number, __ATOMIC_RELAXED);
    while (now < least && !__atomic_compare_exchange_n(number, &now, least, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        continue;
}

/*
 * Counts one transfer of the block with these cells, site and id.  `slot` is the thread's slot of
 * totals, 0 if it shares one.  The first thread that transfers in a direction gets a cell of its
 * own, and writes it by plain stores; all others share a second one.  Cells come from the counters
 * file, or from the arena when that is full.  If there is none, or the block has four, the transfer
 * goes directly to the total of the block's site.
 */
void zc_cell_count(struct zc_cell *cells[ZC_BLOCK_CELLS], uint32_t site, uint32_t id,
                   enum zc_dir dir, const struct zc_transfer *t, uint32_t slot);

/* Adds the counts of cells that other threads may be changing: of one, and of a block's by
 * direction, of which one may have two. */
void zc_cell_sum(struct zc_cell *sum, const struct zc_cell *cell);
void zc_cell_sum_all(struct zc_cell sum[ZC_DIR_COUNT], struct zc_cell *const cells[ZC_BLOCK_CELLS]);

__attribute__((always_inline)) static inline void
zc_cell_add(struct zc_cell *cell, const struct zc_transfer *t,
            void (*add)(uint64_t *count, uint64_t n))
{
    add(&cell->by[t->outcome].calls, !t->continues);
    add(&cell->by[t->outcome].bytes, t->bytes);
    add(&cell->ticks, t->ticks);
}

/* The cell that the thread with this slot writes alone; NULL if it has none, or no slot. */
static inline struct zc_cell *zc_cell_own(struct zc_cell *const cells[ZC_BLOCK_CELLS],
                                          enum zc_dir dir, uint32_t slot)
{
    for (size_t i = 0; i < ZC_BLOCK_CELLS && slot != 0; i++) {
        struct zc_cell *cell = __atomic_load_n(&cells[i], __ATOMIC_ACQUIRE);
        if (!cell || (__atomic_load_n(&cell->dir, __ATOMIC_RELAXED) == (uint8_t)dir &&
                      __atomic_load_n(&cell->writer, __ATOMIC_RELAXED) == slot))
            return cell;
    }
    return NULL;
}

/* Adds a block's cells to its site's totals, and frees them.  The caller has claimed the block. */
void zc_cell_fold_all(struct zc_cell *cells[ZC_BLOCK_CELLS], uint32_t site);
