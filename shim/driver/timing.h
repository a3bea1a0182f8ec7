/* SPDX-License-Identifier: MIT */
/* How long kernels take: by two events around one launch after the other. */
#pragma once

#include "driver/launch.h"

#define ZC_TIMED_BYTES 160 /* Most bytes that are noted of a launch. */

/* Told of each launch that was timed: what was noted of it, and its time in microseconds. */
typedef void (*zc_timed_fn)(const void *noted, uint64_t microseconds);

/* Times a launch that is about to be made, and notes `bytes` bytes of it.  False while another one
 * is timed, or where the driver makes no events.  Called by a party of launches, outside of
 * captures. */
bool zc_timing_begin(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                     size_t bytes);

/* The last launch that was timed may have ended: then tells of it. */
void zc_timing_collect(void);

/*
 * Waits while a launch is timed that has not ended and `unknown` is true, but for at most `most_ms`
 * in all: a kernel may wait for the program.  If one did, nothing waits here any more.  Nor does
 * anything during captures, which questions about events may end.
 */
void zc_timing_wait(bool (*unknown)(const void *arg), const void *arg, unsigned most_ms);
