/* SPDX-License-Identifier: MIT */
/* Copies and sets between devices, one of which has memory that is mapped by hand. */
#ifndef ZC_VMM_COPIES_H
#define ZC_VMM_COPIES_H

#include "driver/copy.h"

/*
 * A copy or set that touches a vmm block of another device than the one that makes it.  CUDA allows
 * copies without peer access, so the block is opened to that device; where it can't be, the copy
 * has the driver's code.  Sets CUDA refuses, also once a copy has opened the block; those of
 * blocks in stream order are taken for copies.  True where c->result has such a code.
 */
bool zc_vmm_copy(struct zc_copy *c);

/* The same for one address that a call names beside others: opens the block that it lies in to the
 * device of the stream.  Returns the driver's code. */
CUresult zc_vmm_named(CUdeviceptr address, CUstream stream, enum zc_flavour flavour);

#endif
