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

/* The ledger's block for an address in the heap, entered at its first use where it was asked for
 * before CUDA was up.  NULL when there is no live block or no memory for it. */
struct zc_block *zc_hostmem_block(uint64_t address);

/* A device block moves into the extent of a host block, or out of it: the ledger keeps the host
 * block at its shadow's address meanwhile. */
struct zc_shared;
void zc_hostmem_hide(struct zc_shared *pair);
void zc_hostmem_unhide(struct zc_shared *pair);

/* Takes the ledger's block at the address out, without a line in the log. */
void zc_hostmem_forget(uint64_t address);

#endif
