/* SPDX-License-Identifier: MIT */
/* Streams and events: making and ending them, and what needs no default stream. */
#include "runtime.h"

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return RT_CALL(cuStreamCreate, stream, CU_STREAM_DEFAULT);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return RT_CALL(cuStreamCreate, stream, flags);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    return RT_CALL(cuStreamCreateWithPriority, stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return RT_CALL(cuStreamDestroy, stream);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    CUstreamCaptureMode exchanged;
    cudaError_t error;

    if (mode == NULL)
        return rt_fail(cudaErrorInvalidValue);
    exchanged = (CUstreamCaptureMode)*mode;
    error = RT_CALL(cuThreadExchangeStreamCaptureMode, &exchanged);
    *mode = (enum cudaStreamCaptureMode)exchanged;
    return error;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return RT_CALL(cuEventCreate, event, CU_EVENT_DEFAULT);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return RT_CALL(cuEventCreate, event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return RT_CALL(cuEventDestroy, event);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return RT_CALL(cuEventQuery, event);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return RT_CALL(cuEventSynchronize, event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return RT_CALL(cuEventElapsedTime, ms, start, end);
}
