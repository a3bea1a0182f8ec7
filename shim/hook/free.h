/* SPDX-License-Identifier: MIT */
/* Frees blocks that libzc made. */
#pragma once

#include "driver/call.h"
#include "ledger/block.h"

/* Frees a block once; a second caller gets CUDA_ERROR_INVALID_VALUE.  A block from cuMemAlloc or
 * cuMemHostAlloc is freed when all work of its context is done.  One from a pool is freed at once,
 * because the program promises that nothing uses it.  During a capture waiting would end the
 * capture (measured), so pinned memory is kept until a free that may wait.  If a free fails
 * although it is valid, the block stays, and a message names its rule. */
CUresult zc_free_placed(enum zc_fn fn, struct zc_block *block);

/* A free while the process exits.  The memory goes with the process; `answer`, the driver's code
 * for freeing NULL, shows whether it still exists. */
CUresult zc_free_at_exit(struct zc_block *block, CUresult answer);
