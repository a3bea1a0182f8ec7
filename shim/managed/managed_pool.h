/* SPDX-License-Identifier: MIT */
/* The pool of managed memory that stream-ordered requests are given from, where the driver has such
 * pools (CUDA 13). */
#ifndef ZC_MANAGED_MANAGED_POOL_H
#define ZC_MANAGED_MANAGED_POOL_H

#include "memory/place.h"

/* Fills out->base and out->pooled.  False, and nothing done, where the request is none for the pool
 * or the driver gives nothing from one. */
bool zc_managed_pool_make(const struct zc_want *want, struct zc_backing *out);

/* A block of the pool is free, in the driver and everywhere. */
void zc_managed_pool_leave(void);

/* Gives the pool's memory back to the device if no block is in it; true if it did. */
bool zc_managed_pool_trim(void);

#endif
