/* SPDX-License-Identifier: MIT */
/* Contexts: the current one, those of streams and devices; and events in streams. */
#include "driver/context.h"

/* *other is the context of a created stream if that is not the current one, else NULL.  Programs
 * may copy through a stream of another device (CUDA Runtime API, "Multi-Device System"). */
static CUresult find_other(CUstream stream, enum zc_flavour flavour, CUcontext *other)
{
    CUcontext mine = NULL, its = NULL;
    *other = NULL;
    if (zc_stream_kind_of(stream, flavour) != ZC_STREAM_CREATED)
        return CUDA_SUCCESS;
    CUresult result =
        ZC_FLAVOURED(flavour, cuStreamGetCtx)(stream, &its) ?: zc_real.cuCtxGetCurrent(&mine);
    if (result == CUDA_SUCCESS && its != mine)
        *other = its;
    return result;
}

bool zc_stream_here(CUstream stream, enum zc_flavour flavour)
{
    CUcontext other;
    return find_other(stream, flavour, &other) == CUDA_SUCCESS && !other;
}

CUcontext zc_stream_context(CUstream stream, enum zc_flavour flavour)
{
    CUcontext context = NULL;
    if (zc_stream_kind_of(stream, flavour) != ZC_STREAM_CREATED ||
        ZC_FLAVOURED(flavour, cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
        zc_real.cuCtxGetCurrent(&context);
    return context;
}

CUevent zc_stream_mark_here(CUstream stream, enum zc_flavour flavour)
{
    CUevent event = NULL;
    if (zc_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (ZC_FLAVOURED(flavour, cuEventRecord)(event, stream) == CUDA_SUCCESS)
        return event;
    zc_real.cuEventDestroy_v2(event);
    return NULL;
}

/* An event belongs to the context of its stream. */
CUevent zc_stream_mark(CUstream stream, enum zc_flavour flavour)
{
    CUcontext other;
    find_other(stream, flavour, &other);
    if (other && zc_real.cuCtxPushCurrent_v2(other) != CUDA_SUCCESS)
        return NULL;
    CUevent event = zc_stream_mark_here(stream, flavour);
    zc_context_pop(other);
    return event;
}

CUresult zc_stream_wait_mark(CUevent event)
{
    CUresult result = zc_real.cuEventSynchronize(event);
    zc_real.cuEventDestroy_v2(event);
    return result;
}

CUresult zc_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device)
{
    CUcontext other;
    CUresult result = find_other(stream, flavour, &other);
    if (result != CUDA_SUCCESS)
        return result;
    return other ? zc_context_device(other, device) : zc_real.cuCtxGetDevice(device);
}

CUresult zc_context_push(CUcontext context, bool *pushed)
{
    CUcontext current = NULL;
    zc_real.cuCtxGetCurrent(&current);
    CUresult result = current == context ? CUDA_SUCCESS : zc_real.cuCtxPushCurrent_v2(context);
    *pushed = current != context && result == CUDA_SUCCESS;
    return result;
}

CUresult zc_context_device(CUcontext context, CUdevice *device)
{
    bool pushed;
    CUresult result = zc_context_push(context, &pushed);
    if (result == CUDA_SUCCESS)
        result = zc_real.cuCtxGetDevice(device);
    zc_context_pop(pushed);
    return result;
}

bool zc_context_push_if_none(CUcontext context)
{
    CUcontext current = NULL;
    bool none = context && zc_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && !current;
    return none && zc_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void zc_context_pop(bool pushed)
{
    CUcontext popped;
    if (pushed)
        zc_real.cuCtxPopCurrent_v2(&popped);
}

/* Retains the context for a moment, because no other call returns its handle. */
CUcontext zc_context_primary(int device)
{
    CUcontext context = NULL;
    unsigned flags;
    int active = 0;
    if (zc_real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        zc_real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    zc_real.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

enum zc_stream_kind zc_stream_kind_of(CUstream stream, enum zc_flavour flavour)
{
    if (stream == CU_STREAM_LEGACY)
        return ZC_STREAM_LEGACY;
    if (stream == CU_STREAM_PER_THREAD || (!stream && flavour == ZC_PER_THREAD))
        return ZC_STREAM_PER_THREAD;
    return stream ? ZC_STREAM_CREATED : ZC_STREAM_DEFAULT;
}
