/* SPDX-License-Identifier: MIT */
/* Green contexts (CUDA driver API, "Green Contexts"): a part of a device's multiprocessors, with
 * streams of its own, in the primary context. Kernels run as everywhere; what is real are the
 * handles, whose memory it is, and what waits for what. */
#include "capture.h"
#include "context.h"
#include "event.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>

#define PART 8 /* multiprocessors that a part of an H200 is a multiple of */

/* The target of CUdevResourceDesc. Never freed: no call ends one. */
struct desc {
    int device;
    unsigned count; /* multiprocessors */
};

static CUresult fill(CUdevResource *out, CUdevResourceType type, int device, unsigned count)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memset(out, 0, sizeof *out);
    out->type = type;
    out->sm.smCount = count;
    memcpy(out->_internal_padding, &device, sizeof device);
    return CUDA_SUCCESS;
}

static int device_of(const CUdevResource *resource)
{
    int device;
    memcpy(&device, resource->_internal_padding, sizeof device);
    return device;
}

static unsigned all_of(int device)
{
    int count = 0;
    sim_device_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    return (unsigned)count;
}

SIM_API(cuDeviceGetDevResource, (CUdevice dev, CUdevResource *out, CUdevResourceType type),
        (dev, out, type))
{
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return fill(out, type, dev, all_of(dev));
}

SIM_API(cuCtxGetDevResource, (CUcontext handle, CUdevResource *out, CUdevResourceType type),
        (handle, out, type))
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx || !ctx->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    return fill(out, type, ctx->device, ctx->base ? ctx->processors : all_of(ctx->device));
}

