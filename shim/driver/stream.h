/* SPDX-License-Identifier: MIT */
/* Pending work of streams. */
#pragma once

#include "driver/context.h"

/*
 * True if a call put into the stream now would run at once: nothing is pending in it, nor in the
 * legacy stream if it synchronises with that.  In doubt false, as while any capture is in progress,
 * which cuStreamQuery would invalidate.
 */
bool zc_stream_idle(CUstream stream, enum zc_flavour flavour);

/*
 * Waits until a call put into the stream now would run, as CUDA's synchronous copies do.  Returns
 * the driver's code, which is that of any sticky error.  Not for a capturing stream.
 */
CUresult zc_stream_drain(CUstream stream, enum zc_flavour flavour);

/*
 * The code that the driver returns for any call in the current context: that there is none, or the
 * error of a kernel that failed.  Does not wait.  During captures, which asking would end, nothing
 * is known of kernels.  Calls about mappings, handles and pointer attributes report neither
 * (measured on an H200).
 */
CUresult zc_stream_state(void);

/* The code for an address that the driver would not know: the one above, or INVALID_VALUE. */
CUresult zc_stream_refusal(void);

/* Waits for all work of a context.  Returns the driver's code. */
CUresult zc_stream_wait_context(CUcontext context);

/* The same without streams that are independent of the context's legacy stream. */
CUresult zc_stream_drain_context(CUcontext context);

/* A stream was made with these flags; and whether the legacy streams cover all that were. */
void zc_stream_made(unsigned flags);
bool zc_stream_covered(void);

/* False once the driver has not told of streams that the legacy ones do not cover: it does from
 * CUDA 12.5 on. */
bool zc_stream_rest_known(void);

/* True once a context has nothing to do; false if that takes longer than `most_ms`, and in doubt.
 * With driver/lock.h, outside of captures. */
bool zc_stream_rests_in(CUcontext context, unsigned most_ms);

/* The same of the current context, and of all others if there are streams that the legacy ones do
 * not cover, as long as a call of the program's may wait for that: a kernel may wait for what the
 * program does next, for as long as it runs, and nobody can know that.  So calls that have waited
 * in vain are followed by some that do not wait. */
bool zc_stream_come_to_rest(void);

/* The same of a context and all others that the program has: what ends a registration waits for
 * all devices, and one of them may wait for what the program does next. */
bool zc_stream_all_rest(CUcontext first, unsigned most_ms);

/* The same of all contexts but one, or with NULL of all.  False during captures, where nobody can
 * tell.  Takes driver/lock.h. */
bool zc_stream_others_rest(CUcontext but, unsigned most_ms);

/* True if a call may wait for all devices: no stream has work that may wait for the program, or all
 * come to rest in `most_ms`.  In doubt false.  Takes driver/lock.h. */
bool zc_stream_may_wait(unsigned most_ms);

/* The driver's number for a stream, which no other one has in the process.  0 where it tells none,
 * and during captures: the question ends the one that its stream is in (seen on an H200). */
uint64_t zc_stream_id(CUstream stream, enum zc_flavour flavour);
