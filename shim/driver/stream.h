/* SPDX-License-Identifier: MIT */
/* What a stream still has to do. */
#ifndef ZC_DRIVER_STREAM_H
#define ZC_DRIVER_STREAM_H

#include "driver/real.h"
#include "policy/policy.h"

/*
 * True when a call put into the stream now would run at once: nothing before it is pending, in the
 * stream itself or, for streams that synchronise with the legacy stream, there.  Errs towards
 * false. Must not be called while a capture is under way anywhere: cuStreamQuery would invalidate
 * it.
 */
bool zc_stream_idle(CUstream stream, enum zc_flavour flavour);

/* Whether NULL or a handle was given, for rules. */
enum zc_stream_kind zc_stream_kind_of(CUstream stream, enum zc_flavour flavour);

/* True for a stream of the current context, in which events are made; not for a handle of
 * nobody's. */
bool zc_stream_here(CUstream stream, enum zc_flavour flavour);

/*
 * Waits until a call put into the stream now would run: what CUDA's synchronous copies do.  Returns
 * the driver's code, which is that of any sticky error.  Not for a stream that is being captured.
 */
CUresult zc_stream_drain(CUstream stream, enum zc_flavour flavour);

/* Waits for all work of a context, and returns the code of that. */
CUresult zc_stream_wait_context(CUcontext context);

/* The same without what is independent of the context's legacy stream. */
CUresult zc_stream_drain_context(CUcontext context);

/*
 * Makes a context current in a thread that has none, where programs may free (a finaliser, a
 * worker): most of what that takes needs one.  True if it did; then the caller undoes it.
 */
bool zc_stream_lend(CUcontext context);
void zc_stream_lent(bool lent);

/* A device's primary context, NULL unless it is active. */
CUcontext zc_stream_primary(int device);

/* An event behind all work that a context has; NULL if no event can stand for that, or the driver
 * refuses.  Not during captures. */
CUevent zc_stream_mark_context(CUcontext context);

/* An event recorded on the stream now, to be destroyed by the caller; NULL if the driver
 * refuses. */
CUevent zc_stream_mark(CUstream stream, enum zc_flavour flavour);

/* The context of a stream, which its events belong to. */
CUcontext zc_stream_context(CUstream stream, enum zc_flavour flavour);

/* A stream, told from those that have its handle in another thread or context, or had it before. */
struct zc_stream_ident {
    CUstream handle;
    CUcontext context;
    unsigned long long id; /* cuStreamGetId's; 0 if the driver does not say. */
    unsigned thread;       /* Number of its thread, 0 where all threads mean the same. */
    enum zc_flavour flavour;
};
/* cuStreamGetId ends the capture that its stream is in, as seen on an H200.  So during captures no
 * stream is the same as another. */
void zc_stream_identify(CUstream stream, enum zc_flavour flavour, struct zc_stream_ident *out);
bool zc_stream_same(const struct zc_stream_ident *a, const struct zc_stream_ident *b);

/* *device is the ordinal of the device that runs what is put into the stream.  Returns the driver's
 * code. */
CUresult zc_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device);

/* Runs `fn` in stream order (cuLaunchHostFunc); fn must not call CUDA. */
CUresult zc_stream_call(CUstream stream, enum zc_flavour flavour, CUhostFn fn, void *data);

#endif
