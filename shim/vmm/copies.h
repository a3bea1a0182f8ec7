/* SPDX-License-Identifier: MIT */
/* Copies and sets by one device that touch vmm blocks of another. */
#ifndef ZC_VMM_COPIES_H
#define ZC_VMM_COPIES_H

#include "driver/copy.h"

/*
 * Prepares a copy or set that touches a vmm block of another device than the one that makes it.
 * CUDA allows such copies without peer access, so the block is opened to that device; if it can't
 * be, the copy gets the driver's code.  CUDA refuses such sets, even after a copy has opened the
 * block, except for stream-ordered blocks, whose sets are treated as copies.
 */
CUresult zc_vmm_open(const struct zc_copy *c);

/* The same for one address among several that a call names: opens its block to the device of the
 * stream.  Returns the driver's code. */
CUresult zc_vmm_named(CUdeviceptr address, CUstream stream, enum zc_flavour flavour);

#endif
