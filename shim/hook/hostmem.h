/* SPDX-License-Identifier: MIT */
/* Requests of libc's malloc family that a rule may place in pinned memory. */
#pragma once

#include <stddef.h>

#include "hook/hostrule.h"

/* Returns a block, or NULL for a request that stays with libc: no rule, a limit, no memory.  Never
 * calls the driver or the loader.  Keeps errno. */
void *zc_hostmem_get(const struct zc_hostmem_ask *ask);

/* Frees a block of the host heap.  A pointer into the heap that is no block ends the process by
 * SIGABRT, as glibc's free does.  Keeps errno. */
void zc_hostmem_put(void *p);

/* Requested size of a block; 0 for a pointer that is no block. */
size_t zc_hostmem_size(const void *p);

/* Resizes a block in place or by moving it in the heap, and keeps its content; the rule is chosen
 * anew.  If the new size belongs to libc, returns NULL and leaves the block unchanged.  Keeps
 * errno. */
void *zc_hostmem_resize(void *p, const struct zc_hostmem_ask *ask);
