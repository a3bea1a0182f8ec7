/* SPDX-License-Identifier: MIT */
/* Prefetches of managed blocks to their device, as their use asks for: before the copies that fill
 * one by half or more, or before a kernel that is the first to use it. */
#pragma once

#include "driver/copy.h"
#include "memory/place.h"

/* A managed block was made, unless its rule wants no prefetch; and a block of any place goes. */
void zc_hint_make(const struct zc_want *want, struct zc_backing *b);
void zc_hint_unmake(struct zc_backing *b);

/* A copy or set is about to go to the driver, on whose stream pages may be sent first. */
void zc_hint_copy(const struct zc_copy *c);
