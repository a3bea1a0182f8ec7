/* SPDX-License-Identifier: MIT */
/* Streams as the program handles them: making, finding, asking, waiting. */
#include "capture.h"
#include "pool.h"
#include "stream.h"
#include <stdlib.h>

/* The per-thread default stream that a thread uses in one context. */
struct thread_stream {
    struct thread_stream *next; /* of the thread */
    struct sim_stream *stream;  /* counted reference */
    unsigned long long ctx_id;  /* of the context's current life */
};

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

struct sim_stream *sim_stream_new(struct sim_context *ctx, CUstream builtin, unsigned flags,
                                  int priority)
{
    struct sim_stream *s = calloc(1, sizeof *s);
    s->ctx = ctx;
    s->builtin = builtin;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->id = sim_next_id();
    s->refs = 1;
    pthread_cond_init(&s->arrived, NULL);
    s->next = ctx->streams;
    ctx->streams = s;
    return s;
}

/* Idempotent. */
static void list_remove(struct sim_stream *stream)
{
    struct sim_stream **p = &stream->ctx->streams;
    while (*p && *p != stream)
        p = &(*p)->next;
    if (*p)
        *p = stream->next;
}

void sim_stream_ref(struct sim_stream *stream)
{
    stream->refs++;
}

void sim_stream_unref(struct sim_stream *stream)
{
    if (--stream->refs > 0)
        return;
    list_remove(stream);
    pthread_cond_destroy(&stream->arrived);
    free(stream->tips);
    free(stream);
}

/* A stream with work left stays in the list, so that a wait for the context waits for it too. */
void sim_stream_end(struct sim_stream *stream)
{
    bool idle = stream->completed == stream->submitted;
    if (idle)
        list_remove(stream);
    if (stream->destroyed)
        return;
    stream->destroyed = true;
    sim_capture_stream_end(stream);
    pthread_cond_signal(&stream->arrived);
    sim_stream_unref(stream);
}

/* At the end of a thread its default streams go; their work is still done. */
static void thread_end(void *list)
{
    sim_relock();
    for (struct thread_stream *t = list, *next; t; t = next) {
        next = t->next;
        if (!t->stream->destroyed)
            sim_stream_end(t->stream);
        sim_stream_unref(t->stream);
        free(t);
    }
    sim_unlock();
}

static void thread_key_make(void)
{
    pthread_key_create(&thread_key, thread_end);
}

static struct sim_stream *per_thread(struct sim_context *ctx)
{
    pthread_once(&thread_once, thread_key_make);
    for (struct thread_stream *t = pthread_getspecific(thread_key); t; t = t->next)
        if (t->ctx_id == ctx->id)
            return t->stream;
    struct thread_stream *t = calloc(1, sizeof *t);
    t->stream = sim_stream_new(ctx, CU_STREAM_PER_THREAD, 0, 0);
    t->ctx_id = ctx->id;
    t->next = pthread_getspecific(thread_key);
    sim_stream_ref(t->stream);
    pthread_setspecific(thread_key, t);
    return t->stream;
}

/* A stream that the program made, of any context. */
static CUresult find_made(CUstream handle, struct sim_stream **out)
{
    for (struct sim_context *ctx = sim_contexts; ctx; ctx = ctx->next)
        for (struct sim_stream *s = ctx->streams; s; s = s->next)
            if ((CUstream)s == handle && !s->builtin && !s->destroyed) {
                *out = s;
                return sim_context_error(ctx);
            }
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_stream_find(CUstream handle, struct sim_stream **out)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (handle == NULL)
        handle = sim_default_stream();
    if (handle == CU_STREAM_LEGACY) {
        *out = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *out = per_thread(ctx);
        return CUDA_SUCCESS;
    }
    return find_made(handle, out);
}

CUresult sim_stream_find_bare(CUstream handle, struct sim_stream **out)
{
    CUresult r = sim_stream_find(handle, out);
    if (r != CUDA_ERROR_INVALID_CONTEXT)
        return r;
    CUresult made = find_made(handle, out);
    return made == CUDA_ERROR_INVALID_HANDLE ? r : made;
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUstream)sim_stream_new(ctx, NULL, flags, priority);
    return CUDA_SUCCESS;
}

