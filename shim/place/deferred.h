/* SPDX-License-Identifier: MIT */
/* Deferred frees: memory freed by the program, waiting for its stream. */
#ifndef ZC_PLACE_DEFERRED_H
#define ZC_PLACE_DEFERRED_H

#include "memory/place.h"

/*
 * Takes over a block that the program freed in stream order.  The block stays in the ledger as a
 * quarantined block, so that its addresses answer as freed.  `event`, of the context `home`, was
 * recorded on the stream at the free and belongs to the entry from here; NULL when the program
 * guarantees that nothing uses the block.
 */
void zc_defer_free(struct zc_block *block, CUevent event, CUcontext home, CUstream stream,
                   enum zc_flavour flavour);

/*
 * A block of a pool that the driver has taken back, in the order of a stream: its backing counts
 * against the limits until `event`, of the context `home`, which belongs to the entry from here;
 * NULL: it counts no longer.
 */
void zc_defer_pool_free(const struct zc_block *block, CUevent event, CUcontext home);

/* Bytes that the program asked of a pool and freed in the order of a stream that has not passed
 * yet.  Not during a capture. */
uint64_t zc_deferred_waiting(CUmemoryPool pool);

/*
 * Memory for a new request of the same place, device and size from what is deferred: what the
 * stream has passed, or what the same stream freed before.  NULL if there is none among those of
 * its size that are looked at, some each time.  The quarantined block is removed.
 */
struct zc_backing *zc_deferred_take(enum zc_place_id place, const struct zc_want *want,
                                    CUstream stream, enum zc_flavour flavour);

/*
 * Unmakes what the streams have passed.  Places that wait for the device are only unmade when
 * `place` names them, because their calls must not come where the program's own call would not
 * wait; give ZC_PLACE_COUNT for those that never wait.  Returns how many were unmade.
 */
unsigned zc_deferred_reap(enum zc_place_id place);

/* As zc_deferred_reap(), of some of what is deferred and in turn: for calls in which it is not
 * urgent. */
void zc_deferred_tidy(enum zc_place_id place);

/* As zc_deferred_reap() for all places, and host blocks that were freed: for calls in which the
 * program itself waits for the device. */
unsigned zc_deferred_reap_all(void);

#endif
