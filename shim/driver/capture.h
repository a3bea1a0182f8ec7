/* SPDX-License-Identifier: MIT */
/* Stream captures in progress, and what they forbid. */
#pragma once

#include "driver/real.h"

/* Captures that have begun and not ended.  Atomic. */
extern int zc_captures;

/* True while any stream of the process is capturing.  Then nothing is converted, and libzc makes no
 * call that a capture in global mode forbids (cuStreamQuery, cuEventQuery and others would
 * invalidate it), unless zc_capture_relax() allows them to the thread. */
static inline bool zc_capture_any(void)
{
    return __builtin_expect(__atomic_load_n(&zc_captures, __ATOMIC_ACQUIRE) > 0, 0);
}

/* True if calls on this stream are captured instead of run.  Asks the driver while any is. */
bool zc_capture_asks(CUstream stream, enum zc_flavour flavour);
static inline bool zc_capture_holds(CUstream stream, enum zc_flavour flavour)
{
    return zc_capture_any() && zc_capture_asks(stream, flavour);
}

/*
 * None begins meanwhile: for calls that would end one, and wait for nothing.  The holder of
 * driver/lock.h, which bars them too, may wait for a kernel, and that for what the program does
 * next.  Where the calling thread has a later lock (base/lock.h) it says false.
 */
bool zc_capture_bar(void);
void zc_capture_unbar(const bool *barred);

/* A bool that at the end of its block lets captures begin, if it says that they are barred. */
#define ZC_CAPTURE_BARRED __attribute__((cleanup(zc_capture_unbar), unused)) bool

/*
 * Allows the calling thread to wait and to query while another stream captures, or begins to, which
 * a capture in global mode forbids otherwise (CUDA Driver API, cuThreadExchangeStreamCaptureMode).
 * Returns the argument for zc_capture_restore().
 */
CUstreamCaptureMode zc_capture_relax(void);
void zc_capture_restore(CUstreamCaptureMode before);

/* A capture has begun in a stream, or, by a call that libzc does not know, may have in one that is
 * NULL; and it has ended. */
void zc_capture_begun(CUstream stream);
void zc_capture_ended(CUstream stream);
