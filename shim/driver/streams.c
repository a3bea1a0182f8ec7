/* SPDX-License-Identifier: MIT */
/* Streams made with CU_STREAM_NON_BLOCKING, which the legacy stream does not cover. */
#include "base/life.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"

#define STREAMS_MAX 512 /* With more streams the answer is always "busy". */

/* Added to an event that stands for a stream which the program destroyed while it had work. */
#define ENDED ((uintptr_t)1)

static ZC_LOCK(streams_lock, ZC_RANK_STREAMS);
static ZC_OWN struct {
    unsigned count; /* Number of streams. */
    bool too_many;  /* There were more, so it is unknown which are left. */
    struct {
        CUstream stream; /* Or such an event. */
        CUcontext context;
    } at[STREAMS_MAX];
} streams;

static CUresult stream_made(CUresult result, const CUstream *stream, unsigned flags)
{
    CUcontext context = NULL;
    if (result != CUDA_SUCCESS || !(flags & CU_STREAM_NON_BLOCKING) || !zc_life_on())
        return result;
    zc_real.cuCtxGetCurrent(&context);
    if (!zc_lock_take(&streams_lock)) {
        streams.too_many = true;
        return result;
    }
    if (streams.count < STREAMS_MAX) {
        streams.at[streams.count].stream = *stream;
        streams.at[streams.count++].context = context;
    } else {
        streams.too_many = true;
    }
    zc_lock_drop(&streams_lock);
    return result;
}

/* Removes the stream, or with NULL all streams of a context; or puts an event in its place. */
static void forget_streams(CUstream stream, CUcontext context, CUstream instead)
{
    if (!zc_lock_take(&streams_lock))
        return;
    for (unsigned i = streams.count; i-- > 0;)
        if (stream ? streams.at[i].stream == stream : streams.at[i].context == context) {
            if (instead)
                streams.at[i].stream = instead;
            else
                streams.at[i] = streams.at[--streams.count];
        }
    zc_lock_drop(&streams_lock);
}

static bool is_busy(CUstream stream)
{
    if (!((uintptr_t)stream & ENDED))
        return zc_real.cuStreamQuery(stream) != CUDA_SUCCESS;
    CUevent event = (CUevent)((uintptr_t)stream - ENDED);
    if (zc_real.cuEventQuery(event) != CUDA_SUCCESS)
        return true;
    forget_streams(stream, NULL, NULL);
    zc_real.cuEventDestroy_v2(event);
    return false;
}

/* Returns the number of those of a context, or with NULL of all; -1 if a context that goes has one,
 * or without the lock. */
static int copy_streams(CUstream *copy, CUcontext context)
{
    int n = 0;
    if (!zc_lock_take(&streams_lock))
        return -1;
    for (unsigned i = 0; i < streams.count && n >= 0; i++)
        if (zc_leaving(streams.at[i].context))
            n = -1;
        else if (!context || streams.at[i].context == context)
            copy[n++] = streams.at[i].stream;
    zc_lock_drop(&streams_lock);
    return n;
}

bool zc_streams_known(void)
{
    return !streams.too_many;
}

bool zc_streams_idle(CUcontext context)
{
    CUstream copy[STREAMS_MAX];
    if (streams.too_many || !__atomic_load_n(&streams.count, __ATOMIC_RELAXED))
        return !streams.too_many;
    int n = copy_streams(copy, context), idle = 0;
    while (idle < n && !is_busy(copy[idle]))
        idle++;
    return idle == n;
}

static void forget_ended(void)
{
    CUstream copy[STREAMS_MAX];
    for (int i = copy_streams(copy, NULL); i-- > 0;)
        if ((uintptr_t)copy[i] & ENDED)
            is_busy(copy[i]);
}

static void streams_context_gone(CUcontext context)
{
    forget_streams(NULL, context, NULL);
}

ZC_BODY(cuStreamCreate, (CUstream * stream, unsigned int flags))
{
    return stream_made(real(stream, flags), stream, flags);
}

ZC_BODY(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority))
{
    return stream_made(real(stream, flags, priority), stream, flags);
}

ZC_BODY(cuGreenCtxStreamCreate,
        (CUstream * stream, CUgreenCtx context, unsigned int flags, int priority))
{
    return stream_made(real(stream, context, flags, priority), stream, flags);
}

static bool is_known(CUstream stream)
{
    bool known = false;
    if (!zc_lock_take(&streams_lock))
        return false;
    for (unsigned i = 0; i < streams.count && !known; i++)
        known = streams.at[i].stream == stream;
    zc_lock_drop(&streams_lock);
    return known;
}

/* The driver still does the work of a stream that is being destroyed.  No event covers the work
 * that a stream had before its capture. */
static CUstream left_behind(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUevent event = NULL;
    bool unknown = zc_life_closing() || zc_capture_holds(stream, flavour);
    if (!unknown && zc_real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
        event = zc_stream_mark(stream, flavour);
        unknown = !event;
    }
    streams.too_many |= unknown;
    if (!unknown && streams.count > STREAMS_MAX / 2)
        forget_ended();
    zc_capture_restore(before);
    return event ? (CUstream)((uintptr_t)event + ENDED) : NULL;
}

/* Removed before the driver destroys it, and never while it is being queried. */
ZC_BODY(cuStreamDestroy_v2, (CUstream stream))
{
    bool locked = false, captures = zc_capture_goes_with(stream, entry->flavour);
    if (stream && zc_life_on() && __atomic_load_n(&streams.count, __ATOMIC_RELAXED)) {
        locked = zc_driver_lock();
        if (is_known(stream))
            forget_streams(stream, NULL, left_behind(stream, entry->flavour));
    }
    if (locked)
        zc_driver_unlock();
    CUresult result = real(stream);
    if (captures && result == CUDA_SUCCESS)
        zc_capture_ended(stream);
    return result;
}

const struct zc_module zc_module_streams = {.context_gone = streams_context_gone};
