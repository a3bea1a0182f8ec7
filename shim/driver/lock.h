/* SPDX-License-Identifier: MIT */
/* Mutual exclusion that lasts while the driver is called. */
#ifndef ZC_DRIVER_LOCK_H
#define ZC_DRIVER_LOCK_H

#include <stdbool.h>

/*
 * One thread at a time changes what all launches look at: blocks whose memory is attached lazily,
 * copies that are pending, streams that may be destroyed.  Unlike a lock (base/lock.h) it is held
 * also while the driver is called.  False where the calling thread has it already: in a signal
 * handler that interrupted it, which then passes through.
 */
bool zc_driver_lock(void);
void zc_driver_unlock(void);

#endif
