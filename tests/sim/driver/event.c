/* SPDX-License-Identifier: MIT */
/* Events: record, query, wait, elapsed time. */
#include "event.h"
#include "capture.h"
#include "context.h"
#include "launch.h"
#include "pool.h"
#include <stdlib.h>

static struct sim_event *events;

struct sim_event *sim_event_of(CUevent handle)
{
    for (struct sim_event *e = events; e; e = e->next)
        if ((CUevent)e == handle)
            return e;
    return NULL;
}

size_t sim_events_count(void)
{
    size_t n = 0;
    for (struct sim_event *e = events; e; e = e->next)
        n++;
    return n;
}

void sim_event_ref(struct sim_event *event)
{
    event->refs++;
}

void sim_event_unref(struct sim_event *event)
{
    if (--event->refs > 0)
        return;
    sim_point_drop(&event->point);
    free(event->tips);
    free(event);
}

static void event_end(struct sim_event *event)
{
    struct sim_event **p = &events;
    while (*p != event)
        p = &(*p)->next;
    *p = event->next;
    event->destroyed = true;
    sim_event_unref(event);
}

void sim_events_context_end(struct sim_context *ctx)
{
    for (struct sim_event *e = events, *next; e; e = next) {
        next = e->next;
        if (e->ctx == ctx)
            event_end(e);
    }
}

void sim_events_capture_end(const struct sim_capture *capture)
{
    for (struct sim_event *e = events; e; e = e->next)
        if (e->capture == capture) {
            e->capture = NULL;
            e->tip_count = 0;
        }
}

void sim_event_reached(struct sim_event *event)
{
    sim_relock();
    event->time_ns = sim_kernel_time_ns(event->ctx->device);
    sim_unlock();
}

void sim_event_wait(struct sim_event *event)
{
    sim_relock();
    struct sim_point p = event->point;
    if (p.stream)
        sim_stream_ref(p.stream);
    sim_point_wait(&p);
    sim_point_drop(&p);
    sim_unlock();
}

CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream)
{
    struct sim_work work = {.kind = SIM_WORK_EVENT_RECORD, .u.event = event};
    sim_event_ref(event);
    CUresult r = sim_submit(stream, &work);
    if (r != CUDA_SUCCESS)
        return r;
    sim_point_drop(&event->point);
    event->point = sim_stream_point(stream);
    event->recorded = true;
    event->capture = NULL;
    return CUDA_SUCCESS;
}

SIM_API(cuEventCreate, (CUevent * out, unsigned int flags), (out, flags))
{
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    bool interprocess_timing =
        (flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING);
    if (!out || (flags & ~7u) || interprocess_timing)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *e = calloc(1, sizeof *e);
    e->ctx = sim_context_base(ctx);
    e->flags = flags;
    e->refs = 1;
    e->next = events;
    events = e;
    *out = (CUevent)e;
    return CUDA_SUCCESS;
}

SIM_API(cuEventDestroy_v2, (CUevent handle), (handle))
{
    struct sim_event *e = sim_event_of(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_context *ctx = e->ctx;
    event_end(e);
    return sim_context_error(ctx);
}
SIM_ALIAS(cuEventDestroy, body_cuEventDestroy_v2, (CUevent handle), (handle))

static CUresult record(CUevent handle, CUstream stream, unsigned flags)
{
    struct sim_stream *s;
    struct sim_event *e = sim_event_of(handle);
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->ctx != sim_context_base(s->ctx))
        return CUDA_ERROR_INVALID_HANDLE; /* event and stream must be of one context (cuEventRecord)
                                           */
    if (s->capture) {
        if (flags != CU_EVENT_RECORD_EXTERNAL)
            return sim_capture_record(s, e);
        struct sim_work work = {.kind = SIM_WORK_EVENT_RECORD, .u.event = e};
        sim_event_ref(e);
        return sim_submit(s, &work);
    }
    if (flags == CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    r = sim_capture_implicit(s);
    return r == CUDA_SUCCESS ? sim_event_record(e, s) : r;
}

SIM_API_PTSZ(cuEventRecord, (CUevent handle, CUstream stream), (handle, stream))
{
    return record(handle, stream, 0);
}

SIM_API_PTSZ(cuEventRecordWithFlags, (CUevent handle, CUstream stream, unsigned int flags),
             (handle, stream, flags))
{
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : record(handle, stream, flags);
}

SIM_API_PTSZ(cuStreamWaitEvent, (CUstream stream, CUevent handle, unsigned int flags),
             (stream, handle, flags))
{
    struct sim_stream *s;
    struct sim_event *e = sim_event_of(handle);
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!e || flags > 1)
        return e ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (s->capture && flags == CU_EVENT_WAIT_EXTERNAL) {
        struct sim_work work = {.kind = SIM_WORK_EVENT_WAIT, .u.event = e};
        sim_event_ref(e);
        return sim_submit(s, &work);
    }
    if (e->capture || s->capture)
        return sim_capture_wait(s, e);
    if (!e->recorded)
        return CUDA_SUCCESS;
    r = sim_capture_implicit(s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_point point = e->point;
    if (point.stream)
        sim_stream_ref(point.stream);
    sim_stream_wait_point(s, point);
    return CUDA_SUCCESS;
}

SIM_API(cuEventQuery, (CUevent handle), (handle))
{
    struct sim_event *e = sim_event_of(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    CUresult r = sim_capture_unsafe_call();
    if (r != CUDA_SUCCESS)
        return r;
    if (sim_context_error(e->ctx) != CUDA_SUCCESS)
        return sim_context_error(e->ctx);
    return sim_point_reached(&e->point) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_API(cuEventSynchronize, (CUevent handle), (handle))
{
    struct sim_event *e = sim_event_of(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    CUresult r = sim_capture_unsafe_call();
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_point p = e->point;
    struct sim_context *ctx = e->ctx;
    if (p.stream)
        sim_stream_ref(p.stream);
    sim_point_wait(&p);
    sim_point_drop(&p);
    sim_pools_settle();
    return sim_context_error(ctx);
}

SIM_API(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), (ms, start, end))
{
    struct sim_event *a = sim_event_of(start), *b = sim_event_of(end);
    if (!a || !b)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    if (!a->recorded || !b->recorded || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_context_error(a->ctx) != CUDA_SUCCESS)
        return sim_context_error(a->ctx);
    if (!sim_point_reached(&a->point) || !sim_point_reached(&b->point))
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(int64_t)(b->time_ns - a->time_ns) / 1e6);
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuEventElapsedTime_v2, body_cuEventElapsedTime, (float *ms, CUevent start, CUevent end),
          (ms, start, end))
