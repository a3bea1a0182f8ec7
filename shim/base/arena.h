/* SPDX-License-Identifier: MIT */
/* libzc's own memory: never malloc's, so that it may be used inside malloc and signal handlers. */
#ifndef ZC_BASE_ARENA_H
#define ZC_BASE_ARENA_H

#include <stddef.h>

/*
 * Returns `bytes` of zeroed memory, or NULL when the kernel gives none or when the calling thread
 * was interrupted inside the arena (see zc_lock_take).  The memory is aligned to 16, and to 64
 * where `bytes` is a multiple of 64 or above 256.  It comes from mmap(2) in chunks, by size
 * classes (16-byte steps to 256 B, then four steps from each power of two to the next: at most
 * a quarter above what was asked).  It is never given back to the kernel: a lock-free reader may
 * still hold a pointer into a freed object and must find mapped memory there; it finds zeroes
 * behind the first 16 bytes.
 */
void *zc_arena_get(size_t bytes);

/* Gives memory back for reuse by requests of the same size class.  `bytes` is what was asked for.
 * NULL is allowed.  May be called where zc_arena_get() returns NULL. */
void zc_arena_put(void *memory, size_t bytes);

/* The first byte of the memory that small objects will come from next, and in *end_out its end: no
 * more than 64 KiB.  NULL without memory. */
char *zc_arena_ahead(char **end_out);

/* Bytes that the arena has mapped from the kernel so far. */
size_t zc_arena_mapped_bytes(void);

/* For the child of fork(2): forgets all objects; the child's mappings are reused from the start. */
void zc_arena_reset(void);

#endif
