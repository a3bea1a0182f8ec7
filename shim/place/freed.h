/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed: deferred until its stream has passed, or kept for the next
 * request. */
#pragma once

#include "memory/place.h"

/*
 * Takes over a block that the program freed in stream order.  It stays in the ledger, quarantined,
 * so that its addresses still answer as freed.  `event`, of the context `home`, was recorded on the
 * stream at the free; the entry owns it from now on.  NULL if the program guarantees that nothing
 * uses the block.
 */
void zc_freed_defer(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                    enum zc_flavour flavour);

/*
 * The same for a block of a pool, which the driver has taken back in stream order: its backing
 * counts against the limits until `event`.  With NULL it stops counting at once.
 */
void zc_freed_defer_pool(const struct zc_block *block, CUevent event, CUcontext home);

/*
 * Takes over a claimed block that the program has freed and nothing uses any more.  Older blocks
 * are given back so that no more than a sixteenth of the device's memory is kept.  The block stays
 * in the ledger, quarantined, and no longer counts against the limits.  Returns false, and does
 * nothing, if the block is not to be kept.
 */
bool zc_freed_keep(struct zc_block *block);

/* True if a block may be kept: a vmm block, not too large, attached whole, neither lazy nor
 * split. */
bool zc_freed_fits(const struct zc_block *block);

/*
 * Takes memory for a new request of the same place, device and size, counted against the limits.  A
 * stream-ordered request gets deferred memory, if its stream has passed or it was freed earlier in
 * the same stream; any vmm request gets a kept block.  Only some entries of the size are looked at
 * each time; NULL if none of them fits.  The quarantined block is removed.
 */
struct zc_backing *zc_freed_take(enum zc_place_id place, const struct zc_want *want);

/*
 * Gives back the memory that streams have passed.  A place that waits for the device is included
 * only if `place` names it, because its calls must not come where the program's own call would not
 * wait.  With ZC_PLACE_COUNT: only places that never wait.  Returns the number of blocks.
 */
unsigned zc_freed_reap(enum zc_place_id place);

/* As zc_freed_reap() for places that never wait, and for some entries in turn: for calls in which
 * it is not urgent. */
void zc_freed_tidy(void);

/* As zc_freed_reap() for all places, and for freed host blocks: for calls in which the program
 * itself waits for the device. */
void zc_freed_reap_all(void);
