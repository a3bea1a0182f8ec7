/* SPDX-License-Identifier: MIT */
/* Waiting for streams, asking them, and ordering work of the host and of events in them. */
#include "../runtime.h"

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return RT_STREAM_CALL(cuStreamSynchronize, stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return RT_STREAM_CALL(cuStreamQuery, stream);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
    return RT_STREAM_CALL(cuStreamGetFlags, stream, flags);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    return RT_STREAM_CALL(cuStreamGetPriority, stream, priority);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    return RT_STREAM_CALL(cuStreamGetId, stream, id);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    return RT_STREAM_CALL(cuStreamWaitEvent, stream, event, flags);
}

/* The callback's status argument has one value range under two enum names. */
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned int flags)
{
    return RT_STREAM_CALL(cuStreamAddCallback, stream, (CUstreamCallback)(uintptr_t)callback, data,
                          flags);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    return RT_STREAM_CALL(cuLaunchHostFunc, stream, function, data);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return RT_STREAM_CALL(cuEventRecord, event, stream);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return RT_STREAM_CALL(cuEventRecordWithFlags, event, stream, flags);
}
