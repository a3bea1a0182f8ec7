/* SPDX-License-Identifier: MIT */
/* Counts the captures in progress. */
#include "driver/capture.h"

#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/context.h"
#include "driver/launch.h"
#include "driver/lock.h"

/* Captures beyond these never end for libzc if their stream is destroyed. */
#define ORIGINS_MAX 64

ZC_OWN int zc_captures;

struct origin {
    CUstream stream;   /* While it captures no other stream has this handle, except the default
                        * streams, which are never destroyed. */
    CUcontext context; /* Context of the stream. */
};

static ZC_LOCK(capture_lock, ZC_RANK_CAPTURE);
static ZC_OWN struct {
    unsigned count; /* Streams in which captures began. */
    struct origin origin[ORIGINS_MAX];
} captures;

/* A capturing stream is identified by its handle, because asking for its id would end the
 * capture. */
static struct origin origin_of(CUstream stream, enum zc_flavour flavour)
{
    return (struct origin){stream, zc_stream_context(stream, flavour)};
}

static bool is_origin(unsigned i, const struct origin *o)
{
    return captures.origin[i].context == o->context && captures.origin[i].stream == o->stream;
}

bool zc_capture_asks(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* If a blocking stream captures, the driver refuses the status of the legacy stream, and calls
     * on that stream as well. */
    return ZC_FLAVOURED(flavour, cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
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

void zc_capture_unknown(void)
{
    __atomic_fetch_add(&zc_captures, 1, __ATOMIC_ACQ_REL);
}

static CUresult capture_begun(CUresult result, const struct origin *o)
{
    if (result != CUDA_SUCCESS)
        return result;
    zc_capture_unknown();
    if (!zc_lock_take(&capture_lock))
        return result;
    if (captures.count < ORIGINS_MAX)
        captures.origin[captures.count++] = *o;
    zc_lock_drop(&capture_lock);
    return result;
}

/* A body of the calls that begin a capture.  None begins while another thread asks streams whether
 * they rest, which would end it. */
#define BEGIN(...)                                                                                 \
    {                                                                                              \
        CUresult result = zc_launch_before(entry->fn, entry->flavour, stream);                     \
        const struct origin o = origin_of(stream, entry->flavour);                                 \
        bool mine = result == CUDA_SUCCESS && zc_driver_lock();                                    \
        if (result == CUDA_SUCCESS)                                                                \
            result = capture_begun(real(__VA_ARGS__), &o);                                         \
        if (mine)                                                                                  \
            zc_driver_unlock();                                                                    \
        return result;                                                                             \
    }

/* Removes the entries of the stream, or with `all` of its context, at most `most`.  Returns their
 * number. */
static int captures_remove(const struct origin *o, bool all, int most)
{
    int found = 0;
    if (!zc_lock_take(&capture_lock))
        return 0;
    for (unsigned i = captures.count; i-- > 0 && found < most;)
        if (all ? captures.origin[i].context == o->context : is_origin(i, o)) {
            captures.origin[i] = captures.origin[--captures.count];
            found++;
        }
    zc_lock_drop(&capture_lock);
    return found;
}

void zc_capture_lost(CUstream stream, CUcontext context)
{
    const struct origin o = {stream, context};
    int found = captures_remove(&o, !stream, ORIGINS_MAX);
    __atomic_fetch_sub(&zc_captures, found, __ATOMIC_ACQ_REL);
}

ZC_BODY(cuStreamBeginCapture, (CUstream stream))
BEGIN(stream)

ZC_BODY(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))
BEGIN(stream, mode)

ZC_BODY(cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
         const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode))
BEGIN(stream, graph, dependencies, edges, count, mode)

ZC_BODY(cuStreamBeginRecaptureToGraph, (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                        CUgraphRecaptureCallback callback, void *data))
BEGIN(stream, mode, graph, callback, data)

/* A capture ends whatever the result is, unless this stream had none: an invalidated capture
 * returns CUDA_ERROR_STREAM_CAPTURE_INVALIDATED and is over. */
ZC_BODY(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
{
    bool held = zc_capture_holds(stream, entry->flavour);
    CUresult result = real(stream, graph);
    if (held && !zc_capture_holds(stream, entry->flavour)) {
        const struct origin o = origin_of(stream, entry->flavour);
        captures_remove(&o, false, 1);
        __atomic_fetch_sub(&zc_captures, 1, __ATOMIC_ACQ_REL);
    }
    return result;
}

static void capture_context_lost(CUcontext context)
{
    zc_capture_lost(NULL, context);
}

const struct zc_module zc_module_capture = {.context_lost = capture_context_lost};
