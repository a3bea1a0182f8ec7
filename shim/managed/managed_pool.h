/* SPDX-License-Identifier: MIT */
/* The pool of managed memory for stream-ordered requests, if the driver has such pools (CUDA
 * 13). */
#pragma once

#include "memory/place.h"

/* Fills out->base and out->pooled.  Returns false, and does nothing, if the request does not fit
 * the pool or the driver gives nothing. */
bool zc_managed_pool_make(const struct zc_want *want, struct zc_backing *out);

/* A block of the pool has been freed completely. */
void zc_managed_pool_leave(void);

/* Gives the pool's memory back to the device if the pool has no block; true if it did. */
bool zc_managed_pool_trim(void);
