/* SPDX-License-Identifier: MIT */
/* pageable_copy = parallel: copies of pageable memory by several threads and the copy engine. */
#ifndef ZC_COPY_PARALLEL_H
#define ZC_COPY_PARALLEL_H

#include "driver/copy.h"

/*
 * Does a copy between device memory and pageable memory of ZC_PASSTHROUGH_MIN bytes or more through
 * pinned memory: threads fill or drain parts while others are on the link.  In order on the stream;
 * the call waits as the driver's own would.  True when it is done (c->result); false when the
 * driver must do it: other shapes, addresses that are not surely such memory, captures, and no
 * pinned memory to be had.
 */
bool zc_parallel_copy(struct zc_copy *c);

#endif
