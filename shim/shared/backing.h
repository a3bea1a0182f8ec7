/* SPDX-License-Identifier: MIT */
/*
 * Behind a device block of the place `shared` lies: ONE, the pages of a host block, registered
 * for the GPU to read; or OWN, device memory.
 */
#pragma once

#include "shared/pair.h"

/* Whether a request may be shared at all.  False, with the reason in *why. */
bool zc_shared_possible(const struct zc_want *want, const char **why);

/* A new device block is undecided where `early` has its addresses: no memory is attached to it.
 * Returns whether it is. */
bool zc_shared_begin(struct zc_shared *pair, struct zc_early *early);

/* It is OWN, as it is used or freed before it was decided.  Waits for the device if something is
 * registered at its addresses.  The first is called with driver/lock.h, the second takes it. */
void zc_shared_drop(struct zc_shared *pair);
void zc_shared_decide(struct zc_shared *pair);

/* OWN to ONE, where nothing was put into the device block yet: it gets the pages of a host block,
 * whose copies the caller has visited (zc_hostheap_visit()).  If it has memory already, which
 * kernels may have written, the copy must bring the `whole` block, and this waits for the context.
 * Returns NULL, or why that is not possible, a string constant. */
const char *zc_shared_to_one(struct zc_shared *pair, struct zc_extent *extent, bool whole);

/* Before `fn` launches work that may use blocks: undecided ones become OWN, for `kernels` with
 * their memory. */
CUresult zc_shared_decide_all(enum zc_fn fn, bool kernels);

/* ONE to OWN, for good: the device block gets memory of its own with the same content, and the host
 * block is the CPU's alone.  Waits for the device.  `why`: a string constant for the log.  On
 * failure the code for the program's call `fn`, which was explained. */
CUresult zc_shared_to_own(struct zc_shared *pair, enum zc_fn fn, const char *why);

/* The same where it only would be better.  False, and ONE as before, where it is not possible, or
 * where a kernel runs on and may wait for the program. */
bool zc_shared_demote(struct zc_shared *pair, const char *why);

/* Before `fn` gives a stream work that may wait for the CPU: from here on no backing changes,
 * because that waits for the device, so all blocks become OWN.  Then as zc_grow_drain(). */
CUresult zc_shared_drain(enum zc_fn fn);

/* The driver forgets the registration of a block that is ONE; it may refuse, and then all is as
 * before. */
CUresult zc_shared_unregister(struct zc_shared *pair);

/* After that, or after the end of the context: nothing but reserved addresses lies behind it, and
 * the host block is the CPU's alone. */
void zc_shared_detach(struct zc_shared *pair);
