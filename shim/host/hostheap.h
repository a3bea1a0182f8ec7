/* SPDX-License-Identifier: MIT */
/* The host heap: libc's large blocks in memory that can be pinned.  It makes no CUDA call. */
#pragma once

#include "host/heap.h"

/* Reserves the range.  If the kernel or RLIMIT_AS refuses, returns false, with the reason in *why;
 * the heap then stays closed for good, and later calls return the same.  A caller that comes while
 * another thread opens the heap waits a moment, and gives up with false if that takes too long: the
 * other may be the thread that its signal handler interrupted. */
bool zc_hostheap_open(const char **why);

/* Gives back addresses that no block ever had, as far as RLIMIT_AS demands or with `all` every one,
 * and memory of the pool as RLIMIT_DATA demands. */
void zc_hostheap_fit(bool all);

/*
 * Allocates a block.  The caller fills its slot, *slot_out.  Returns NULL, with the reason in *why,
 * if a limit is reached, the kernel refuses, or the thread was interrupted inside the heap.
 */
void *zc_hostheap_get(const struct zc_host_want *want, struct zc_slot **slot_out, const char **why);

/* The slot of the live block that begins at `p`, or NULL. */
struct zc_slot *zc_hostheap_slot(const void *p);

/* The first address of the live block that contains an address, or 0. */
uintptr_t zc_hostheap_block(uint64_t address);

/* Bytes that a block can grow to in place, by realloc(3). */
size_t zc_hostheap_room(const void *p);

/*
 * Resizes a block with its own extent without copying its content: in place, or by moving its pages
 * to other addresses.  Returns NULL, and leaves the block as it was, if it shares an extent, is
 * registered or inherited, or if limit, addresses or kernel refuse.  The caller fills *slot_out.
 */
void *zc_hostheap_resize(void *p, size_t size, struct zc_slot **slot_out);

/* Frees a block.  Its memory goes to the pool, registered or not.  In a signal handler that
 * interrupted the heap it is lost. */
void zc_hostheap_put(void *p);

/* Puts an extent in limbo back into the pool. */
void zc_hostheap_revive(struct zc_extent *extent);

/*
 * The pool keeps freed memory for the next request that it fits.  With the program's blocks it has
 * at most as much as these alone once had, and 32 MiB; at most a quarter of max_pinned; and until
 * CUDA is up no more than 32 MiB.  What nobody wanted for a second, and another for each GiB it
 * has, goes back: that is more than ten times as long as making it anew takes.
 *
 * zc_hostheap_surplus() takes an extent that is too much, or of no use, out of the pool.  With
 * `pinned`, one that libzc registered, else another.  With `all` the pool is emptied in this way.
 * NULL if there is none.  The caller unregisters the extent and then calls zc_hostheap_drop(), or
 * puts it into limbo.  zc_hostheap_too_much() tells whether an extent of the pool is one.
 */
struct zc_extent *zc_hostheap_surplus(bool pinned, bool all);
bool zc_hostheap_too_much(const struct zc_extent *extent);
void zc_hostheap_drop(struct zc_extent *extent);

/* Gives back what is too much in the pool, or with `all` everything, and not registered. */
void zc_hostheap_tidy(bool all);

/* The context that registered what zc_hostheap_surplus() would take, or NULL. */
void *zc_hostheap_surplus_context(void);

/* The program has copied most of a block, so it needs the memory that was touched for it. */
void zc_hostheap_needed(struct zc_extent *extent);

/* Bytes in the pool.  Changes under the heap's lock. */
extern size_t zc_extent_pooled_bytes, zc_extent_loose_bytes;
static inline size_t zc_hostheap_pooled(void)
{
    return __atomic_load_n(&zc_extent_pooled_bytes, __ATOMIC_RELAXED);
}

/* Bytes behind live blocks: small ones, and large ones that fill less than four fifths. */
static inline size_t zc_hostheap_loose(void)
{
    return __atomic_load_n(&zc_extent_loose_bytes, __ATOMIC_RELAXED);
}
