/* SPDX-License-Identifier: MIT */
/* The place `pinned`: registers the host heap with the driver. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/real.h"
#include "host/hostheap.h"

/*
 * libzc registers an extent at its first use in a transfer, never in malloc.  Programs may call
 * malloc from anywhere, even from inside the driver and its callbacks, where CUDA calls are
 * forbidden.
 */

/* Before a copy of an extent whose registration is stale, because the program may have mapped other
 * pages there since: ends it.  Stuck: that would wait for streams that may wait for the program, or
 * a graph relies on it; then the driver must not be given the address, and zc_pinned_refuse()
 * returns the code for the program's call, which was explained; `why` begins the sentence.
 * `needed`: no other way is exact, so kernels count as work that ends, though one may wait for the
 * program.  NULL is neither stale nor stuck. */
void zc_pinned_end_stale(struct zc_extent *extent, bool needed);
static inline bool zc_pinned_stale(const struct zc_extent *extent)
{
    return extent && __builtin_expect(__atomic_load_n(&extent->stale, __ATOMIC_ACQUIRE), 0);
}
static inline void zc_pinned_end_if_stale(struct zc_extent *extent)
{
    if (zc_pinned_stale(extent))
        zc_pinned_end_stale(extent, false);
}
static inline bool zc_pinned_stuck(const struct zc_extent *extent)
{
    return zc_pinned_stale(extent) && zc_extent_registered(extent);
}
CUresult zc_pinned_refuse(const struct zc_extent *extent, enum zc_fn fn, const char *why);

/* True if the `bytes` at an address are in memory that libzc registered; registers it first if that
 * is worth it.  Call it with a current context, in a call of the program's.  The driver does not
 * register during a capture: the memory then stays pageable. */
bool zc_pinned_use(struct zc_extent *extent, uint64_t bytes);

/* True where zc_pinned_use() would register the extent now, and next to nothing of it was copied
 * before.  The caller may leave that to the next copy, if it can make this one as fast; then
 * it counts the bytes in `copied`. */
bool zc_pinned_first(const struct zc_extent *extent, uint64_t bytes);

/* Waits while `pin` is MAKING, and then moves it there.  Returns the old `pin`.  Nobody else
 * registers the extent, ends its registration or changes `program`, until zc_pinned_release() with
 * the new `pin`.  Who stands for a system call that signal handlers may make, as mmap(2), blocks
 * all signals in between. */
enum zc_extent_pin zc_pinned_hold(struct zc_extent *extent);
void zc_pinned_release(struct zc_extent *extent, enum zc_extent_pin pin);

/* Registers an extent in the current context, for a request for pinned memory; does nothing if it
 * is registered already.  On failure returns the driver's code, with the reason in *why, and the
 * extent stays as it was.  Not during a capture. */
CUresult zc_pinned_now(struct zc_extent *extent, const char **why);

/* Sets SYNC_MEMOPS of the memory that a block of cuMemHostAlloc is registered with: a slab for all
 * of its blocks; or a block that the program registered when libzc had.  Returns the driver's code.
 */
CUresult zc_pinned_sync(CUdeviceptr address, bool on);

/*
 * A graph is given a copy of the extent: NULL for none.  The driver keeps what kind of memory it
 * found then, so a registration lasts as long as the block: launches would use addresses that the
 * device no longer has.
 */
void zc_pinned_in_graph(struct zc_extent *extent);
static inline bool zc_pinned_lasts(const struct zc_extent *extent)
{
    return __atomic_load_n(&extent->graphed, __ATOMIC_ACQUIRE);
}

/* Ends a registration; waits for the device.  False if the driver keeps it. */
bool zc_pinned_unregister(struct zc_extent *extent);

/*
 * Before a call `fn` that libzc does not know, and so can't complete as a copy of pageable memory
 * if it is one: ends the registrations of blocks with 'async = staged', and makes no more.  Returns
 * CUDA_SUCCESS, or the code for the program's call, which was explained, where that would wait for
 * streams that may wait for the program.
 */
CUresult zc_pinned_forgo(enum zc_fn fn);

/* True for an address of the host heap that must look pageable in the driver's answers.  Extents of
 * cuMemHostAlloc count, too, outside of the ledger's blocks. */
bool zc_pinned_hides_own(uint64_t address);
static inline bool zc_pinned_hides(uint64_t address)
{
    return zc_hostheap_owns(address) && zc_pinned_hides_own(address);
}

/* Pageable memory of libzc's own, to ask the driver about instead of such an address. */
extern const char zc_pinned_pageable[64];

/* The program is about to register private memory of its own, all of which that brings in: threads
 * do so before.  What the driver may refuse, or take in other ways, is left to it. */
void zc_pinned_bring_in(const void *memory, size_t bytes);

/* True if a registration that libzc had made of memory of the heap is the program's own now; takes
 * from the `flags` of it what the program did not ask for.  The second ends it, and returns the
 * driver's code. */
bool zc_pinned_adopted(const void *memory, unsigned *flags);
CUresult zc_pinned_end(void *memory);

/* True if no block has some of [address, address + bytes), which begins in the host heap: the
 * driver would register what the pool keeps. */
bool zc_pinned_freed(uint64_t address, size_t bytes);

/* The program is about to register memory itself, with these flags.  Returns CUDA_SUCCESS, or the
 * code for its call where it must not, as above; else leaves the extents in
 * [address, address + bytes) to the program: with libzc's registration, or without. */
CUresult zc_pinned_yield(uint64_t address, size_t bytes, unsigned flags, enum zc_fn fn);

/* The program's registration ended, with its context or by a call, or the driver refused it. */
void zc_pinned_return(uint64_t address, size_t bytes);

/*
 * The process is about to fork.  Linux would copy what libzc has registered for the child, and
 * children may need what the pool keeps.  So where devices have nothing to do, or soon, all
 * registrations of libc's blocks end, and the pool is emptied.  Only where the driver may be
 * called.
 */
void zc_pinned_before_fork(void);

/* Gives back surplus memory of the pool, or with `all` the registered part of it.  Only where
 * devices have nothing to do, or in calls in which the program itself waits for the device, because
 * unregistering waits, too. */
void zc_pinned_trim(bool all);

/* True if the host has so much memory left.  What the pool keeps stands in nobody's way, but where
 * a device has something to do, which ending a registration waits for. */
bool zc_pinned_host_has(size_t bytes);

/* Gives back what the pool has kept for too long, the registered part where the device has nothing
 * to do.  Behind calls that give the program its results; holds no lock of the caller's. */
void zc_pinned_tidy(void);
