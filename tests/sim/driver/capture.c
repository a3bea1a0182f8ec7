/* SPDX-License-Identifier: MIT */
/* Stream capture: which streams take part, what becomes a node, what is forbidden meanwhile. */
#include "event.h"
#include "capture_state.h"
#include "graph_work.h"
#include "pool.h"
#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUstreamCaptureMode sim_capture_exchange(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = mode;
    return old;
}

static void invalidate(struct sim_capture *c)
{
    c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

/* Whether a capture forbids the calling thread unsafe calls (cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct sim_capture *c)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(c->thread, pthread_self()))
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_unsafe_call(void)
{
    CUresult r = CUDA_SUCCESS;
    for (struct sim_capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            invalidate(c);
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return r;
}

CUresult sim_capture_unsafe_context(struct sim_context *ctx)
{
    CUresult r = sim_capture_unsafe_call();
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        if (s->capture) {
            invalidate(s->capture);
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return r;
}

CUresult sim_capture_unsafe_stream(struct sim_stream *stream)
{
    if (!stream->capture) {
        CUresult r = sim_capture_unsafe_call();
        return r == CUDA_SUCCESS ? sim_capture_implicit(stream) : r;
    }
    invalidate(stream->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult implicit(struct sim_stream *stream, bool invalidates)
{
    CUresult r = CUDA_SUCCESS;
    if (stream != stream->ctx->legacy || !captures)
        return r;
    for (struct sim_stream *s = stream->ctx->streams; s; s = s->next)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            if (invalidates)
                invalidate(s->capture);
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return r;
}

CUresult sim_capture_implicit(struct sim_stream *stream)
{
    return implicit(stream, true);
}

CUresult sim_capture_implicit_asked(struct sim_stream *stream)
{
    return implicit(stream, false);
}

void sim_capture_tips(struct sim_stream *stream, struct sim_node *const *tips, size_t count)
{
    struct sim_node **copy = malloc((count + 1) * sizeof *copy);
    if (count)
        memcpy(copy, tips, count * sizeof *copy);
    free(stream->tips);
    stream->tips = copy;
    stream->tip_count = count;
}

/* All differences but those of kind and order are taken, and no callback is asked. */
static CUresult recapture(struct sim_capture *c, struct sim_work *work, struct sim_node **out)
{
    struct sim_node *node = c->done < c->graph->count ? c->graph->nodes[c->done] : NULL;
    if (!node || sim_node_set_work(node, work) != CUDA_SUCCESS) {
        if (!node)
            sim_work_free(work);
        invalidate(c);
        return (CUresult)918; /* CUDA_ERROR_GRAPH_RECAPTURE_FAILURE */
    }
    c->done++;
    *out = node;
    return CUDA_SUCCESS;
}

CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
    struct sim_capture *c = stream->capture;
    struct sim_node *node;
    if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        sim_work_free(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (work->kind == SIM_WORK_GRAPH) { /* a launch of a graph becomes a child graph */
        struct sim_work child = {.kind = SIM_WORK_CHILD,
                                 .u.child = sim_graph_clone(work->u.exec->graph)};
        sim_work_free(work);
        *work = child;
    } else if (work->kind >= SIM_WORK_CALLBACK) {
        sim_work_free(work);
        invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult r = c->again ? recapture(c, work, &node)
                          : sim_node_add(c->graph, stream->tips, stream->tip_count, work, &node);
    if (r == CUDA_SUCCESS)
        sim_capture_tips(stream, &node, 1);
    return r;
}

CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_pool *pool, size_t size,
                           CUdeviceptr *dptr)
{
    struct sim_work work;
    if (stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUresult r = sim_graph_alloc_work(&work, pool, size);
    if (r != CUDA_SUCCESS)
        return r;
    *dptr = work.u.alloc.params.dptr;
    return sim_capture_add(stream, &work);
}

CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr dptr)
{
    struct sim_work work = {.kind = SIM_WORK_FREE, .u.free = dptr};
    struct sim_block *b = sim_block_find(dptr);
    if (!b || b->va != dptr || !b->graph_refs)
        return CUDA_ERROR_INVALID_VALUE; /* only what a graph allocated */
    return sim_capture_add(stream, &work);
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
    if (stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    free(event->tips);
    event->tips = malloc((stream->tip_count + 1) * sizeof *event->tips);
    if (stream->tip_count)
        memcpy(event->tips, stream->tips, stream->tip_count * sizeof *event->tips);
    event->tip_count = stream->tip_count;
    event->capture = stream->capture;
    event->recorded = false;
    return CUDA_SUCCESS;
}

/* The waiting stream joins the capture, or gets further dependencies. */
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *c = event->capture;
    if (!c) {
        if (!event->recorded)
            return CUDA_SUCCESS;
        invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->builtin == CU_STREAM_LEGACY) {
        invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture && stream->capture != c) {
        invalidate(c);
        invalidate(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture) {
        stream->capture = c;
        sim_capture_tips(stream, event->tips, event->tip_count);
        return CUDA_SUCCESS;
    }
    struct sim_node **all = malloc((stream->tip_count + event->tip_count + 1) * sizeof *all);
    size_t n = stream->tip_count;
    if (n)
        memcpy(all, stream->tips, n * sizeof *all);
    for (size_t i = 0; i < event->tip_count; i++) {
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known = known || all[k] == event->tips[i];
        if (!known)
            all[n++] = event->tips[i];
    }
    sim_capture_tips(stream, all, n);
    free(all);
    return CUDA_SUCCESS;
}

void sim_capture_stream_end(struct sim_stream *stream)
{
    struct sim_capture *c = stream->capture;
    if (!c)
        return;
    invalidate(c);
    stream->capture = NULL;
    if (c->origin == stream)
        sim_capture_close(c);
}

struct sim_capture *sim_capture_open(struct sim_stream *stream, CUstreamCaptureMode mode,
                                     struct sim_graph *graph)
{
    struct sim_capture *c = calloc(1, sizeof *c);
    c->own_graph = graph == NULL;
    c->graph = graph ? graph : sim_graph_new(true);
    c->mode = mode;
    c->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    c->id = sim_next_id();
    c->origin = stream;
    c->thread = pthread_self();
    c->next = captures;
    captures = c;
    stream->capture = c;
    sim_capture_tips(stream, NULL, 0);
    return c;
}

bool sim_capture_unjoined(const struct sim_capture *c)
{
    const struct sim_stream *o = c->origin;
    for (struct sim_context *ctx = sim_contexts; ctx; ctx = ctx->next)
        for (struct sim_stream *s = ctx->streams; s; s = s->next) {
            if (s == o || s->capture != c)
                continue;
            for (size_t t = 0; t < s->tip_count; t++) {
                bool joined = false;
                for (size_t i = 0; i < o->tip_count; i++)
                    joined = joined || sim_node_depends(o->tips[i], s->tips[t]);
                if (!joined)
                    return true;
            }
        }
    return false;
}

void sim_capture_close(struct sim_capture *c)
{
    struct sim_capture **p = &captures;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    for (struct sim_context *ctx = sim_contexts; ctx; ctx = ctx->next)
        for (struct sim_stream *s = ctx->streams; s; s = s->next)
            if (s->capture == c) {
                s->capture = NULL;
                sim_capture_tips(s, NULL, 0);
            }
    sim_events_capture_end(c);
    if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE && c->own_graph)
        sim_graph_free(c->graph);
    free(c);
}
