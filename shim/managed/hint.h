/* SPDX-License-Identifier: MIT */
/* Hints for managed blocks: advice, and prefetches to the place of use. */
#pragma once

#include "driver/copy.h"
#include "memory/place.h"

/*
 * Applies the rule's advice and first prefetch to a new managed block.  Hints that the driver
 * refuses are left out: they change no result.
 */
void zc_hint_make(const struct zc_want *want, struct zc_backing *b);

/* A block of any place is being freed: drops its hints. */
void zc_hint_unmake(struct zc_backing *b);

/* A copy or set is about to go to the driver: with `prefetch = copy` the pages that it writes are
 * prefetched to the device first, on its stream. */
void zc_hint_copy(const struct zc_copy *c);
