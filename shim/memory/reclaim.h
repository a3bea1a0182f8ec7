/* SPDX-License-Identifier: MIT */
/* Gives memory back that libzc keeps after the program freed it, when the driver is out of
 * memory. */
#ifndef ZC_MEMORY_RECLAIM_H
#define ZC_MEMORY_RECLAIM_H

#include <stdbool.h>

/* State of a request that found no memory; zero at first. */
struct zc_reclaim {
    unsigned tries; /* Attempts for this request. */
    unsigned seen;  /* See memory/release.h. */
};

/*
 * For calls that failed because the driver has no memory.  Returns true if something was given
 * back, so that the call may be tried again; memory still in use is waited for last.  Call it
 * without a lock.  Does nothing during a capture.
 */
bool zc_reclaim(struct zc_reclaim *request);

#endif
