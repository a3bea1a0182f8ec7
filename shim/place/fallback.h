/* SPDX-License-Identifier: MIT */
/* Tries the places that a rule names, and gives their memory back. */
#pragma once

#include "memory/place.h"

/* The row of a place; NULL if this version of libzc does not have it. */
const struct zc_place *zc_place_of(enum zc_place_id id);

/* Reports once per rule which of its places and keys this version does not support. */
void zc_place_check_policy(const struct zc_policy *policy);

/*
 * Tries the places of want->rule in order, from index `first` on.  A place must be possible and
 * within its limits.  On success returns a backing (from the arena), and its index in *index_out.
 * Returns NULL at `device` or at the end of the list: then the request goes where the program put
 * it, and *index_out is the index of `device` or the length of the list.  `why` collects why places
 * were passed over ("mapped: over max_pinned"); it is empty if the first one was taken.  If
 * *index_out is 0, even for `device`, the request counts against the rule's budget.  The caller
 * ends with zc_limits_end_room().
 */
struct zc_backing *zc_place_try(const struct zc_want *want, unsigned first, unsigned *index_out,
                                char *why, size_t why_cap);

/* The part of zc_place_release() that the driver may refuse; then nothing has changed.  A thread
 * without a context gets the backing's for the call. */
CUresult zc_place_detach(struct zc_backing *backing);

/* Gives back the memory of a backing and what it counted against the limits, and frees the record.
 * Memory that the driver refuses to take back stays for good. */
CUresult zc_place_release(struct zc_backing *backing, bool gone);
