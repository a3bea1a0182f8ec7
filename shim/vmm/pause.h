/* SPDX-License-Identifier: MIT */
/* Blocks of `vmm` whose device memory the program has given back for a while (zc.h). */
#pragma once

#include "vmm/vmm.h"

/*
 * A paused block keeps its addresses and its place in the ledger.  Nothing is mapped there, it
 * counts for no limit, and calls that name it are refused.  It can be freed.  Each block is
 * either paused or not: a call that fails leaves it as it was.
 *
 * The program says that nothing uses the block meanwhile; what was given to its context before is
 * waited for, as by cuMemFree.
 */

/* Pauses the blocks that were requested in a range, or with NULL all of `vmm`, and with `keep`
 * keeps what is in them.  Returns the bytes of device memory that were given back; messages say
 * what stays. */
size_t zc_pause_blocks(const char *range, bool keep);

/* Ends that for such blocks.  After a failure, which a message tells, some are still paused.
 * Returns the driver's code. */
CUresult zc_pause_end(const char *range);

/* zc_block_claim(), not while a thread pauses or resumes blocks. */
bool zc_pause_claim(struct zc_block *block);

/* The range by which a block was paused; empty for none. */
void zc_pause_range(const struct zc_block *block, char range[ZC_RANGE_NAME]);
