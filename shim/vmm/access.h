/* SPDX-License-Identifier: MIT */
/* Which devices can reach memory that libzc mapped by hand. */
#pragma once

#include "driver/copy.h"
#include "vmm/va.h"

/*
 * A device can reach cuMemAlloc memory once cuCtxEnablePeerAccess was called in one of its contexts
 * for the memory's context (CUDA Driver API, "Peer Context Memory Access").  Mapped memory is
 * reachable only for the devices that cuMemSetAccess names.  So this module records what the
 * program enables, and applies it to all ranges of the context, present and future.
 */

/*
 * Reserves a range whose `device` and `context` are set, and which is zero otherwise, but
 * for `base` and `size` if addresses are reserved there already; after a failure these stay so.  It
 * is `span` bytes long; with `wide` it is large enough for all memory of the device, unless there
 * are too many such ranges, because addresses are limited.  On failure returns the driver's code,
 * with the refused call in *why, and nothing is reserved.
 */
CUresult zc_access_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                           const char **why);

/* Lets the current context use the memory of `peer` from now on.  On failure returns the driver's
 * code, and nothing has changed. */
CUresult zc_access_enable(CUcontext peer);

/* Ends that: closes the blocks, then calls the driver's cuCtxDisablePeerAccess.  If either fails,
 * returns the code, and nothing has changed.  The blocks come first, so that no kernel reaches a
 * block after the driver has said that access ended. */
CUresult zc_access_disable(CUcontext peer, CUresult (*driver)(CUcontext peer));

/* The block of a range was freed: closes it to devices that were let in only for copies.  Returns
 * the driver's code; after a failure they still have access. */
CUresult zc_access_end_copies(struct zc_va *va);

/*
 * Prepares a copy or set that touches a vmm block of another device than the one that makes it.
 * CUDA allows such copies without peer access, so the block is opened to that device; if it can't
 * be, the copy gets the driver's code.  CUDA refuses such sets, even after a copy has opened the
 * block.
 */
CUresult zc_vmm_open(const struct zc_copy *c);

/* The same for a call that may copy any block from any device.  Returns the driver's code. */
CUresult zc_access_open_all(void);
