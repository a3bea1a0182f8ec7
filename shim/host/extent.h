/* SPDX-License-Identifier: MIT */
/* Extents of the host heap, which alone uses them: carved out of its range, pooled, given back. */
#pragma once

#include "host/heap.h"

/* The heap's lock.  zc_heap_lock() is false in a signal handler that interrupted the heap. */
bool zc_heap_lock(void);
void zc_heap_unlock(void);

/* A bool that at the end of its block gives the lock back, if it says that the lock was taken. */
#define ZC_HEAP_HELD __attribute__((cleanup(zc_heap_leave), unused)) bool
static inline void zc_heap_leave(const bool *held)
{
    if (*held)
        zc_heap_unlock();
}

/* Returns how many of `bytes` threads may touch for a fresh block, and notes them: until the
 * program copies or frees such blocks it may not need them, so they have 128 MiB of that together.
 */
size_t zc_heap_may_prefault(struct zc_extent *extent, size_t bytes);

/* zc_extent_bury() under the lock; a signal handler that interrupted the heap loses the addresses.
 */
void zc_heap_bury(struct zc_extent *extent);

/* zc_extent_carve() under the lock.  NULL with errno set if the kernel refuses, or with errno 0 if
 * the range is full. */
struct zc_extent *zc_heap_carve(uint32_t units);

/* Units that hold this many bytes. */
static inline uint64_t zc_extent_units(uint64_t bytes)
{
    return (bytes + ZC_HOST_UNIT - 1) >> ZC_HOST_UNIT_SHIFT;
}

/* The functions below are called with the heap's lock held, unless they say otherwise. */

/* Addresses for `units` units, with use NONE and an own record.  NULL if the range is full. */
struct zc_extent *zc_extent_carve(uint32_t units);

/* Takes back addresses without memory. */
void zc_extent_bury(struct zc_extent *extent);

/* Lengthens an extent to `units` units; its new addresses have no memory.  If others lie behind it,
 * returns false and changes nothing. */
bool zc_extent_stretch(struct zc_extent *extent, uint32_t units);

/* Shortens an extent to `units` units.  Returns the rest as an extent of its own, with use NONE and
 * its memory.  Without the lock; NULL in a signal handler that interrupted the heap. */
struct zc_extent *zc_extent_cut(struct zc_extent *extent, uint32_t units);

/* Takes the best fit of at least `units` units out of the pool, or returns NULL.
 * An `owner` gets none that another context registered. */
struct zc_extent *zc_extent_reuse(uint32_t units, const struct zc_host_want *want);

/* Counts what a block of so many bytes leaves of the extent, until that is pooled; 0: none has it.
 * Without the lock. */
void zc_extent_fill(struct zc_extent *extent, size_t size);

/* Puts memory into the pool, and takes it out. */
void zc_extent_pool(struct zc_extent *extent);
void zc_extent_unpool(struct zc_extent *extent);

/* The oldest extent in the pool that libzc registered (`pinned`), or did not register; with
 * `no_reuse` only one whose mappings the program changed.  NULL if there is none. */
struct zc_extent *zc_extent_oldest(bool pinned, bool no_reuse);

/* Gives the fresh addresses of the units from `first` on memory.  Without the lock.
 * False if the kernel refuses. */
bool zc_extent_back(const struct zc_extent *extent, uint32_t first);

/* Chooses 4 KiB or huge pages for untouched memory of the extent.  Without the lock. */
void zc_extent_pages(struct zc_extent *extent, bool small);

/* Touches the bytes [from, to) of fresh memory, if they are many enough to be worth starting
 * threads.  Without the lock. */
void zc_extent_prefault(const struct zc_extent *extent, size_t from, size_t to);

/* Moves the memory of one extent to the first units of another, fresh one without copying it
 * (mremap(2)); the old addresses then have no memory.  Without the lock.  False if the kernel
 * can't; then the fresh addresses are usable only if *intact. */
bool zc_extent_move(struct zc_extent *from, const struct zc_extent *to, bool *intact);

/* Gives the memory back to the kernel, without the lock, and forgets its file.  The addresses stay
 * reserved. */
void zc_extent_unback(struct zc_extent *extent);

/* Reserves the range and the records, once; else the reason is in *why. */
void zc_extent_reserve(const char **why);

/* Shortens the range to what RLIMIT_AS allows, or to what was carved of it.  Never lengthens it. */
void zc_extent_fit(bool carved_only);

/* Visits all extents with memory, in address order.  visit() may change `pin`, and must not call
 * the driver or libc. */
void zc_extent_each(void (*visit)(struct zc_extent *extent, void *arg), void *arg);

/* The generation of this process: a child of fork(2) has another than its parent.  Atomic. */
extern uint32_t zc_extent_era;
extern bool zc_extent_unlisted;  /* `pin` of pooled extents has changed.  Atomic. */
extern uint32_t zc_extent_files; /* Extents of this process that have a file.  Atomic. */
