/* SPDX-License-Identifier: MIT */
/* Deferred frees: memory that the program has freed, waiting for its stream. */
#ifndef ZC_PLACE_DEFERRED_H
#define ZC_PLACE_DEFERRED_H

#include "memory/place.h"

/*
 * Takes over a block that the program freed in stream order.  It stays in the ledger, quarantined,
 * so that its addresses still answer as freed.  `event`, of the context `home`, was recorded on the
 * stream at the free; the entry owns it from now on.  NULL if the program guarantees that nothing
 * uses the block.
 */
void zc_defer_free(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                   enum zc_flavour flavour);

/*
 * The same for a block of a pool, which the driver has taken back in stream order: its backing
 * counts against the limits until `event`.  With NULL it stops counting at once.
 */
void zc_defer_pool_free(const struct zc_block *block, CUevent event, CUcontext home);

/* Bytes of a pool that the program freed in the order of streams that have not passed yet.  Not
 * during a capture. */
uint64_t zc_deferred_waiting(CUmemoryPool pool);

/*
 * Takes deferred memory for a new request of the same place, device and size: its stream has
 * passed, or it was freed earlier in the same stream.  Only some entries of the size are looked at
 * each time; NULL if none of them fits.  The quarantined block is removed.
 */
struct zc_backing *zc_deferred_take(enum zc_place_id place, const struct zc_want *want,
                                    CUstream stream, enum zc_flavour flavour);

/*
 * Gives back the memory that streams have passed.  A place that waits for the device is included
 * only if `place` names it, because its calls must not come where the program's own call would not
 * wait.  With ZC_PLACE_COUNT: only places that never wait.  Returns the number of blocks.
 */
unsigned zc_deferred_reap(enum zc_place_id place);

/* As zc_deferred_reap(), for some entries in turn: for calls in which it is not urgent. */
void zc_deferred_tidy(enum zc_place_id place);

/* As zc_deferred_reap() for all places, and for freed host blocks: for calls in which the program
 * itself waits for the device. */
unsigned zc_deferred_reap_all(void);

#endif
