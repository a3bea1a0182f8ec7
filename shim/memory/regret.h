/* SPDX-License-Identifier: MIT */
/*
 * The one rule by which blocks in host memory that kernels read over the link come to the device:
 * kernels are timed, one launch after the other on each device, and what they lose is owed to the
 * block.  Once that is more than its move takes, the block moves.  So no choice costs more than
 * about twice the best one in hindsight.  shared/heat.h and place/migrate.h say what a kernel
 * loses, and move.
 */
#pragma once

#include "driver/launch.h"

/* The bytes of a block have come to the device since `start`, in ticks. */
void zc_regret_moved(uint64_t bytes, uint64_t start);

/* Microseconds that a block of so many bytes takes for that. */
uint64_t zc_regret_cost(uint64_t bytes);

/* Adds the microseconds that a kernel has lost by a block of so many bytes to what it is owed. True
 * if that is more than its move takes; then it begins anew at 0.  `owed` is atomic. */
bool zc_regret_owes(uint64_t *owed, uint64_t lost, uint64_t bytes);

#define ZC_REGRET_NOTED 160 /* Most bytes that are noted of a launch. */

/* Told of each launch that was timed: what was noted of it, and its time in microseconds. */
typedef void (*zc_timed_fn)(const void *noted, uint64_t microseconds);

/* Times a launch that is about to be made, and notes `bytes` bytes of it.  False while another one
 * of the current context's device is timed, or where the driver makes no events.  Called by a party
 * of launches, outside of captures. */
bool zc_regret_time(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                    size_t bytes);

/* The last launch that was timed may have ended: then tells of it. */
void zc_regret_collect(void);

/*
 * Waits while a launch is timed that has not ended and `unknown` is true, but for at most `most_ms`
 * in all: a kernel may wait for the program.  If one did, nothing waits here any more.  Nor does
 * anything during captures, which questions about events may end.
 */
void zc_regret_wait(bool (*unknown)(const void *arg), const void *arg, unsigned most_ms);
