/* SPDX-License-Identifier: MIT */
/* Copies that write past the caches. */
#ifndef ZC_COPY_BYPASS_H
#define ZC_COPY_BYPASS_H

#include <stddef.h>

/*
 * memcpy(3) for what is not read again soon.  An ordinary store reads the line that it is about to
 * overwrite, which takes half of what the memory can do; libc's memcpy avoids that only for a
 * single copy of about the size of the whole cache.  What was written is visible to other threads
 * as after memcpy.
 */
void zc_bypass_copy(void *dst, const void *src, size_t n);

#endif
