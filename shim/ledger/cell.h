/* SPDX-License-Identifier: MIT */
/* Cells: what one live block saw in one direction. */
#ifndef ZC_LEDGER_CELL_H
#define ZC_LEDGER_CELL_H

#include <stdint.h>

#include "ledger/traffic.h"

struct zc_block;

/* Adds a transfer to a cell that any thread may write; fields that get nothing are not touched. */
void zc_cell_add(struct zc_cell *cell, const struct zc_transfer *t);

/*
 * Counts one transfer for a block.  `slot` is the thread's slot of totals, 0 if it shares one.  The
 * first thread that transfers in a direction writes a cell of its own, by plain stores; all others
 * share a second one.  A cell is of the counters file while there is one and from the arena
 * then.  Where there is none to be had, and when a block has four, the transfer goes to the total
 * of the block's site at once.
 */
void zc_cell_count(struct zc_block *block, enum zc_dir dir, const struct zc_transfer *t,
                   uint32_t slot);

/* Adds the block's cells to its site's totals and gives them back.  The caller has claimed it. */
void zc_cell_fold_all(struct zc_block *block);

/* For the child of fork(2): all cells of the (fresh) counters are free. */
void zc_cell_reset(void);

#endif
