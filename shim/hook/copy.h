/* SPDX-License-Identifier: MIT */
/* The life of a transfer: what stands on both sides, who does it, what is recorded. */
#ifndef ZC_HOOK_COPY_H
#define ZC_HOOK_COPY_H

#include "driver/copy.h"

/*
 * Looks both sides up and decides.  True when the call is answered: c->result holds the answer and
 * nothing is to be forwarded.  False: the wrapper forwards the call as the program made it.
 */
bool zc_copy_begin(struct zc_copy *c);

/* Records a transfer that succeeded; names the rule of a converted block when it was refused.
 * Returns c->result. */
CUresult zc_copy_end(struct zc_copy *c);

/* Looks both sides up.  False where the driver would refuse the range of one in any memory. */
bool zc_copy_reaches(struct zc_copy *c);

/* True when a side is a block of the host heap whose asynchronous copies libzc must complete. */
bool zc_copy_staged(const struct zc_copy *c);

/* True where a range leaves the block that it begins in and the driver need not say so, because
 * libzc made the block. */
bool zc_copy_leaves(CUdeviceptr address, size_t span);

/* A call that has the driver copy or set later, which is passed on as it is: CUDA_SUCCESS, or how
 * it is refused; and the driver's code, of which the rule is named that it may be due to. */
CUresult zc_copy_before_node(struct zc_copy *c);
CUresult zc_copy_after_node(struct zc_copy *c, CUresult result);

/* As zc_describe_value(), of operations of a stream. */
void zc_describe_values(struct zc_copy *c, unsigned count, const CUstreamBatchMemOpParams *p,
                        CUstream stream);

/* Looks both sides up in the ledger, and asks the driver about addresses that the call leaves
 * open. */
void zc_copy_resolve(struct zc_copy *c);

#endif
