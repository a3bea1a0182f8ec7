/* SPDX-License-Identifier: MIT */
/* Counts the captures in progress. */
#include "driver/capture.h"

#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/launch.h"
#include "driver/lock.h"
#include "driver/stream.h"

/* Captures beyond these never end for libzc if their stream is destroyed. */
#define ORIGINS_MAX 64

static ZC_OWN int captures; /* Captures that have begun and not ended. */

static ZC_LOCK(lock, ZC_RANK_CAPTURE);
static struct origin {
    CUstream stream;    /* While it captures no other stream has this handle, except the
                         * default streams, which are never destroyed. */
    CUcontext context;  /* Context of the stream. */
} origins[ORIGINS_MAX]; /* Streams in which captures began, */
static ZC_OWN unsigned origin_count; /* and their number. */

bool zc_capture_any(void)
{
    return __builtin_expect(__atomic_load_n(&captures, __ATOMIC_ACQUIRE) > 0, 0);
}

bool zc_capture_holds(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* If a blocking stream captures, the driver refuses the status of the legacy stream, and calls
     * on that stream as well. */
    return zc_capture_any() &&
           ZC_FLAVOURED(flavour, cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUstreamCaptureMode zc_capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (zc_capture_any())
        zc_real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void zc_capture_restore(CUstreamCaptureMode before)
{
    if (before != CU_STREAM_CAPTURE_MODE_RELAXED)
        zc_real.cuThreadExchangeStreamCaptureMode(&before);
}

/* A capturing stream is identified by its handle, because asking for its id would end the
 * capture. */
static struct origin origin_of(CUstream stream, enum zc_flavour flavour)
{
    return (struct origin){stream, zc_stream_context(stream, flavour)};
}

static CUresult begun(CUresult result, const struct origin *o)
{
    if (result != CUDA_SUCCESS)
        return result;
    __atomic_fetch_add(&captures, 1, __ATOMIC_ACQ_REL);
    if (!zc_lock_take(&lock))
        return result;
    if (origin_count < ORIGINS_MAX)
        origins[origin_count++] = *o;
    zc_lock_drop(&lock);
    return result;
}

void zc_capture_unknown(void)
{
    __atomic_fetch_add(&captures, 1, __ATOMIC_ACQ_REL);
}

/* A body of the calls that begin a capture.  None begins while another thread asks streams whether
 * they rest, which would end it. */
#define BEGIN(...)                                                                                 \
    {                                                                                              \
        CUresult result = zc_launch_before(entry->fn, entry->flavour, stream);                     \
        const struct origin o = origin_of(stream, entry->flavour);                                 \
        bool mine = result == CUDA_SUCCESS && zc_driver_lock();                                    \
        if (result == CUDA_SUCCESS)                                                                \
            result = begun(real(__VA_ARGS__), &o);                                                 \
        if (mine)                                                                                  \
            zc_driver_unlock();                                                                    \
        return result;                                                                             \
    }

/* Removes the entries of the stream, or with `all` of its context, at most `most`.  Returns their
 * number. */
static int take_out(const struct origin *o, bool all, int most)
{
    int found = 0;
    if (!zc_lock_take(&lock))
        return 0;
    for (unsigned i = origin_count; i-- > 0 && found < most;)
        if (origins[i].context == o->context && (all || origins[i].stream == o->stream)) {
            origins[i] = origins[--origin_count];
            found++;
        }
    zc_lock_drop(&lock);
    return found;
}

void zc_capture_lost(CUstream stream, CUcontext context)
{
    const struct origin o = {stream, context};
    int found = take_out(&o, !stream, ORIGINS_MAX);
    __atomic_fetch_sub(&captures, found, __ATOMIC_ACQ_REL);
}

ZC_BODY(cuStreamBeginCapture, (CUstream stream))
BEGIN(stream)

ZC_BODY(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))
BEGIN(stream, mode)

ZC_BODY(cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
         const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode))
BEGIN(stream, graph, dependencies, edges, count, mode)

/* A capture ends whatever the result is, unless this stream had none: an invalidated capture
 * returns CUDA_ERROR_STREAM_CAPTURE_INVALIDATED and is over. */
ZC_BODY(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
{
    bool held = zc_capture_holds(stream, entry->flavour);
    CUresult result = real(stream, graph);
    if (held && !zc_capture_holds(stream, entry->flavour)) {
        const struct origin o = origin_of(stream, entry->flavour);
        take_out(&o, false, 1);
        __atomic_fetch_sub(&captures, 1, __ATOMIC_ACQ_REL);
    }
    return result;
}

static void context_lost(CUcontext context)
{
    zc_capture_lost(NULL, context);
}

const struct zc_module zc_module_capture = {.context_lost = context_lost};
