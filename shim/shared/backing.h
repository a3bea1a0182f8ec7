/* SPDX-License-Identifier: MIT */
/*
 * What lies behind a device block of the place `shared`: ONE, the pages of a host block, registered
 * for the GPU to read; or OWN, device memory.
 */
#pragma once

#include "shared/pair.h"

/* What a device must have, whatever the block is.  False, with the reason in *why. */
bool zc_shared_possible(const struct zc_want *want, const char **why);

/*
 * OWN to ONE, where nothing was put into the device block yet: it gets the pages of a host block,
 * whose copies the caller has visited (zc_hostheap_visit()).  Kernels may have written it if it has
 * memory already: then the copy must bring the `whole` block, and this waits for the context.
 * False where that is not possible; then it is OWN as before.
 */
bool zc_shared_to_one(struct zc_shared *pair, struct zc_extent *extent, bool whole);

/*
 * The content of a block with `access = write`, which the caller may copy whole to the host block
 * of an extent, becomes the host block's by exchange of their pages.  The caller has visited the
 * copy.  Waits for the context.  False, and nothing changed, where that is not possible.
 */
bool zc_shared_deliver(struct zc_shared *pair, struct zc_extent *extent);

/* A new device block is undecided where kernels may write it, or where a host block that may be
 * copied into it has its addresses: no memory is attached to it.  Without `early` there is none. */
void zc_shared_begin(struct zc_shared *pair, struct zc_early *early);

/* It is undecided no more, but OWN as any other, because the program uses or frees it otherwise.
 * Waits for the device if something is registered at its addresses.  With driver/lock.h; and the
 * same for a caller without it. */
void zc_shared_drop(struct zc_shared *pair);
void zc_shared_spread(struct zc_shared *pair);

/*
 * Before `fn` launches work that may write blocks: undecided ones with `access = write` get pages
 * of the host heap, where that is possible, which become those of the host block that they are
 * copied to first.  The other undecided ones are OWN, and those whose content a host block has got
 * become OWN.
 */
CUresult zc_shared_before_kernels(enum zc_fn fn);

/*
 * ONE to OWN: the device block gets memory of its own with the same content, and the host block is
 * the CPU's alone.  Waits for the device.  `why`: a string constant for the log.  Nothing to do
 * where it is OWN.  On failure the code for the program's call `fn`, which was explained; the block
 * is ONE as before.
 */
CUresult zc_shared_to_own(struct zc_shared *pair, enum zc_fn fn, const char *why);

/* The same where it only would be better.  False, and ONE as before, where it is not possible, or
 * where a kernel runs on and may wait for the program. */
bool zc_shared_cool(struct zc_shared *pair, const char *why);

/* Before `fn` gives a stream work that may wait for the CPU: from here on no backing changes,
 * because that waits for the device, so all blocks become OWN.  Then as zc_quiesce(). */
CUresult zc_shared_quiesce(enum zc_fn fn);

/* The same for the block at an address that the driver is about to be given by `fn`, in a form that
 * is no copy. */
CUresult zc_shared_forward(enum zc_fn fn, CUdeviceptr address);

/* The same for the source of a copy in a graph.  What a driver keeps of the kind of memory there
 * would not be so for a block that changes. */
CUresult zc_shared_source(enum zc_fn fn, CUdeviceptr address);

/* The driver lets go of what it knows of a block that is ONE: it may refuse, and then all is as
 * before. */
CUresult zc_shared_unregister(struct zc_shared *pair);

/* After that, or after the end of the context: nothing but reserved addresses lies behind it, and
 * the host block is the CPU's alone. */
void zc_shared_part_ways(struct zc_shared *pair);
