/* SPDX-License-Identifier: MIT */
/* Transfers by the CPU, with a converted block on at least one side. */
#ifndef ZC_COPY_CPU_H
#define ZC_COPY_CPU_H

#include "driver/copy.h"

/*
 * Makes a transfer itself if the driver would do it more slowly, or with another meaning than the
 * program expects.  True if it is done or refused (c->result, c->outcome); false if the driver
 * should do it exactly as asked.
 */
bool zc_place_copy(struct zc_copy *c);

/* True for a call without a stream that must not wait for one: both sides are device memory to the
 * program, and some stream may wait for the program itself. */
bool zc_place_unwaited(const struct zc_copy *c);

/* True for a side that the CPU may copy: a mapped block, pinned or pageable memory. */
bool zc_copy_cpu_side(const struct zc_operand *b);

/* Waits as the driver's copy would: for the stream and, if a call without one names contexts, for
 * the work of their devices (CUDA Runtime API, cudaMemcpyPeer).  Returns the driver's code.  Not
 * during captures. */
CUresult zc_copy_drain(const struct zc_copy *c);

#endif
