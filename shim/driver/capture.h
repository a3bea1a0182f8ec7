/* SPDX-License-Identifier: MIT */
/* Stream capture: what may not happen while one is under way. */
#ifndef ZC_DRIVER_CAPTURE_H
#define ZC_DRIVER_CAPTURE_H

#include "driver/real.h"

/* True while any stream of the process is being captured.  Then nothing is converted, and libzc
 * makes no call that a capture in global mode forbids (cuStreamQuery, cuEventQuery and kin would
 * invalidate it) but in a thread that zc_capture_relax() allows them. */
bool zc_capture_any(void);

/* True when calls on this stream are being captured instead of run. */
bool zc_capture_holds(CUstream stream, enum zc_flavour flavour);

/*
 * Lets the calling thread wait and ask while another stream is being captured, which a capture in
 * global mode forbids otherwise (CUDA Driver API, cuThreadExchangeStreamCaptureMode).  Returns what
 * zc_capture_restore() then takes.
 */
CUstreamCaptureMode zc_capture_relax(void);
void zc_capture_restore(CUstreamCaptureMode before);

/* A created stream of a context, or with NULL all streams of it, were destroyed, and with them the
 * captures that they began. */
void zc_capture_lost(CUstream stream, CUcontext context);

#endif
