/* SPDX-License-Identifier: MIT */
/* Copies past the caches. */
#pragma once

#include <stddef.h>

/* memcpy(3) for data that is not read again soon, without the read of each line before its store,
 * which costs half of the memory bandwidth; libc's avoids that only for copies about as large as
 * the whole cache.  Other threads see the written data as after memcpy. */
void zc_bypass_copy(void *dst, const void *src, size_t n);
