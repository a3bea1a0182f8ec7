/* SPDX-License-Identifier: MIT */
/* Mutual exclusion that lasts while the driver is called. */
#pragma once

#include <stdbool.h>

/*
 * One thread at a time changes what all launches look at: blocks whose memory is attached lazily,
 * copies that are pending, streams that may be destroyed, captures that begin.  It is held while
 * the driver is called, too.  False where the calling thread has it already, or a later lock
 * (base/lock.h): in a signal handler, which then passes through.
 */
bool zc_driver_lock(void);
void zc_driver_unlock(void);
