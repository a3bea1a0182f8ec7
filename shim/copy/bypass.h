/* SPDX-License-Identifier: MIT */
/* Copies past the caches. */
#pragma once

#include <stddef.h>

/*
 * memcpy(3) for data that is not read again soon.  An ordinary store first reads the line that it
 * overwrites, which costs half of the memory bandwidth. libc's memcpy avoids that only for single
 * copies about as large as the whole cache.  Other threads see the written data as after memcpy.
 */
void zc_bypass_copy(void *dst, const void *src, size_t n);
