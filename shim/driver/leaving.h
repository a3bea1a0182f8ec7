/* SPDX-License-Identifier: MIT */
/* Contexts that a thread of the program is destroying. */
#pragma once

#include <stdbool.h>

#include "driver/real.h"

/*
 * While the program destroys a context no other call may use it (CUDA Driver API, cuCtxDestroy).
 * So calls of other threads, in contexts of their own, leave its blocks and streams alone: from
 * before the driver is told until they are forgotten, or the driver has refused.
 */
struct zc_leaving {
    CUcontext context;
    struct zc_leaving *next;
    bool noted; /* False for a signal handler that interrupted the holder of the driver lock. */
};

/* `l` lies in the caller's frame. */
void zc_leaving_begin(struct zc_leaving *l, CUcontext context);
void zc_leaving_end(struct zc_leaving *l);

/* With driver/lock.h. */
bool zc_leaving(CUcontext context);
