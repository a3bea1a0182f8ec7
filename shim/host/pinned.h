/* SPDX-License-Identifier: MIT */
/* The place `pinned`: what the driver knows of the host heap. */
#ifndef ZC_HOST_PINNED_H
#define ZC_HOST_PINNED_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/real.h"
#include "host/hostheap.h"

/*
 * libzc registers an extent at its first use in a transfer, and nowhere else: malloc may be called
 * from everywhere, also from inside the driver and from its callbacks, where no CUDA call may be
 * made.
 */

/* True when [address, ...) of `bytes` lies in memory that libzc registered; tries to register it
 * where that is worth it.  Called with a current context, in a call of the program's.  Not while a
 * stream is being captured: the driver refuses it then, and the memory stays pageable. */
bool zc_pinned_use(struct zc_extent *extent, uint64_t bytes);

/* Keeps everybody from registering an extent and from taking its registration back, while the
 * program changes its pages; returns what `pin` was.  Then zc_pinned_let_go() with what it is from
 * here on.  All signals are blocked between both. */
enum zc_extent_pin zc_pinned_hold(struct zc_extent *extent);
void zc_pinned_let_go(struct zc_extent *extent, enum zc_extent_pin pin);

/* Registers an extent for a request of the program's own for pinned memory, in the current context;
 * nothing to do where that was done.  On failure returns the driver's code and says in *why what
 * was not possible; the extent stays as it was.  Not while a stream is being captured. */
CUresult zc_pinned_now(struct zc_extent *extent, const char **why);

/* Registers an extent whose `pin` the caller has moved to MAKING, in the current context; its `pin`
 * is the caller's to set.  Returns the driver's code, CUDA_ERROR_OUT_OF_MEMORY where there are too
 * many registrations. */
CUresult zc_pinned_register(struct zc_extent *extent, unsigned flags);

/* Takes a registration back; waits for the device.  False when the driver keeps it. */
bool zc_pinned_unregister(struct zc_extent *extent);

/* True for an address of the host heap that the driver must answer for as for pageable memory; also
 * inside of extents for cuMemHostAlloc, outside of the ledger's blocks. */
bool zc_pinned_hides(uint64_t address);

/* An address to ask the driver about: the one given, or that of a byte of libzc's that is pageable,
 * where the answer must be the one for pageable memory. */
CUdeviceptr zc_pinned_disguise(CUdeviceptr address);

/* Before the program registers memory of its own accord: takes libzc's registration of the extents
 * in [address, address + bytes) back, and leaves them to the program. */
void zc_pinned_yield(uint64_t address, size_t bytes);

/* After the program's unregistering, after the end of the context in which it registered, or after
 * the driver refused it to register. */
void zc_pinned_return(uint64_t address, size_t bytes);

/* Gives back what is too much in the pool.  For calls in which the program itself waits for the
 * device, because unregistering does. */
void zc_pinned_trim(void);

/* A context is gone, and with it what was registered in it. */
void zc_pinned_forget(CUcontext context);

#endif
