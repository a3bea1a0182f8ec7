/* SPDX-License-Identifier: MIT */
/* Streams that are not implicitly ordered with the legacy stream. */
#pragma once

#include "driver/real.h"

/* True if no such stream of a context, or with NULL of any, has pending work, nor one that was
 * destroyed.  In doubt false.  Only with the driver lock, which keeps streams from being destroyed,
 * and not during captures. */
bool zc_streams_idle(CUcontext context);

/* False from when there were more than that answer covers: then it stays false. */
bool zc_streams_known(void);
