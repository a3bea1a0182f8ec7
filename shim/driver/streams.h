/* SPDX-License-Identifier: MIT */
/* The streams that have no implicit order with the legacy stream. */
#ifndef ZC_DRIVER_STREAMS_H
#define ZC_DRIVER_STREAMS_H

#include "driver/real.h"

/* True if no such stream has work.  Errs towards false.  Only with driver/lock.h, which
 * keeps streams from being destroyed meanwhile, and not while a capture is under way. */
bool zc_streams_idle(void);

#endif
