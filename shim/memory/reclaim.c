/* SPDX-License-Identifier: MIT */
/* Gives memory back that libzc keeps after the program freed it. */
#include "memory/reclaim.h"

#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "policy/policy.h"

/* Other threads that allocate and free could go on giving back too little for ever. */
#define TRIES_MAX 64

static ZC_OWN struct {
    unsigned under_way; /* In flight, in all threads.  Atomic. */
    unsigned ended;     /* Atomic. */
} releases;
static __thread unsigned own_releases; /* Those that this thread has ended. */

void zc_release_begin(void)
{
    __atomic_fetch_add(&releases.under_way, 1, __ATOMIC_ACQ_REL);
}

void zc_release_end(void)
{
    own_releases++;
    __atomic_fetch_add(&releases.ended, 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_sub(&releases.under_way, 1, __ATOMIC_ACQ_REL);
}

/* The thread that is waited for may need the lock. */
static bool has_driver_lock(void)
{
    ZC_DRIVER_HELD taken = zc_driver_lock();
    return !taken;
}

/* Waits until no release is in flight, and tells whether other threads have ended one since *seen.
 * Does not wait if a stream may wait for the program, which the other thread may wait for, nor with
 * the driver lock, which that thread may need.  A release that ended before the request failed
 * counts, too: then the request is made once more than necessary. */
static bool wait_for_releases(unsigned *seen)
{
    bool waits = __atomic_load_n(&releases.under_way, __ATOMIC_ACQUIRE) && !has_driver_lock();
    while (waits && __atomic_load_n(&releases.under_way, __ATOMIC_ACQUIRE) && !zc_await_any())
        zc_nap(50);
    unsigned others = __atomic_load_n(&releases.ended, __ATOMIC_ACQUIRE) - own_releases;
    bool more = others != *seen;
    *seen = others;
    return more;
}

bool zc_reclaim(struct zc_reclaim *request)
{
    if (request->tries++ == TRIES_MAX || zc_capture_any() || zc_life_closing())
        return false;
    return zc_modules_reclaim(ZC_PLACE_COUNT) || wait_for_releases(&request->seen);
}
