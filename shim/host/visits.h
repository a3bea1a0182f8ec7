/* SPDX-License-Identifier: MIT */
/* Keeps apart those that use an extent of the host heap: copies, its owner, and device blocks that
 * become one with its block. */
#pragma once

#include "host/heap.h"

/* A copy from or to a block of the extent begins: until it ends no device block becomes one with
 * it.  Waits for one that is about to. */
void zc_hostheap_visit(struct zc_extent *extent);
void zc_hostheap_leave(struct zc_extent *extent);

/* The program frees or resizes a block: no device block becomes one with it meanwhile, and one that
 * is about to has done so when the call returns. */
void zc_hostheap_claim(struct zc_extent *extent);

/* The same for a device block.  False while the owner has it, or another device block. */
bool zc_hostheap_claim_for_device(struct zc_extent *extent);

void zc_hostheap_unclaim(struct zc_extent *extent);
