/* SPDX-License-Identifier: MIT */
/* Extents of the host heap: carved out of the reserved range, pooled, given back.  The heap's
 * own. */
#ifndef ZC_HOST_EXTENT_H
#define ZC_HOST_EXTENT_H

#include "host/hostheap.h"

/* The heap's lock.  zc_heap_enter() is false in a signal handler that interrupted the heap. */
bool zc_heap_enter(void);
void zc_heap_leave(void);

/* Counts memory against max_pinned, without the lock.  What the pool holds for nobody may stand in
 * the way of a request that would fit, and goes.  False, with the reason in *why, at the limit. */
bool zc_heap_take_limit(size_t span, const char **why);

/* Units that so many bytes take. */
static inline uint64_t zc_extent_units(uint64_t bytes)
{
    return (bytes + ZC_HOST_UNIT - 1) >> ZC_HOST_UNIT_SHIFT;
}

/* The functions below are called with the heap's lock held, unless they say otherwise. */

/* Makes an extent one live block of `size` bytes. */
void zc_heap_occupy(struct zc_extent *extent, size_t size);

/* Addresses for `units` units, use NONE.  NULL when the range is full. */
struct zc_extent *zc_extent_carve(uint32_t units);

/* Takes addresses back that have no memory. */
void zc_extent_bury(struct zc_extent *extent);

/* Makes an extent `units` units long, its new addresses without memory.  False, and nothing
 * changed, where others lie behind it. */
bool zc_extent_stretch(struct zc_extent *extent, uint32_t units);

/* Makes it `units` units long, fewer than it has.  What is cut off is an extent of its own then,
 * use NONE, with its memory. */
struct zc_extent *zc_extent_cut(struct zc_extent *extent, uint32_t units);

/* The pool's best fit of at least `units` units bound to `node`, taken out of it, or NULL.  For an
 * `owner` none that another context registered. */
struct zc_extent *zc_extent_reuse(uint32_t units, int node, const void *owner);

/* Puts memory into the pool, and takes it out. */
void zc_extent_pool(struct zc_extent *extent);
void zc_extent_unpool(struct zc_extent *extent);

/* The oldest extent in the pool that is registered by libzc (`pinned`) or is not, or NULL; with
 * `odd` only of those whose mappings the program changed. */
struct zc_extent *zc_extent_oldest(bool pinned, bool odd);

/* Makes memory behind the fresh addresses of the units from `first` on, without the lock: readable,
 * in huge pages, on a node.  False when the kernel refuses. */
bool zc_extent_back(const struct zc_extent *extent, uint32_t first, int node);

/* Says whether memory of the extent that was not touched yet comes in pages of 4 KiB or in huge
 * ones, without the lock. */
void zc_extent_pages(struct zc_extent *extent, bool small);

/* Touches the first pages of fresh memory, without the lock: bytes [from, to) of the extent, where
 * they are so many that threads are worth starting. */
void zc_extent_prefault(const struct zc_extent *extent, size_t from, size_t to);

/* Moves the memory of one extent to the first units of another, fresh one, without the lock and
 * without copying (mremap(2)); the old addresses have none then.  False where the kernel cannot;
 * the fresh addresses are in order only if *intact. */
bool zc_extent_move(const struct zc_extent *from, const struct zc_extent *to, bool *intact);

/* Gives the memory back to the kernel, without the lock.  The addresses stay reserved. */
void zc_extent_unback(const struct zc_extent *extent);

/* Reserves the range and the records.  Without the lock, one caller at a time. */
bool zc_extent_reserve(const char **why);

/* Makes the range as long as RLIMIT_AS asks for, or no longer than what was carved of it: never
 * longer than it is. */
void zc_extent_fit(bool carved_only);

/* Visits all extents with memory, in address order. */
void zc_extent_each(void (*visit)(struct zc_extent *extent, void *arg), void *arg);

/* Lists by use; the heap links slabs with room through these too. */
void zc_extent_link(struct zc_extent **list, struct zc_extent *extent);
void zc_extent_unlink(struct zc_extent **list, struct zc_extent *extent);

/* This process's generation: a child of fork(2) has another than its parent.  Atomic. */
extern uint32_t zc_extent_era;
extern int zc_extent_local; /* Node of the device that used a ZC_NODE_LOCAL extent last; atomic. */
extern size_t zc_extent_pooled_bytes; /* Memory in the pool, inherited memory included. */

#endif
