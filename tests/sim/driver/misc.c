/* SPDX-License-Identifier: MIT */
/* Calls that programs make in passing: stream attributes, shared memory configuration, the
 * profiler's switches. */
#include "stream.h"
#include <cudaProfiler.h>
#include <string.h>

SIM_API_PTSZ(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value),
             (stream, id, value))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        value->syncPolicy = s->policy;
    else if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    return CUDA_SUCCESS;
}

SIM_API_PTSZ(cuStreamSetAttribute,
             (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
             (stream, id, value))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        s->policy = value->syncPolicy;
    return CUDA_SUCCESS;
}

SIM_API_PTSZ(cuStreamCopyAttributes, (CUstream dst, CUstream src), (dst, src))
{
    struct sim_stream *to, *from;
    CUresult r = sim_stream_find(dst, &to);
    if (r == CUDA_SUCCESS)
        r = sim_stream_find(src, &from);
    if (r == CUDA_SUCCESS)
        to->policy = from->policy;
    return r;
}

SIM_API(cuCtxGetSharedMemConfig, (CUsharedconfig * config), (config))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r == CUDA_SUCCESS)
        *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return r;
}

SIM_API(cuCtxSetSharedMemConfig, (CUsharedconfig config), (config))
{
    struct sim_context *ctx;
    (void)config;
    return sim_current(&ctx);
}

SIM_API(cuProfilerStart, (void), ())
{
    struct sim_context *ctx;
    return sim_current(&ctx);
}

SIM_API(cuProfilerStop, (void), ())
{
    struct sim_context *ctx;
    return sim_current(&ctx);
}
