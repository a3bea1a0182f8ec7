/* SPDX-License-Identifier: MIT */
/* Transfers with a converted block on at least one side. */
#ifndef ZC_COPY_CPU_H
#define ZC_COPY_CPU_H

#include "driver/copy.h"

/*
 * Does a transfer that the driver would do more slowly, or with another meaning than the program
 * knows, for a block placed elsewhere.  True when it is done or refused (c->result, c->outcome);
 * false when the driver does it exactly as asked.
 */
bool zc_place_copy(struct zc_copy *c);

/* True for a call without a stream that must not wait for one: both sides are device memory to the
 * program, and some stream may wait for the program itself. */
bool zc_place_unwaited(const struct zc_copy *c);

/* True for a side that the CPU may copy from and to: a mapped block, pinned or pageable memory. */
bool zc_copy_cpu_side(const struct zc_operand *b);

/* Waits for what the driver's copy would wait for: the stream, and where a call without one names
 * contexts also what their devices have to do (CUDA Runtime API, cudaMemcpyPeer).  Returns the
 * driver's code.  Not during captures. */
CUresult zc_copy_drain(const struct zc_copy *c);

#endif
