/* SPDX-License-Identifier: MIT */
/* Copies by the CPU, of blocks that are host memory where the program believes in the device's. */
#pragma once

#include "driver/copy.h"

/* Carries a copy out that goes the way ZC_WAY_CPU, or one of its kin; c->result. */
void zc_cpu_copy(struct zc_copy *c);

/* The facts behind READY_KNOWN that decide about it. */
uint32_t zc_cpu_facts(const struct zc_copy *c);

/* ZC_FACT_CPU.  May ask the driver. */
bool zc_cpu_able(const struct zc_copy *c);

/* ZC_FACT_UNWAITED, for a call that has a twin with a stream: both sides are device memory to the
 * program, and one is not really.  Asks the driver. */
bool zc_cpu_unwaited(const struct zc_copy *c);

/* Waits as the driver's copy would: for the stream and, if a call without one names contexts, for
 * the work of their devices (CUDA Runtime API, cudaMemcpyPeer).  Returns the driver's code.  Not
 * during captures. */
CUresult zc_copy_drain(const struct zc_copy *c);
