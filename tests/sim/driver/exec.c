/* SPDX-License-Identifier: MIT */
/* The queues: one worker thread a stream, first in first out, and the waits between streams.
 *
 * The legacy default stream waits for all blocking streams of its context and they wait for it
 * (CUDA Programming Guide, "Legacy default stream"). The per-thread default streams are blocking
 * streams. */
#include "capture.h"
#include "stream.h"
#include <stdlib.h>
#include <time.h>

static unsigned delay_us(void)
{
    static int value = -1;
    if (value < 0) {
        const char *text = getenv("SIM_DELAY_US");
        value = text ? atoi(text) : 0;
    }
    return (unsigned)value;
}

static void delay(void)
{
    unsigned us = delay_us();
    if (us) {
        struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
        nanosleep(&t, NULL);
    }
}

struct sim_point sim_stream_point(struct sim_stream *stream)
{
    sim_stream_ref(stream);
    return (struct sim_point){stream, stream->submitted};
}

bool sim_point_reached(const struct sim_point *point)
{
    return !point->stream || point->stream->completed >= point->seq;
}

void sim_point_wait(const struct sim_point *point)
{
    while (!sim_point_reached(point))
        pthread_cond_wait(&sim_progress, &sim_lock);
}

void sim_point_drop(struct sim_point *point)
{
    if (point->stream)
        sim_stream_unref(point->stream);
    point->stream = NULL;
}

static void op_after(struct sim_op *op, struct sim_stream *other)
{
    if (other->completed == other->submitted)
        return;
    op->after = realloc(op->after, (op->after_count + 1) * sizeof *op->after);
    op->after[op->after_count++] = sim_stream_point(other);
}

/* The implicit waits of an operation on `stream`. */
static void op_order(struct sim_op *op, struct sim_stream *stream)
{
    struct sim_context *ctx = stream->ctx;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return;
    if (stream != ctx->legacy) {
        op_after(op, ctx->legacy);
        return;
    }
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        if (s != stream && !(s->flags & CU_STREAM_NON_BLOCKING))
            op_after(op, s);
}

static void op_free(struct sim_op *op)
{
    for (size_t i = 0; i < op->after_count; i++)
        sim_point_drop(&op->after[i]);
    free(op->after);
    sim_work_free(&op->work);
    free(op);
}

/* Runs the operation at its turn. sim_lock is held on entry and on return, not in between. An error
 * that no caller waits for sticks to the context. */
static void op_run(struct sim_stream *stream, struct sim_op *op)
{
    for (size_t i = 0; i < op->after_count; i++)
        sim_point_wait(&op->after[i]);
    CUresult r = sim_context_error(stream->ctx);
    if (r == CUDA_SUCCESS || op->work.kind == SIM_WORK_CALLBACK) {
        sim_unlock();
        delay();
        r = sim_work_run(&op->work, stream->ctx);
        sim_relock();
    }
    if (op->result)
        *op->result = r;
    else if (r != CUDA_SUCCESS)
        sim_context_fail(stream->ctx, r);
    stream->completed++;
    pthread_cond_broadcast(&sim_progress);
}

unsigned sim_stream_workers;

static void *worker(void *arg)
{
    struct sim_stream *stream = arg;
    sim_relock();
    while (stream->head || !stream->destroyed) {
        struct sim_op *op = stream->head;
        if (!op || stream->busy) {
            pthread_cond_wait(&stream->arrived, &sim_lock);
            continue;
        }
        stream->busy = true;
        stream->head = op->next;
        if (!stream->head)
            stream->tail = NULL;
        op_run(stream, op);
        op_free(op);
        stream->busy = false;
    }
    sim_stream_unref(stream);
    sim_stream_workers--;
    sim_unlock();
    return NULL;
}

static bool worker_start(struct sim_stream *stream)
{
    pthread_t thread;
    pthread_attr_t attr;
    if (stream->worker)
        return true;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    stream->worker = pthread_create(&thread, &attr, worker, stream) == 0;
    pthread_attr_destroy(&attr);
    if (stream->worker) {
        sim_stream_ref(stream);
        sim_stream_workers++;
    }
    return stream->worker;
}

static struct sim_op *op_new(struct sim_stream *stream, struct sim_work *work)
{
    struct sim_op *op = calloc(1, sizeof *op);
    op->work = *work;
    op_order(op, stream);
    return op;
}

static CUresult enqueue(struct sim_stream *stream, struct sim_op *op)
{
    if (!worker_start(stream)) {
        op_free(op);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    stream->submitted++;
    pthread_cond_signal(&stream->arrived);
    return CUDA_SUCCESS;
}

CUresult sim_submit(struct sim_stream *stream, struct sim_work *work)
{
    if (stream->capture)
        return sim_capture_add(stream, work);
    return enqueue(stream, op_new(stream, work));
}

/* An idle stream needs no worker for an operation that the caller waits for anyway. */
CUresult sim_run(struct sim_stream *stream, struct sim_work *work)
{
    struct sim_op *op = op_new(stream, work);
    CUresult r = CUDA_SUCCESS;
    op->result = &r;
    sim_stream_ref(stream);
    if (stream->head || stream->busy || op->after_count) {
        CUresult queued = enqueue(stream, op);
        if (queued == CUDA_SUCCESS)
            sim_stream_wait(stream);
        else
            r = queued;
    } else {
        stream->submitted++;
        stream->busy = true;
        op_run(stream, op);
        op_free(op);
        stream->busy = false;
        if (stream->worker)
            pthread_cond_signal(&stream->arrived);
    }
    sim_stream_unref(stream);
    return r;
}

CUresult sim_stream_wait(struct sim_stream *stream)
{
    struct sim_context *ctx = stream->ctx;
    struct sim_point p = sim_stream_point(stream);
    sim_point_wait(&p);
    sim_point_drop(&p);
    return sim_context_error(ctx);
}

void sim_stream_wait_point(struct sim_stream *stream, struct sim_point point)
{
    struct sim_work nothing = {.kind = SIM_WORK_EMPTY};
    struct sim_op *op = op_new(stream, &nothing);
    op->after = realloc(op->after, (op->after_count + 1) * sizeof *op->after);
    op->after[op->after_count++] = point;
    enqueue(stream, op);
}
