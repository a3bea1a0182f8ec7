/* SPDX-License-Identifier: MIT */
/* Memory pools. */
#pragma once

#include "driver/real.h"
#include "ledger/block.h"

/* The current pool of the stream's device, which cuMemAllocAsync uses; NULL if unknown.  False for
 * a stream that the driver refuses. */
bool zc_pool_current(CUstream stream, enum zc_flavour flavour, CUmemoryPool *pool);

/* Why requests from a pool can't be converted, or NULL: its memory may be exported, is limited, or
 * is not on the current device. *kind_out is the kind that they ask for. */
const char *zc_pool_unfit(CUmemoryPool pool, enum zc_kind *kind_out);

/* A stream-ordered block was made, or freed: USED_MEM includes converted ones. */
void zc_pool_note_alloc(const struct zc_block *block);
void zc_pool_note_free(const struct zc_block *block);

/* The program got a pool that it did not create; more is known of its own.  Or it imported one. */
void zc_pool_note_handed_out(CUmemoryPool pool, const CUmemLocation *location,
                             CUmemAllocationType type);
void zc_pool_note_imported(CUmemoryPool pool);
