/* SPDX-License-Identifier: MIT */
/* Contexts: the current one, those of streams and devices; and events in streams. */
#pragma once

#include "driver/real.h"
#include "policy/policy.h"

/* Whether the stream is NULL or a handle; for rules. */
enum zc_stream_kind zc_stream_kind_of(CUstream stream, enum zc_flavour flavour);

/* True for a stream of the current context, in which events are made; false for an unknown
 * handle. */
bool zc_stream_here(CUstream stream, enum zc_flavour flavour);

/*
 * Makes a context current in a thread that has none but may free memory (a finaliser, a worker),
 * because most driver calls need one.  Returns true if it did; then the caller has to undo it.
 */
bool zc_context_push_if_none(CUcontext context);
void zc_context_pop(bool pushed);

/* Makes a context current for some calls; *pushed says whether that is for zc_context_pop() to
 * undo.  Returns the driver's code. */
CUresult zc_context_push(CUcontext context, bool *pushed);

/* *device is the ordinal of its device.  Returns the driver's code. */
CUresult zc_context_device(CUcontext context, CUdevice *device);

/* A device's primary context; NULL unless it is active. */
CUcontext zc_context_primary(int device);

/* Records an event on the stream, which the caller destroys; NULL if the driver refuses. */
CUevent zc_stream_mark(CUstream stream, enum zc_flavour flavour);

/* The same for a stream of the current context. */
CUevent zc_stream_mark_here(CUstream stream, enum zc_flavour flavour);

/* Waits for such an event, and destroys it. */
CUresult zc_stream_wait_mark(CUevent event);

/* The context of a stream, which its events belong to. */
CUcontext zc_stream_context(CUstream stream, enum zc_flavour flavour);

/* *device is the ordinal of the device that runs the stream's work.  Returns the driver's code. */
CUresult zc_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device);
