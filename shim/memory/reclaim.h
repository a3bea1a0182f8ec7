/* SPDX-License-Identifier: MIT */
/* Gives memory back that libzc keeps after the program freed it, when the driver is out of
 * memory. */
#pragma once

#include <stdbool.h>

/* State of a request that found no memory; zero at first. */
struct zc_reclaim {
    unsigned tries; /* Attempts for this request. */
    unsigned seen;  /* Releases of other threads that it has taken into account. */
};

/*
 * For calls that failed because the driver has no memory.  Returns true if something was given
 * back, so that the call may be tried again.  Call it
 * without a lock.  Does nothing during a capture.
 */
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

/*
 * Memory that libzc keeps is first taken out of its list and then given back to the driver, because
 * the driver is called without a lock.  In between, another thread that lacks memory would find it
 * in neither.  These two calls mark that time, so that the thread can wait.  They nest, and never
 * request memory.
 */
void zc_release_begin(void);
void zc_release_end(void);

/* As zc_await_note(): threads that wait here look again, because streams may wait for them. */
void zc_release_await(void);
