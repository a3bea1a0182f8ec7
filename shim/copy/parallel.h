/* SPDX-License-Identifier: MIT */
/* pageable_copy = parallel: several threads and the copy engine copy pageable memory together. */
#pragma once

#include "driver/copy.h"

/* Smaller copies end before threads have started. */
#define ZC_PARALLEL_LEAST ((uint64_t)4 << 20)

/* ZC_FACT_LARGE: one line of so many bytes, where the policy has such copies. */
bool zc_parallel_line(const struct zc_copy *c);
static inline bool zc_parallel_large(const struct zc_copy *c)
{
    return c->bytes >= ZC_PARALLEL_LEAST && zc_parallel_line(c);
}

/* The same for the first copy of a large block of the host heap, which would register the block
 * before: threads make such a copy in the time that registering takes, so that is left to the next
 * one.  The block is registered where the call must not wait for its stream, or the process has few
 * processors.  And for a block of any size whose registration is stuck (host/pinned.h).  Asks the
 * driver. */
bool zc_parallel_first(const struct zc_copy *c);

/* ZC_FACT_THREADS and ZC_FACT_INWARD, of such a copy.  Asks the driver. */
uint32_t zc_parallel_facts(const struct zc_copy *c);

/* Carries a copy out that goes the way ZC_WAY_THREADS: through pinned buffers, which threads fill
 * or drain while others are on the link.  It is ordered in the stream, and the call waits as the
 * driver's own would.  False if the driver must do it: the CPU may not touch the memory, or there
 * is no pinned memory to be had. */
bool zc_parallel_copy(struct zc_copy *c);
