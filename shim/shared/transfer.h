/* SPDX-License-Identifier: MIT */
/* Copies and sets that meet a pair. */
#ifndef ZC_SHARED_TRANSFER_H
#define ZC_SHARED_TRANSFER_H

#include "driver/copy.h"

/*
 * Finds the pair that a side lies in.  Both blocks of a pair have one address, so what the call
 * says of the side decides which one is meant.  False when there is no pair.
 */
bool zc_shared_resolve(struct zc_operand *box);

/*
 * Carries a transfer out that meets a pair: by the pages' states where it goes from one side to the
 * other, by the CPU or the driver from and to where each side's content is otherwise.  In the order
 * of its stream, and finished when the call returns.  False when the driver does it exactly as
 * asked; else c->result.
 */
bool zc_shared_copy(struct zc_copy *c);

/* For calls that hand copies over to the driver: CUDA_SUCCESS, or why they may not name an address
 * that two blocks have. */
CUresult zc_shared_keep_out(enum zc_fn fn, CUdeviceptr address);

/* For calls that register a host block: CUDA_SUCCESS, or why it can't be, because it is one with a
 * device block. */
CUresult zc_shared_keep_registered(enum zc_fn fn, CUdeviceptr address);

#endif
