/* SPDX-License-Identifier: MIT */
/* Memory that the program has freed and that libzc keeps, given back where the driver lacks it. */
#ifndef ZC_MEMORY_RECLAIM_H
#define ZC_MEMORY_RECLAIM_H

#include <stdbool.h>

/* A request that finds no memory, zero at first. */
struct zc_reclaim {
    unsigned tries; /* Of this request. */
    unsigned seen;  /* See memory/release.h. */
};

/*
 * For calls that the driver has no memory for.  True if something was given back, so that trying
 * again may help; then there may be more, which it has to wait for.  Keeps no lock; does nothing
 * while a capture is under way.
 */
bool zc_reclaim(struct zc_reclaim *request);

#endif
