/* SPDX-License-Identifier: MIT */
/* Moves the bytes of a copy when pages of a pair are among them. */
#ifndef ZC_SHARED_ROUTE_H
#define ZC_SHARED_ROUTE_H

#include "driver/copy.h"

/* Copies n bytes; the stream must be drained.  Adds to c->part. */
CUresult zc_shared_route(struct zc_copy *c, CUdeviceptr dst, CUdeviceptr src, size_t n);

#endif
