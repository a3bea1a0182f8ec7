/* SPDX-License-Identifier: MIT */
/* Transfers with blocks of the host heap: the program believes that they are pageable. */
#ifndef ZC_COPY_STAGED_H
#define ZC_COPY_STAGED_H

#include "driver/copy.h"

/*
 * Keeps the meaning that an asynchronous copy has for pageable memory (CUDA Runtime API, "API
 * synchronization behavior"): what goes to such memory has arrived when the call returns, what
 * comes from it may be overwritten then.  True when the copy is on its way (c->result); false when
 * the driver does it as asked, after which the caller waits for the stream if c->wait was set.
 */
bool zc_staged_copy(struct zc_copy *c);

/* Waits for what the calling thread just put into the stream, and for nothing that comes after
 * it. */
CUresult zc_staged_wait(const struct zc_copy *c);

#endif
