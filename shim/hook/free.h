/* SPDX-License-Identifier: MIT */
/* Freeing blocks that libzc made. */
#ifndef ZC_HOOK_FREE_H
#define ZC_HOOK_FREE_H

#include "driver/call.h"
#include "ledger/block.h"

/* Frees the block, once: CUDA_ERROR_INVALID_VALUE for a second caller.  A block from cuMemAlloc or
 * cuMemHostAlloc is free when all work of its context is done; one from a pool is free at once,
 * because there the program answers for it.  While a stream is captured waiting ends the capture
 * (measured): then pinned memory is kept until a free that may wait.  A free that fails though the
 * program may free the block leaves it as it is, and names its rule. */
CUresult zc_free_placed(enum zc_fn fn, struct zc_block *block);

/* A free while the process exits: the memory goes with the process, and `answer`, the driver's to
 * freeing nothing, says whether it is still there. */
CUresult zc_free_at_exit(struct zc_block *block, CUresult answer);

#endif
