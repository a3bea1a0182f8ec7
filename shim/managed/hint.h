/* SPDX-License-Identifier: MIT */
/* Hints for managed blocks: advice, and prefetches to where pages will be used. */
#ifndef ZC_MANAGED_HINT_H
#define ZC_MANAGED_HINT_H

#include "driver/copy.h"
#include "memory/place.h"

/*
 * Gives a fresh managed block the rule's advice and first prefetch.  Hints that the driver refuses
 * are left out: they change no result.
 */
void zc_hint_make(const struct zc_want *want, struct zc_backing *b);

/* A block of any place is being freed: it has no hints any more. */
void zc_hint_unmake(struct zc_backing *b);

/* A copy or set that is about to be given to the driver: with `prefetch = copy` the pages that it
 * writes are sent to the device first, on its stream. */
void zc_hint_copy(const struct zc_copy *c);

#endif
