/* SPDX-License-Identifier: MIT */
/* Which devices reach memory that is mapped by hand: its own, and those that were let. */
#ifndef ZC_VMM_ACCESS_H
#define ZC_VMM_ACCESS_H

#include "vmm/va.h"

/*
 * Memory of cuMemAlloc is reachable for a device once cuCtxEnablePeerAccess was called in one of
 * its contexts for the context of the memory (CUDA Driver API, "Peer Context Memory Access").
 * Mapped memory is reachable for the devices that cuMemSetAccess names.  So what is enabled is
 * noted here and carried over to all ranges of the context, those that there are and those to
 * come; and the rights of a pool to the ranges of its requests.
 *
 * Ranges, and who reaches them, are changed with the turn.
 */
bool zc_access_turn_take(void);
void zc_access_turn_drop(void);

/* Enters a range that was reserved, and takes it out again.  With the turn.  Where the driver does
 * not say which devices could reach it, its code, and the range is not entered. */
CUresult zc_access_enter(struct zc_va *va);
void zc_access_leave(struct zc_va *va);

/* Opens the bytes from `from` to `to`, just mapped, to the range's devices.  With the turn.
 * Returns the driver's code. */
CUresult zc_access_open(const struct zc_va *va, size_t from, size_t to);

/* The current context may use the memory of `peer` from here on.  On failure the driver's code, and
 * nothing has changed. */
CUresult zc_access_enable(CUcontext peer);

/* It may no longer: closes the blocks, then calls the driver's cuCtxDisablePeerAccess.  On failure
 * of either the code, and nothing has changed.  With the blocks first no kernel reaches a block
 * after the driver has said that its access ended. */
CUresult zc_access_disable(CUcontext peer, CUresult (*driver)(CUcontext peer));

/*
 * cuMemPoolSetAccess: the rights of a pool are those of all its blocks, whenever these were made,
 * and peer access changes nothing about them (CUDA C++ Programming Guide, "Stream Ordered Memory
 * Allocator").  Calls the driver's function, then opens and closes the blocks; where that fails the
 * code, and nothing has changed.
 */
CUresult zc_access_grant(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count,
                         __typeof__(cuMemPoolSetAccess) *driver);

/* The program has no pool of this name any more; what its blocks are open to stays. */
void zc_access_forget_pool(CUmemoryPool pool);

/* Waits for the work that may use ranges of freed blocks yet.  Returns the driver's code. */
CUresult zc_access_quiesce(void);

/* True once some process of libzc's could have more than one device to think of.  Atomic. */
extern bool zc_access_many;

/* Opens a range to a device that makes a copy, which takes no peer access (CUDA Driver API,
 * cuMemcpy).  Where the devices can't reach each other the driver is left to refuse.  Returns the
 * driver's code. */
CUresult zc_access_let_copy(struct zc_va *va, int device);

/* True where a device may set memory of the range, as only its own and those with peer access
 * may. */
bool zc_access_may_set(const struct zc_va *va, int device);

/* The block of a range was freed: devices that only copies needed reach it no longer.  Returns the
 * driver's code; after a failure they may. */
CUresult zc_access_end_copies(struct zc_va *va);

#endif
