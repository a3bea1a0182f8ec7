/* SPDX-License-Identifier: MIT */
/* Contexts: creation, the stack of each thread, synchronisation, limits. */
#include "capture.h"
#include "context.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"
#include <stdlib.h>

#define STACK_DEPTH 64

struct sim_context *sim_contexts;
static __thread struct sim_context *stack[STACK_DEPTH]; /* the last one is current */
static __thread int depth;

CUresult sim_current_any(struct sim_context **out)
{
    struct sim_context *ctx = depth ? stack[depth - 1] : NULL;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_current(struct sim_context **out)
{
    struct sim_context *ctx;
    CUresult r = sim_current_any(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (sim_context_error(ctx) != CUDA_SUCCESS)
        return sim_context_error(ctx);
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_current_unsafe(struct sim_context **out)
{
    CUresult r = sim_current(out);
    return r == CUDA_SUCCESS ? sim_capture_unsafe_call() : r;
}

struct sim_context *sim_context_of(CUcontext handle)
{
    if (!handle)
        return depth ? stack[depth - 1] : NULL;
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        if ((CUcontext)c == handle)
            return c;
    return NULL;
}

void sim_context_fail(struct sim_context *ctx, CUresult error)
{
    struct sim_device *d = &sim_devices[ctx->device];
    if (d->failed == CUDA_SUCCESS)
        d->failed = error;
}

struct sim_context *sim_context_new(int device, unsigned flags, unsigned version)
{
    struct sim_context *ctx = calloc(1, sizeof *ctx);
    ctx->device = device;
    ctx->next = sim_contexts;
    sim_contexts = ctx;
    ctx->version = version;
    sim_context_begin(ctx, flags);
    return ctx;
}

void sim_context_begin(struct sim_context *ctx, unsigned flags)
{
    ctx->alive = true;
    ctx->flags = flags;
    ctx->id = sim_next_id();
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 6553600;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
    ctx->legacy = sim_stream_new(ctx, CU_STREAM_LEGACY, 0, 0);
}

void sim_context_end(struct sim_context *ctx)
{
    sim_context_wait(ctx);
    ctx->alive = false;
    while (ctx->streams)
        sim_stream_end(ctx->streams);
    ctx->legacy = NULL;
    sim_memory_context_end(ctx);
    sim_events_context_end(ctx);
    for (int d = 0; d < SIM_MAX_DEVICES; d++)
        ctx->peer[d] = false;
}

CUresult sim_context_wait(struct sim_context *ctx)
{
    /* A stream may end during a wait, so the walk starts again after each. */
    for (struct sim_stream *s = ctx->streams; s;) {
        if (s->completed == s->submitted) {
            s = s->next;
            continue;
        }
        sim_stream_wait(s);
        s = ctx->streams;
    }
    sim_pools_settle();
    return sim_context_error(ctx);
}

void sim_device_wait(int device)
{
    for (struct sim_context *c = sim_contexts; c; c = c->next)
        if (c->alive && (device < 0 || c->device == device))
            sim_context_wait(c);
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice dev, unsigned version)
{
    if (!out || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (sim_devices[dev].failed != CUDA_SUCCESS)
        return sim_devices[dev].failed;
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = sim_context_new(dev, flags, version);
    *out = (CUcontext)stack[depth - 1];
    return CUDA_SUCCESS;
}

SIM_API(cuCtxCreate, (CUcontext * out, unsigned int flags, CUdevice dev), (out, flags, dev))
{
    return create(out, flags, dev, 3010);
}

SIM_API(cuCtxCreate_v2, (CUcontext * out, unsigned int flags, CUdevice dev), (out, flags, dev))
{
    return create(out, flags, dev, 3020);
}

SIM_API(cuCtxCreate_v3,
        (CUcontext * out, CUexecAffinityParam *affinity, int count, unsigned int flags,
         CUdevice dev),
        (out, affinity, count, flags, dev))
{
    return affinity || count ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : create(out, flags, dev, 3020);
}

SIM_API(cuCtxCreate_v4,
        (CUcontext * out, CUctxCreateParams *params, unsigned int flags, CUdevice dev),
        (out, params, flags, dev))
{
    if (params && (params->execAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(out, flags, dev, 3020);
}

static CUresult destroy(CUcontext handle, bool reference)
{
    struct sim_context *ctx = handle ? sim_context_of(handle) : NULL;
    if (!ctx || !ctx->alive || ctx->primary || ctx->base)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (reference && ctx->attached) {
        ctx->attached--;
        return CUDA_SUCCESS;
    }
    sim_context_end(ctx);
    if (depth && stack[depth - 1] == ctx)
        depth--;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxDestroy_v2, (CUcontext handle), (handle))
{
    return destroy(handle, false);
}
SIM_ALIAS(cuCtxDestroy, body_cuCtxDestroy_v2, (CUcontext handle), (handle))

SIM_API(cuCtxDetach, (CUcontext handle), (handle))
{
    return destroy(handle, true);
}

SIM_API(cuCtxAttach, (CUcontext * out, unsigned int flags), (out, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->attached++;
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxPushCurrent_v2, (CUcontext handle), (handle))
{
    struct sim_context *ctx = handle ? sim_context_of(handle) : NULL;
    if (!ctx || depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    stack[depth++] = ctx;
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuCtxPushCurrent, body_cuCtxPushCurrent_v2, (CUcontext handle), (handle))

SIM_API(cuCtxPopCurrent_v2, (CUcontext * out), (out))
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuCtxPopCurrent, body_cuCtxPopCurrent_v2, (CUcontext * out), (out))

SIM_API(cuCtxSetCurrent, (CUcontext handle), (handle))
{
    struct sim_context *ctx = handle ? sim_context_of(handle) : NULL;
    if (handle && !ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx && !ctx->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!ctx) {
        depth -= depth > 0;
        return CUDA_SUCCESS;
    }
    depth += depth == 0;
    stack[depth - 1] = ctx;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxGetCurrent, (CUcontext * out), (out))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = depth ? (CUcontext)stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

SIM_API(cuCtxSynchronize, (void), ())
{
    struct sim_context *ctx;
    CUresult r = sim_current_unsafe(&ctx);
    if (r == CUDA_SUCCESS)
        r = sim_capture_unsafe_context(ctx);
    return r == CUDA_SUCCESS ? sim_context_wait(ctx) : r;
}

#if CUDA_VERSION >= 13000
SIM_API(cuCtxSynchronize_v2, (CUcontext handle), (handle))
{
    struct sim_context *ctx = sim_context_of(handle);
    if (!ctx || !ctx->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = sim_capture_unsafe_context(ctx);
    return r == CUDA_SUCCESS ? sim_context_wait(ctx) : r;
}
#endif
