/* SPDX-License-Identifier: MIT */
/* Copies and sets that touch a pair. */
#ifndef ZC_SHARED_TRANSFER_H
#define ZC_SHARED_TRANSFER_H

#include "driver/copy.h"

/*
 * Finds the pair that a side is in.  Both blocks of a pair have the same address, so what the call
 * says about the side decides which one is meant.  False if there is no pair.
 */
bool zc_shared_resolve(struct zc_operand *box);

/*
 * Carries a copy out that goes the way ZC_WAY_PAIR: by the pages' states where it goes from one
 * side to the other, by the CPU or the driver from and to where each side's content is otherwise.
 * In the order of its stream, and finished when the call returns.  False when the driver does it
 * exactly as asked; else c->result.
 */
bool zc_shared_copy(struct zc_copy *c);

/* For calls that hand copies to the driver: CUDA_SUCCESS, or the error for an address that belongs
 * to two blocks. */
CUresult zc_shared_keep_out(enum zc_fn fn, CUdeviceptr address);

/* For calls that register a host block: CUDA_SUCCESS, or the error if it is in a pair. */
CUresult zc_shared_keep_registered(enum zc_fn fn, CUdeviceptr address);

#endif
