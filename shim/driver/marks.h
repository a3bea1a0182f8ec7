/* SPDX-License-Identifier: MIT */
/*
 * Marks behind launches, by which a thread sees which of them have ended.  A stream of libzc's own
 * waits for each marked launch, in whatever stream that is, and then writes a number into host
 * memory.  So to look costs no call of the driver, and waiting holds up nothing.  Each device has
 * marks of its own.
 */
#pragma once

#include "driver/launch.h"

/* Called by a party for a launch of a context of the device, outside of captures, with
 * driver/lock.h: marks it once the driver has it.  Returns the mark, for zc_mark_passed(); 0: there
 * are none, or another context is current. */
uint64_t zc_mark_launch(int device, CUcontext context);

/* True once a launch with this mark has ended, and those that were marked before it; false if that
 * takes longer than `most_ms`, or where the driver has refused a mark.  Launches that are on their
 * way to the driver are not seen: see zc_launch_drain_briefly(). */
bool zc_mark_passed(int device, uint64_t mark, unsigned most_ms);

/* The last mark of which zc_mark_passed() would be true; also after a kernel has failed. */
uint64_t zc_mark_ended(int device);
