/* Hints for managed blocks: advice, and prefetches to where pages will be used. */
#ifndef ZC_PLACE_HINT_H
#define ZC_PLACE_HINT_H

#include "catch/describe.h"
#include "place/place.h"

/* A managed block while its pages are not known to be on its device. */
struct zc_hinted {
    CUdeviceptr base;  /* First address. */
    size_t size;       /* Bytes. */
    int device;        /* Of the request. */
    unsigned prefetch; /* ZC_PREFETCH_*: what the rule says, or what was chosen. */
    bool chosen;       /* `prefetch` is settled; false: to be chosen by the block's use. */
    bool away;         /* Pages may be elsewhere. */
    uint64_t copied;   /* Bytes that copies and sets wrote into it while it was away. */
    bool waits;        /* A launch may want it: it is in the list of these. */
    struct zc_hinted *next, *before; /* Of those that wait. */
};

/*
 * Gives a fresh managed block the rule's advice and first prefetch.  The record is from the arena
 * and belongs to the block; NULL without memory for it, then there are no hints.  Hints that the
 * driver refuses are left out: they change no result.
 */
struct zc_hinted *zc_hint_make(const struct zc_want *want, CUdeviceptr base);

/* The block is being freed.  NULL is allowed. */
void zc_hint_unmake(struct zc_hinted *h);

/* A copy or set that is about to be given to the driver: with `prefetch = copy` the pages that it
 * writes are sent to the device first, on its stream. */
void zc_hint_copy(const struct zc_copy *c);

/* True for a block that libzc put into managed memory for the device, whose pages were sent there
 * or are known to come there by their first use. */
bool zc_hint_home(const struct zc_block *block, int device);

void zc_hint_reset(void); /* For the child of fork(2). */

#endif
