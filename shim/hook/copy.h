/* SPDX-License-Identifier: MIT */
/* The life of a transfer: resolves both sides, decides who makes the copy, and records it. */
#pragma once

#include "place/sides.h"
#include "place/verbs.h"

/*
 * Resolves both sides and decides.  True if the call is complete: c->result is the answer, and
 * nothing is forwarded.  False: the wrapper forwards the call as the program made it.
 */
bool zc_copy_begin(struct zc_copy *c);

/* True for a copy or set that libzc has nothing to do with but to count it, as most small ones are.
 */
bool zc_copy_quick(struct zc_plain_copy *copy, enum zc_side dst_side, CUdeviceptr dst,
                   enum zc_side src_side, CUdeviceptr src, uint64_t bytes);

/* Records a successful transfer; for a refused one names the rule of a converted block.  Returns
 * c->result. */
CUresult zc_copy_end(struct zc_copy *c);

/* Resolves both sides.  False if the driver would refuse a range in any memory. */
bool zc_copy_reaches(struct zc_copy *c);

/* For calls that make the driver copy or set something later, and are forwarded unchanged, unless
 * c->made says that libzc has added the node.  Before: CUDA_SUCCESS, or the code of a refusal.
 * After: names the rule that may be the reason for the
 * driver's code. */
CUresult zc_copy_before_node(struct zc_copy *c);
CUresult zc_copy_after_node(struct zc_copy *c, CUresult result);

/* As zc_describe_value(), for stream operations. */
void zc_describe_values(struct zc_copy *c, unsigned count, const CUstreamBatchMemOpParams *p,
                        CUstream stream);
