/* SPDX-License-Identifier: MIT */
/* pageable_copy = parallel: several threads and the copy engine copy pageable memory together. */
#ifndef ZC_COPY_PARALLEL_H
#define ZC_COPY_PARALLEL_H

#include "driver/copy.h"

/*
 * Makes a copy of ZC_PASSTHROUGH_MIN bytes or more between device memory and pageable memory
 * through pinned buffers: threads fill or drain parts while others are on the link.  It is ordered
 * in the stream, and the call waits as the driver's own would.  True if it is done (c->result);
 * false if the driver must do it: other shapes, other or unknown memory, captures, or no pinned
 * memory.
 */
bool zc_parallel_copy(struct zc_copy *c);

#endif
