/* SPDX-License-Identifier: MIT */
/* Transfers with blocks of the host heap, which the program takes for pageable memory. */
#pragma once

#include "driver/copy.h"

/* The facts behind READY_KNOWN by which asynchronous copies keep their meaning for pageable memory
 * (CUDA Runtime API, "API synchronization behavior"): when the call returns, a copy to it is
 * complete, and the source of a copy from it may be overwritten. */
uint32_t zc_staged_facts(const struct zc_copy *c);

/* Carries a copy out that goes the way ZC_WAY_RING; c->result. */
void zc_staged_send(struct zc_copy *c);

/* Waits for what the calling thread just put into the stream, and for nothing after it. */
CUresult zc_staged_wait(const struct zc_copy *c);