SIM_API(cuDevSmResourceSplitByCount,
        (CUdevResource * out, unsigned int *groups, const CUdevResource *input, CUdevResource *rest,
         unsigned int flags, unsigned int least),
        (out, groups, input, rest, flags, least))
{
    if (!groups || !input || flags > 3 || least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    unsigned part = least ? (least + PART - 1) / PART * PART : PART;
    unsigned most = input->sm.smCount / part, made = out && *groups < most ? *groups : most;
    int device = device_of(input);
    *groups = made;
    for (unsigned i = 0; out && i < made; i++)
        fill(&out[i], input->type, device, part);
    if (out && rest)
        fill(rest, input->type, device, input->sm.smCount - made * part);
    return CUDA_SUCCESS;
}

SIM_API(cuDevResourceGenerateDesc,
        (CUdevResourceDesc * out, CUdevResource *resources, unsigned int count),
        (out, resources, count))
{
    if (!out || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct desc desc = {device_of(resources), 0};
    for (unsigned i = 0; i < count; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (device_of(&resources[i]) != desc.device)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        desc.count += resources[i].sm.smCount;
    }
    struct desc *made = malloc(sizeof *made);
    *made = desc;
    *out = (CUdevResourceDesc)made;
    return CUDA_SUCCESS;
}

/* The handle of a green context is that of its context. */
static struct sim_context *green_of(CUgreenCtx handle)
{
    struct sim_context *ctx = handle ? sim_context_of((CUcontext)handle) : NULL;
    return ctx && ctx->base && ctx->alive ? ctx : NULL;
}

SIM_API(cuGreenCtxCreate,
        (CUgreenCtx * out, CUdevResourceDesc handle, CUdevice dev, unsigned int flags),
        (out, handle, dev, flags))
{
    const struct desc *desc = (const struct desc *)handle;
    struct sim_context *base;
    if (!out || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev) || desc->device != dev)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = sim_primary_retain(dev, &base);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_context *ctx = sim_context_new(dev, base->flags, base->version);
    ctx->base = base;
    ctx->processors = desc->count;
    *out = (CUgreenCtx)ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxDestroy, (CUgreenCtx handle), (handle))
{
    struct sim_context *ctx = green_of(handle);
    if (!ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_end(ctx);
    return sim_primary_release(ctx->device);
}

SIM_API(cuCtxFromGreenCtx, (CUcontext * out, CUgreenCtx handle), (out, handle))
{
    struct sim_context *ctx = green_of(handle);
    if (!ctx || !out)
        return ctx ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuGreenCtxGetDevResource, (CUgreenCtx handle, CUdevResource *out, CUdevResourceType type),
        (handle, out, type))
{
    struct sim_context *ctx = green_of(handle);
    return ctx ? fill(out, type, ctx->device, ctx->processors) : CUDA_ERROR_INVALID_HANDLE;
}

/* Records behind the work that streams of a context have now, and those of green ones made of it;
 * later work of theirs does not wait for it.  Without work it has been reached (measured on an
 * H100 and an H200, tests/gpu/stream_facts.h100.txt). */
static CUresult record_all(struct sim_context *ctx, struct sim_event *e)
{
    struct sim_stream *by = NULL;
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        for (struct sim_stream *s = c->streams; s && (c == ctx || c->base == ctx); s = s->next) {
            if (s == by || s->completed == s->submitted)
                continue;
            by = by ? by : sim_stream_new(ctx, NULL, CU_STREAM_NON_BLOCKING, 0);
            sim_stream_wait_point(by, sim_stream_point(s));
        }
    if (!by) {
        sim_point_drop(&e->point);
        e->recorded = true;
        e->capture = NULL;
        return CUDA_SUCCESS;
    }
    CUresult r = sim_event_record(e, by);
    sim_stream_end(by);
    return r;
}

SIM_API(cuGreenCtxRecordEvent, (CUgreenCtx handle, CUevent event), (handle, event))
{
    struct sim_context *ctx = green_of(handle);
    struct sim_event *e = sim_event_of(event);
    if (!ctx || !e || e->ctx != ctx->base)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        if (s->capture)
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return record_all(ctx, e);
}

SIM_API(cuCtxRecordEvent, (CUcontext handle, CUevent event), (handle, event))
{
    struct sim_context *ctx = sim_context_of(handle);
    struct sim_event *e = sim_event_of(event);
    if (!ctx || !ctx->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!e || e->ctx != (ctx->base ? ctx->base : ctx))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_capture_unsafe_context(ctx);
    return r == CUDA_SUCCESS ? record_all(ctx, e) : r;
}

SIM_API(cuGreenCtxWaitEvent, (CUgreenCtx handle, CUevent event), (handle, event))
{
    struct sim_context *ctx = green_of(handle);
    struct sim_event *e = sim_event_of(event);
    if (!ctx || !e)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_stream *s = ctx->streams; s && e->recorded; s = s->next) {
        if (e->point.stream)
            sim_stream_ref(e->point.stream);
        sim_stream_wait_point(s, e->point);
    }
    return CUDA_SUCCESS;
}

static struct sim_context *green_of_stream(const struct sim_stream *s)
{
    return s->ctx->base ? s->ctx : NULL;
}

SIM_API(cuStreamGetGreenCtx, (CUstream handle, CUgreenCtx *out), (handle, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r == CUDA_SUCCESS && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *out = (CUgreenCtx)green_of_stream(s);
    return r;
}

SIM_API(cuGreenCtxStreamCreate,
        (CUstream * out, CUgreenCtx handle, unsigned int flags, int priority),
        (out, handle, flags, priority))
{
    struct sim_context *ctx = green_of(handle);
    if (!ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_context_error(ctx) != CUDA_SUCCESS)
        return sim_context_error(ctx);
    *out = (CUstream)sim_stream_new(ctx, NULL, flags, priority);
    return CUDA_SUCCESS;
}

/* Of a stream in a green context: both that and the primary context. */
SIM_API_PTSZ(cuStreamGetCtx_v2, (CUstream handle, CUcontext *ctx, CUgreenCtx *green),
             (handle, ctx, green))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    *ctx = (CUcontext)sim_context_base(s->ctx);
    *green = (CUgreenCtx)green_of_stream(s);
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12090
SIM_API(cuGreenCtxGetId, (CUgreenCtx handle, unsigned long long *id), (handle, id))
{
    struct sim_context *ctx = green_of(handle);
    if (!ctx || !id)
        return ctx ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *id = ctx->id;
    return CUDA_SUCCESS;
}
#endif
