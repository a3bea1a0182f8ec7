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
 * Carries out a transfer that touches a pair, in stream order and complete on return.  Bytes that
 * go between both sides follow the pages' states; others are moved by the CPU or the driver.  False
 * if the driver should do it exactly as the program asked; else c->result is the answer.
 */
bool zc_shared_copy(struct zc_copy *c);

/* For calls that hand copies to the driver: CUDA_SUCCESS, or the error for an address that belongs
 * to two blocks. */
CUresult zc_shared_keep_out(enum zc_fn fn, CUdeviceptr address);

/* For calls that register a host block: CUDA_SUCCESS, or the error if it is in a pair. */
CUresult zc_shared_keep_registered(enum zc_fn fn, CUdeviceptr address);

#endif
