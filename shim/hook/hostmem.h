/* SPDX-License-Identifier: MIT */
/* Requests of libc's malloc family that a rule may place in pinned memory. */
#ifndef ZC_HOOK_HOSTMEM_H
#define ZC_HOOK_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hook/hostrule.h"
#include "ledger/block.h"

/* The block, or NULL for a request that stays with libc: no rule, a limit, no memory.  Never calls
 * the driver or the loader.  Keeps errno. */
void *zc_hostmem_get(const struct zc_hostmem_ask *ask);

/* Frees a block of the host heap.  A pointer into the heap that is no block ends the process as
 * glibc's free does, by SIGABRT.  Keeps errno. */
void zc_hostmem_put(void *p);

/* Bytes that the program asked for; 0 for a pointer that is no block. */
size_t zc_hostmem_size(const void *p);

/* Makes a block another size, where it lies or elsewhere in the heap, its content kept; the rule is
 * chosen anew.  NULL, and the block as it was, when the new size belongs to libc.  Keeps errno. */
void *zc_hostmem_resize(void *p, const struct zc_hostmem_ask *ask);

#endif
