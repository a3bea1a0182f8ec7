/* SPDX-License-Identifier: MIT */
/* Transfers with blocks of the host heap, which the program takes for pageable memory. */
#ifndef ZC_COPY_STAGED_H
#define ZC_COPY_STAGED_H

#include "driver/copy.h"

/*
 * Keeps the meaning of asynchronous copies for pageable memory (CUDA Runtime API, "API
 * synchronization behavior"): when the call returns, a copy to it is complete, and the source of a
 * copy from it may be overwritten.  True if the copy was made (c->result).  False if the driver
 * makes it as asked; then the caller waits for the stream if c->wait is set.
 */
bool zc_staged_copy(struct zc_copy *c);

/* Waits for what the calling thread just put into the stream, and for nothing after it. */
CUresult zc_staged_wait(const struct zc_copy *c);

#endif