SIM_API(cuStreamCreate, (CUstream * out, unsigned int flags), (out, flags))
{
    return create(out, flags, 0);
}

SIM_API(cuStreamCreateWithPriority, (CUstream * out, unsigned int flags, int priority),
        (out, flags, priority))
{
    return create(out, flags, priority);
}

/* Returns at once; pending work is still done (CUDA driver API, cuStreamDestroy). */
SIM_API(cuStreamDestroy_v2, (CUstream handle), (handle))
{
    struct sim_stream *s;
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    sim_stream_end(s);
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuStreamDestroy, body_cuStreamDestroy_v2, (CUstream handle), (handle))

/* A blocking stream with work in progress, or NULL. */
static struct sim_stream *blocking_pending(struct sim_context *ctx)
{
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->completed != s->submitted)
            return s;
    return NULL;
}

bool sim_stream_idle(const struct sim_stream *stream)
{
    const struct sim_stream *legacy = stream->ctx->legacy;
    if (stream->completed != stream->submitted)
        return false;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    return stream == legacy ? !blocking_pending(stream->ctx)
                            : legacy->completed == legacy->submitted;
}

/* The legacy stream is in order with all blocking streams, so its host waits for them all. */
static void blocking_wait(struct sim_context *ctx)
{
    struct sim_stream *s;
    while ((s = blocking_pending(ctx)) != NULL)
        sim_stream_wait(s);
}

SIM_API_PTSZ(cuStreamSynchronize, (CUstream handle), (handle))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find_bare(handle, &s);
    if (r == CUDA_SUCCESS)
        r = sim_capture_unsafe_stream(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (s == s->ctx->legacy)
        blocking_wait(s->ctx);
    r = sim_stream_wait(s);
    sim_pools_settle();
    return r;
}

SIM_API_PTSZ(cuStreamQuery, (CUstream handle), (handle))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r == CUDA_SUCCESS)
        r = sim_capture_unsafe_stream(s);
    if (r != CUDA_SUCCESS)
        return r;
    if (s->completed != s->submitted)
        return CUDA_ERROR_NOT_READY;
    return s == s->ctx->legacy && blocking_pending(s->ctx) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* Questions about a stream are allowed while another one captures, but they end a capture that
 * the stream itself is in (measured on an H200). */
static CUresult find_to_ask(CUstream handle, struct sim_stream **out)
{
    CUresult r = sim_stream_find(handle, out);
    return r == CUDA_SUCCESS && (*out)->capture ? sim_capture_unsafe_stream(*out) : r;
}

SIM_API_PTSZ(cuStreamGetFlags, (CUstream handle, unsigned int *flags), (handle, flags))
{
    struct sim_stream *s;
    CUresult r = find_to_ask(handle, &s);
    if (r == CUDA_SUCCESS)
        *flags = s->flags;
    return r;
}

SIM_API_PTSZ(cuStreamGetPriority, (CUstream handle, int *priority), (handle, priority))
{
    struct sim_stream *s;
    CUresult r = find_to_ask(handle, &s);
    if (r == CUDA_SUCCESS)
        *priority = s->priority;
    return r;
}

SIM_API_PTSZ(cuStreamGetId, (CUstream handle, unsigned long long *id), (handle, id))
{
    struct sim_stream *s;
    CUresult r = find_to_ask(handle, &s);
    if (r == CUDA_SUCCESS)
        *id = s->id;
    return r;
}

SIM_API_PTSZ(cuStreamGetCtx, (CUstream handle, CUcontext *ctx), (handle, ctx))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r == CUDA_SUCCESS)
        *ctx = (CUcontext)s->ctx;
    return r;
}

SIM_API_PTSZ(cuStreamGetDevice, (CUstream handle, CUdevice *dev), (handle, dev))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r == CUDA_SUCCESS)
        *dev = s->ctx->device;
    return r;
}
