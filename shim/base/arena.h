/* SPDX-License-Identifier: MIT */
/* libzc's own memory, never from malloc: it can be used inside malloc and in signal handlers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns `bytes` of zeroed memory, aligned to 16, and to 64 if `bytes` is a multiple of 64 or
 * above 256.  NULL if the kernel has no memory, or the calling thread was interrupted inside the
 * arena (see zc_lock_take).  The memory comes from mmap(2) in chunks, by size classes: 16-byte
 * steps to 256 B, then four steps from each power of two to the next, so at most a quarter is
 * wasted.  It is never given back to the kernel: a lock-free reader may still hold a pointer into a
 * freed object, and must find mapped memory there, which is zero behind the first 8 bytes.
 */
void *zc_arena_get(size_t bytes);

/* Gives memory back, for requests of the same size class.  `bytes` is the requested size.  NULL is
 * allowed.  In a signal handler that interrupted the arena it is lost. */
void zc_arena_put(void *memory, size_t bytes);

/* Makes room for one more element in an array of `count` elements of `bytes` each.  *room is how
 * many fit; the first time `first` of them.  False, and no change, if there is no memory. */
bool zc_arena_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first);

/* For the child of fork(2): drops all objects, and the pages.  Addresses stay mapped, because what
 * a handler that forked has interrupted may hold pointers. */
void zc_arena_reset(void);
