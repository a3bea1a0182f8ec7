/* SPDX-License-Identifier: MIT */
/* The list of places that a rule names: which of them a block gets, and giving it back. */
#ifndef ZC_PLACE_FALLBACK_H
#define ZC_PLACE_FALLBACK_H

#include "memory/place.h"

/* The row of a place, NULL for one that this version of libzc does not build. */
const struct zc_place *zc_place_of(enum zc_place_id id);

/* Says once per rule which of its places and keys this version does not build, and so passes
 * over. */
void zc_place_check_policy(const struct zc_policy *policy);

/*
 * Tries the places of want->rule in order, as long as each is possible and within its limits.  On
 * success returns a backing (from the arena) and the index of the place taken in *index_out.
 * Returns NULL when the list reached `device` or its end: then the request goes where the program
 * put it, and *index_out is the index of `device`, or the length of the list.  `why` collects the
 * reasons of the places passed over, as text ("mapped: over max_pinned"), empty if the first one
 * was taken. Where index 0 is given back, also for `device`, the request counts against the rule's
 * budget.
 */
struct zc_backing *zc_place_try(const struct zc_want *want, unsigned first, unsigned *index_out,
                                char *why, size_t why_cap);

/* The part of zc_place_release() that the driver may refuse; then nothing has changed.  Its context
 * is current, or the thread gets one. */
CUresult zc_place_detach(struct zc_backing *backing);

/* Unmakes a backing and returns its memory to the arena and the limits.  What the driver refuses to
 * take back stays as it is, for good. */
CUresult zc_place_release(struct zc_backing *backing, bool gone);

#endif
