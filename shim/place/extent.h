/* Extents of the host heap: carved out of the reserved range, pooled, given back.  The heap's
 * own. */
#ifndef ZC_PLACE_EXTENT_H
#define ZC_PLACE_EXTENT_H

#include "place/hostheap.h"

/* The functions below are called with the heap's lock held, unless they say otherwise. */

/* Addresses for `units` units, use NONE.  NULL when the range is full. */
struct zc_extent *zc_extent_carve(uint32_t units);

/* Takes addresses back that have no memory. */
void zc_extent_bury(struct zc_extent *extent);

/* The pool's best fit of at least `units` units bound to `node`, taken out of it, or NULL.  For an
 * `owner` none that another context registered. */
struct zc_extent *zc_extent_reuse(uint32_t units, int node, const void *owner);

/* Puts memory into the pool, and takes it out. */
void zc_extent_pool(struct zc_extent *extent);
void zc_extent_unpool(struct zc_extent *extent);

/* The oldest extent in the pool that is registered by libzc (`pinned`) or is not, or NULL. */
struct zc_extent *zc_extent_oldest(bool pinned);

/* Makes memory behind fresh addresses, without the lock: readable, in huge pages, on a node.  False
 * when the kernel refuses. */
bool zc_extent_back(const struct zc_extent *extent, int node);

/* Gives the memory back to the kernel, without the lock.  The addresses stay reserved. */
void zc_extent_unback(const struct zc_extent *extent);

/* Reserves the range and the records.  Without the lock, one caller at a time. */
bool zc_extent_reserve(const char **why);

/* Visits all extents with memory, in address order. */
void zc_extent_each(void (*visit)(struct zc_extent *extent, void *arg), void *arg);

/* Lists by use; the heap links slabs with room through these too. */
void zc_extent_link(struct zc_extent **list, struct zc_extent *extent);
void zc_extent_unlink(struct zc_extent **list, struct zc_extent *extent);

/* This process's generation: a child of fork(2) has another than its parent. */
extern uint32_t zc_extent_era;
extern size_t zc_extent_pooled_bytes; /* Memory in the pool, inherited memory included. */

#endif
