/* SPDX-License-Identifier: MIT */
/* Gives back memory that libzc kept when the program freed it, where the driver has none left. */
#pragma once

#include <stdbool.h>

/* State of a request that found no memory; zero at first. */
struct zc_reclaim {
    unsigned tries; /* Attempts for this request. */
    unsigned seen;  /* Releases of other threads that it has taken into account. */
};

/* For calls that failed because the driver has no memory.  True if something was given back, so
 * that the call may be tried again.  Call it without a lock.  Does nothing during a capture. */
bool zc_reclaim(struct zc_reclaim *request);

/* The result of a driver call, made again as long as zc_reclaim() gives something back for it. */
#define ZC_RECLAIMING(call)                                                                        \
    ({                                                                                             \
        struct zc_reclaim relief_ = {0};                                                           \
        CUresult result_ = call;                                                                   \
        while (result_ == CUDA_ERROR_OUT_OF_MEMORY && zc_reclaim(&relief_))                        \
            result_ = call;                                                                        \
        result_;                                                                                   \
    })

/* Mark the time in which memory that libzc keeps is in no list any more, but not yet given back to
 * the driver, which is called without a lock: a thread that lacks memory waits for the end.  They
 * nest, and never request memory. */
void zc_release_begin(void);
void zc_release_end(void);
