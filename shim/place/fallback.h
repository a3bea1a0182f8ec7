/* SPDX-License-Identifier: MIT */
/* Tries the places that a rule names, and gives their memory back. */
#pragma once

#include "memory/place.h"

/* The row of a place; NULL if this version of libzc does not have it. */
const struct zc_place *zc_place_of(enum zc_place_id id);

/*
 * Tries the places of want->rule in order, from index `first` on.  Returns a backing (from the
 * arena), and the index of its place in *index_out; or NULL at `device` or at the end of the list,
 * with that index: then the request goes where the program put it.  If *index_out is 0, even for
 * `device`, it counts against the rule's budget.  `why` collects why places were passed over
 * ("mapped: over max_pinned").  The caller ends with zc_limits_end_room().
 */
struct zc_backing *zc_place_try(const struct zc_want *want, unsigned first, unsigned *index_out,
                                char *why, size_t why_cap);

/* Whether a rule may give a request for device memory host memory, if need be. */
bool zc_place_hosts(const struct zc_rule *rule);

/* The part of zc_place_release() that the driver may refuse; then nothing has changed. */
CUresult zc_place_detach(struct zc_backing *backing);

/* Gives back memory, limits and record of a backing.  Memory that the driver refuses to take back
 * stays for good. */
CUresult zc_place_release(struct zc_backing *backing, bool gone);
