/* SPDX-License-Identifier: MIT */
/*
 * Whether an array on the device has grown in this process: for rules with `grown`, which leave
 * blocks as cudaMalloc makes them until then.  Most programs never grow one, and a block of `vmm`
 * can't be exported by cuIpcGetMemHandle.
 */
#pragma once

#include "driver/copy.h"

/* Something has to be found out: a rule asks, and no array has grown.  Atomic. */
extern bool zc_grown_asked;

/* True for a copy as arrays grow by: half a block or more, into the beginning of another one. */
bool zc_grown_whole(const struct zc_copy *c);

/* Notes such a copy that was made into a larger block. */
void zc_grown_note(const struct zc_copy *c);
static inline void zc_grown_copy(const struct zc_copy *c)
{
    if (__builtin_expect(__atomic_load_n(&zc_grown_asked, __ATOMIC_RELAXED), 0))
        zc_grown_note(c);
}

/* cuMemFree has freed a block of the driver's: if it was copied so, into one that is still there,
 * an array has grown. */
void zc_grown_freed(const struct zc_block *block);
