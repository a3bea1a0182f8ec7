/* Cells: what one live block saw in one direction. */
#ifndef ZC_LEDGER_CELL_H
#define ZC_LEDGER_CELL_H

#include <stdint.h>

#include "ledger/traffic.h"

struct zc_block;

/* Adds counts to a cell; fields that get nothing are not touched.  Relaxed atomics. */
void zc_cell_add(struct zc_cell *cell, enum zc_outcome outcome, uint64_t bytes, uint64_t ticks);

/*
 * Counts one transfer for a block.  Its first transfer in a direction takes a cell, of the counters
 * file while there is one and from the arena then.  Where there is no cell to be had, and from a
 * block's fifth direction on, the transfer goes to the total of the block's site at once.
 */
void zc_cell_count(struct zc_block *block, enum zc_dir dir, enum zc_outcome outcome,
                   uint64_t bytes, uint64_t ticks);

/* Adds the block's cells to its site's totals and gives them back.  The caller has claimed it. */
void zc_cell_fold_all(struct zc_block *block);

/* For the child of fork(2): all cells of the (fresh) counters are free. */
void zc_cell_reset(void);

#endif
