/* SPDX-License-Identifier: MIT */
/* Memory pools: what libzc must know about them. */
#ifndef ZC_HOOK_POOL_H
#define ZC_HOOK_POOL_H

#include "driver/real.h"
#include "ledger/block.h"

/* The current pool of the stream's device, that cuMemAllocAsync takes from; NULL if unknown.  False
 * for a stream that the driver refuses. */
bool zc_pool_current(CUstream stream, enum zc_flavour flavour, CUmemoryPool *pool);

/* Why requests from a pool stay where they are, or NULL: its memory may be exported, is limited, or
 * is not the current device's.  *kind_out is what the program asks for by them. */
const char *zc_pool_unfit(CUmemoryPool pool, enum zc_kind *kind_out);

/* A stream-ordered block was made, or freed: USED_MEM counts the converted ones with the pool's. */
void zc_pool_note_alloc(const struct zc_block *block);
void zc_pool_note_free(const struct zc_block *block);

/* Some pool may have more reserved than it keeps.  Atomic. */
extern bool zc_pool_over;

/* The program has waited for a stream, an event or a context: the driver would release then what
 * pools have reserved above their threshold. */
void zc_pool_quiesce(void);

/* True for the calls that do that. */
static inline bool zc_pool_call(enum zc_fn fn)
{
    switch (fn) {
    case ZC_FN_cuCtxSynchronize:
#if CUDA_VERSION >= 13000
    case ZC_FN_cuCtxSynchronize_v2:
#endif
    case ZC_FN_cuStreamSynchronize:
    case ZC_FN_cuStreamSynchronize_ptsz:
    case ZC_FN_cuEventSynchronize:
        return true;
    default:
        return false;
    }
}

#endif
