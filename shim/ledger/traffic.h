/* SPDX-License-Identifier: MIT */
/* Records transfers: in totals by flow, and in the cells of their blocks. */
#pragma once

#include "ledger/flow.h"

/* Adds a transfer to the calling thread's totals and to both blocks' cells.  Takes no lock;
 * allocates only a block's first cell of a direction; safe in signal handlers. */
void zc_traffic_record(const struct zc_transfer *t);

/* The same of a copy that is only counted, and has neither a source nor a call's site.  The second
 * finds its cells, and is false where the calling thread has none of its own. */
void zc_traffic_plain(const struct zc_plain_copy *c, uint64_t ticks);
bool zc_traffic_cells(struct zc_plain_copy *c);

/* A copy that libzc had the driver make for itself: nobody asked for it, and no block's cells count
 * it. */
void zc_traffic_own(unsigned real, uint64_t bytes);

/* Sums all slots of totals (in the counters file) into *out. */
void zc_traffic_totals(struct zc_totals *out);

/* For the child of fork(2), after zc_counters_reset(): the calling thread takes a slot of the fresh
 * counters. */
void zc_traffic_reset(void);
