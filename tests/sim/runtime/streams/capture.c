/* SPDX-License-Identifier: MIT */
/* Stream capture, and launching what was captured. */
#include "../runtime.h"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    return RT_STREAM_CALL(cuStreamBeginCapture, stream, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    return RT_STREAM_CALL(cuStreamEndCapture, stream, graph);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    CUstreamCaptureStatus answer;
    cudaError_t error;

    if (status == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error = RT_STREAM_CALL(cuStreamIsCapturing, stream, &answer);
    if (error == cudaSuccess)
        *status = (enum cudaStreamCaptureStatus)answer;
    return error;
}

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout, two names");

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
    CUstreamCaptureStatus answer;
    cuuint64_t sequence = 0;
    cudaError_t error;

    if (status == NULL)
        return rt_fail(cudaErrorInvalidValue);
    error =
        RT_STREAM_CALL(cuStreamGetCaptureInfo, stream, &answer, &sequence, graph,
                       (const CUgraphNode **)dependencies, (const CUgraphEdgeData **)edges, count);
    if (error == cudaSuccess) {
        *status = (enum cudaStreamCaptureStatus)answer;
        if (id != NULL)
            *id = sequence;
    }
    return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    return RT_STREAM_CALL(cuGraphLaunch, graph, stream);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    return RT_STREAM_CALL(cuGraphUpload, graph, stream);
}
