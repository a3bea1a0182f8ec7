/* SPDX-License-Identifier: MIT */
/* Mutual exclusion that lasts while the driver is called, and what it keeps from changing. */
#pragma once

#include <stdbool.h>

#include "driver/real.h"

/*
 * One thread at a time changes what all launches look at: blocks whose memory is attached lazily,
 * copies that are pending, streams that may be destroyed, captures that begin.  It is held while
 * the driver is called, too.  False where the calling thread has it already, or a later lock
 * (base/lock.h): in a signal handler, which then passes through.
 */
bool zc_driver_lock(void);
void zc_driver_unlock(void);

/* A bool that at the end of its block gives the lock back, if it says that the lock was taken. */
#define ZC_DRIVER_HELD __attribute__((cleanup(zc_driver_leave), unused)) bool
static inline void zc_driver_leave(const bool *held)
{
    if (*held)
        zc_driver_unlock();
}

/* Some stream is given work that may wait for the CPU (driver/await.h).  With the lock. */
void zc_await_note(void);

/* True once some stream was given such work.  With the lock the answer stays valid. */
bool zc_await_any(void);

/*
 * A context that a thread of the program is destroying.  Meanwhile no other call may use it (CUDA
 * Driver API, cuCtxDestroy).  So calls of other threads, in contexts of their own, leave its blocks
 * and streams alone: from before the driver is told until they are forgotten, or the driver has
 * refused.
 */
struct zc_leaving {
    CUcontext context;
    struct zc_leaving *next;
    bool noted; /* False for a signal handler that interrupted the holder of the lock. */
};

/* `l` lies in the caller's frame. */
void zc_leaving_begin(struct zc_leaving *l, CUcontext context);
void zc_leaving_end(struct zc_leaving *l);

/* With the lock. */
bool zc_leaving(CUcontext context);

/* A context is there from now on, or no longer.  Takes the lock. */
void zc_context_note(CUcontext context, bool there);

/* The contexts that the program has made or retained, NULL behind the last; where they are too many
 * to know, *known is false.  With the lock. */
CUcontext zc_context_at(unsigned i, bool *known);
