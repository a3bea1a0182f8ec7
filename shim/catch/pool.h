/* Memory pools: what libzc must know about them. */
#ifndef ZC_CATCH_POOL_H
#define ZC_CATCH_POOL_H

#include "catch/real.h"
#include "ledger/block.h"

/* The current pool of the stream's device, that cuMemAllocAsync takes from; NULL if unknown. */
CUmemoryPool zc_pool_current(CUstream stream, enum zc_flavour flavour);

/* True for a pool whose memory other processes may import: its blocks stay where they are. */
bool zc_pool_exportable(CUmemoryPool pool);

/* A stream-ordered block was converted, or a converted one freed: USED_MEM counts it. */
void zc_pool_note_alloc(const struct zc_block *block);
void zc_pool_note_free(const struct zc_block *block);

void zc_pool_reset(void); /* For the child of fork(2). */

#endif
