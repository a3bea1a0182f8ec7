/* SPDX-License-Identifier: MIT */
/* Which devices can reach memory that libzc mapped by hand. */
#pragma once

#include "driver/copy.h"
#include "vmm/va.h"

/*
 * cuCtxEnablePeerAccess opens cuMemAlloc memory of a context to the devices of others (CUDA Driver
 * API, "Peer Context Memory Access"), mapped memory only cuMemSetAccess.  So what the program
 * enables is recorded here, and applied to all ranges of the device, present and future.
 */

/*
 * Reserves `span` bytes for a range whose `device` and `context` are set, or takes the addresses in
 * its `base` and `size`; with `wide` as many as the device has memory, unless there are too many
 * such ranges.  On failure returns the driver's code, with the refused call in *why, and the range
 * is as before.
 */
CUresult zc_access_reserve(struct zc_va *va, size_t span, size_t granularity, bool wide,
                           const char **why);

/* Lets the device of the current context use the memory of `peer`, also once the program has ended
 * that.  On failure returns the driver's code. */
CUresult zc_access_enable(CUcontext peer);

/* Other devices that may use a range whenever they like, one bit each: not only for a copy. */
uint64_t zc_access_others(const struct zc_va *va);

/* Opens a range to a device that makes copies, which need no peer access (CUDA Driver API,
 * cuMemcpy).  Returns the driver's code. */
CUresult zc_access_let_copy(struct zc_va *va, int device);

/* Opens the vmm blocks of a copy, or an element of a batch, to the device that makes it, because
 * CUDA allows such copies without peer access, but no sets, and their host memory to the CPU.
 * Returns the program's code: the driver's, or the refusal of a set. */
CUresult zc_vmm_open(const struct zc_copy *c, bool batch);

/* Opens host memory of vmm blocks to the devices of a copy's other side, as zc_vmm_open() does, for
 * a node of a graph, too.  Returns the driver's code. */
CUresult zc_vmm_open_far(const struct zc_copy *c);

/* Opens all vmm blocks to all devices, and their host memory to the CPU.  Returns the driver's
 * code. */
CUresult zc_access_open_all(void);
