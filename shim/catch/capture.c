/* Counts the captures that are under way. */
#include "catch/capture.h"

#include "catch/call.h"
#include "catch/launch.h"
#include "catch/life.h"

static int captures; /* Streams whose capture began and has not ended. */

bool zc_capture_any(void)
{
    return __builtin_expect(__atomic_load_n(&captures, __ATOMIC_ACQUIRE) > 0, 0);
}

bool zc_capture_holds(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    /* The status of the legacy stream is refused while a blocking stream captures; a call on it is
     * then refused as well. */
    return zc_capture_any() &&
           ZC_FLAVOURED(flavour, cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void zc_capture_reset(void)
{
    captures = 0;
}

static CUresult begun(CUresult result)
{
    if (result == CUDA_SUCCESS)
        __atomic_fetch_add(&captures, 1, __ATOMIC_ACQ_REL);
    return result;
}

ZC_BODY(cuStreamBeginCapture, (CUstream stream))
{
    CUresult refused = zc_launch_before(entry->fn, entry->flavour, stream, false);
    return refused == CUDA_SUCCESS ? begun(real(stream)) : refused;
}

ZC_BODY(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))
{
    CUresult refused = zc_launch_before(entry->fn, entry->flavour, stream, false);
    return refused == CUDA_SUCCESS ? begun(real(stream, mode)) : refused;
}

#if CUDA_VERSION >= 12030
ZC_BODY(cuStreamBeginCaptureToGraph,
        (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
         const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode))
{
    CUresult refused = zc_launch_before(entry->fn, entry->flavour, stream, false);
    return refused == CUDA_SUCCESS
               ? begun(real(stream, graph, dependencies, edges, count, mode))
               : refused;
}
#endif

/* A capture ends whatever the result says, unless this stream had none: an invalidated capture
 * gives CUDA_ERROR_STREAM_CAPTURE_INVALIDATED and is over. */
ZC_BODY(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
{
    bool held = zc_capture_holds(stream, entry->flavour);
    CUresult result = real(stream, graph);
    if (held && !zc_capture_holds(stream, entry->flavour))
        __atomic_fetch_sub(&captures, 1, __ATOMIC_ACQ_REL);
    return result;
}
