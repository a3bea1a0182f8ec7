/* SPDX-License-Identifier: MIT */
/* Counts the captures in progress. */
#include "driver/capture.h"

#include "base/lock.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/launch.h"
#include "driver/lock.h"

static ZC_LOCK(begin_lock, ZC_RANK_BEGIN);
ZC_OWN int zc_captures;
/* The stream of the last capture that began while no other went on.  Atomic. */
static ZC_OWN CUstream began_alone;

bool zc_capture_asks(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* If a blocking stream captures, the driver refuses the status of the legacy stream, and calls
     * on that stream as well. */
    return ZC_FLAVOURED(flavour, cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool zc_capture_bar(void)
{
    return zc_lock_take(&begin_lock);
}

void zc_capture_unbar(const bool *barred)
{
    if (*barred)
        zc_lock_drop(&begin_lock);
}

CUstreamCaptureMode zc_capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    zc_real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void zc_capture_restore(CUstreamCaptureMode before)
{
    if (before != CU_STREAM_CAPTURE_MODE_RELAXED)
        zc_real.cuThreadExchangeStreamCaptureMode(&before);
}

void zc_capture_begun(CUstream stream)
{
    if (__atomic_fetch_add(&zc_captures, 1, __ATOMIC_ACQ_REL) == 0)
        __atomic_store_n(&began_alone, stream, __ATOMIC_RELEASE);
}

void zc_capture_ended(CUstream stream)
{
    __atomic_compare_exchange_n(&began_alone, &stream, NULL, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
    __atomic_fetch_sub(&zc_captures, 1, __ATOMIC_ACQ_REL);
}

/* True if a capture is known to end with the stream, should that be destroyed: it began there, and
 * no other goes on.  Of several nobody knows which ones the streams in them belong to. */
static bool goes_with(CUstream stream, enum zc_flavour flavour)
{
    return __atomic_load_n(&zc_captures, __ATOMIC_ACQUIRE) == 1 &&
           __atomic_load_n(&began_alone, __ATOMIC_ACQUIRE) == stream &&
           zc_capture_asks(stream, flavour);
}

/* A body of the calls that begin a capture.  None begins while another thread asks streams whether
 * they rest, which would end it. */
#define BEGIN(...)                                                                                 \
    {                                                                                              \
        CUresult result = zc_launch_before(entry->fn, entry->flavour, stream);                     \
        ZC_DRIVER_HELD mine = result == CUDA_SUCCESS && zc_driver_lock();                          \
        ZC_CAPTURE_BARRED others = result == CUDA_SUCCESS && zc_capture_bar();                     \
        if (result == CUDA_SUCCESS)                                                                \
            result = real(__VA_ARGS__);                                                            \
        if (result == CUDA_SUCCESS)                                                                \
            zc_capture_begun(stream);                                                              \
        return result;                                                                             \
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

ZC_BODY(cuStreamDestroy_v2, (CUstream stream))
{
    bool captures = goes_with(stream, entry->flavour);
    CUresult result = real(stream);
    if (captures && result == CUDA_SUCCESS)
        zc_capture_ended(stream);
    return result;
}

/* A body of the calls that end one, which it does whatever the result is, unless this stream had
 * none: an invalidated capture returns CUDA_ERROR_STREAM_CAPTURE_INVALIDATED and is over. */
#define END(...)                                                                                   \
    {                                                                                              \
        bool held = zc_capture_holds(stream, entry->flavour);                                      \
        CUresult result = real(__VA_ARGS__);                                                       \
        if (held && !zc_capture_holds(stream, entry->flavour))                                     \
            zc_capture_ended(stream);                                                              \
        return result;                                                                             \
    }

ZC_BODY(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
END(stream, graph)

ZC_BODY(cuStreamEndCaptureToCig, (CUstream stream))
END(stream)
