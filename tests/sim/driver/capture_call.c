/* SPDX-License-Identifier: MIT */
/* The calls that begin, ask about and end captures. */
#include "capture_state.h"
#include "graph.h"
#include <stdlib.h>

static CUresult begin(CUstream handle, struct sim_graph *graph, const CUgraphNode *deps,
                      size_t count, CUstreamCaptureMode mode)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->builtin == CU_STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    sim_capture_open(s, mode, graph);
    sim_capture_tips(s, (struct sim_node *const *)deps, count);
    return CUDA_SUCCESS;
}

SIM_API_PTSZ(cuStreamBeginCapture, (CUstream stream), (stream))
{
    return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIM_API_PTSZ(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
{
    return begin(stream, NULL, NULL, 0, mode);
}

/* Of no CUDA, see future.c. */
SIM_ALIAS_PTSZ(cuStreamBeginFutureCapture, body_cuStreamBeginCapture_v2,
               (CUstream stream, CUstreamCaptureMode mode), (stream, mode))

SIM_API_PTSZ(cuStreamBeginCaptureToGraph,
             (CUstream stream, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *edges,
              size_t count, CUstreamCaptureMode mode),
             (stream, graph, deps, edges, count, mode))
{
    struct sim_graph *g = sim_graph_of(graph);
    (void)edges;
    return g ? begin(stream, g, deps, count, mode) : CUDA_ERROR_INVALID_VALUE;
}

SIM_API_PTSZ(cuStreamBeginRecaptureToGraph,
             (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
              CUgraphRecaptureCallback callback, void *data),
             (stream, mode, graph, callback, data))
{
    struct sim_graph *g = sim_graph_of(graph);
    struct sim_stream *s;
    (void)callback, (void)data;
    CUresult r = g ? begin(stream, g, NULL, 0, mode) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && sim_stream_find(stream, &s) == CUDA_SUCCESS)
        s->capture->again = true;
    return r;
}

SIM_API_PTSZ(cuStreamEndCapture, (CUstream stream, CUgraph *out), (stream, out))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_capture *c = s->capture;
    if (!out || !c)
        return out ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (c->origin != s)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (c->again && c->done != c->graph->count) {
        r = (CUresult)918; /* CUDA_ERROR_GRAPH_RECAPTURE_FAILURE */
    } else if (sim_capture_unjoined(c)) {
        c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    } else {
        *out = (CUgraph)c->graph;
    }
    sim_capture_close(c);
    return r;
}

static CUresult info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **deps, size_t *count)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r == CUDA_SUCCESS && !status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !s->capture)
        r = sim_capture_implicit_asked(s);
    if (r != CUDA_SUCCESS)
        return r;
    struct sim_capture *c = s->capture;
    *status = c ? c->status : CU_STREAM_CAPTURE_STATUS_NONE;
    if (!c || c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = c->id;
    if (graph)
        *graph = (CUgraph)c->graph;
    if (deps)
        *deps = (const CUgraphNode *)s->tips;
    if (count)
        *count = s->tip_count;
    return CUDA_SUCCESS;
}

SIM_API_PTSZ(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
             (stream, status))
{
    return info(stream, status, NULL, NULL, NULL, NULL);
}

SIM_API_PTSZ(cuStreamGetCaptureInfo,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id))
{
    return info(stream, status, id, NULL, NULL, NULL);
}

SIM_API_PTSZ(cuStreamGetCaptureInfo_v2,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
              const CUgraphNode **deps, size_t *count),
             (stream, status, id, graph, deps, count))
{
    return info(stream, status, id, graph, deps, count);
}

SIM_API_PTSZ(cuStreamGetCaptureInfo_v3,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
              const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count),
             (stream, status, id, graph, deps, edges, count))
{
    if (edges)
        *edges = NULL;
    return info(stream, status, id, graph, deps, count);
}

static CUresult update(CUstream handle, CUgraphNode *deps, size_t count, unsigned flags)
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!s->capture || (count && !deps) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return s->capture ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_ILLEGAL_STATE;
    size_t old = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? s->tip_count : 0;
    struct sim_node **all = malloc((old + count + 1) * sizeof *all);
    for (size_t i = 0; i < old; i++)
        all[i] = s->tips[i];
    for (size_t i = 0; i < count; i++)
        all[old + i] = (struct sim_node *)deps[i];
    sim_capture_tips(s, all, old + count);
    free(all);
    return CUDA_SUCCESS;
}

SIM_API_PTSZ(cuStreamUpdateCaptureDependencies,
             (CUstream stream, CUgraphNode *deps, size_t count, unsigned int flags),
             (stream, deps, count, flags))
{
    return update(stream, deps, count, flags);
}

SIM_API_PTSZ(cuStreamUpdateCaptureDependencies_v2,
             (CUstream stream, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
              unsigned int flags),
             (stream, deps, edges, count, flags))
{
    (void)edges;
    return update(stream, deps, count, flags);
}

SIM_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode))
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = sim_capture_exchange(*mode);
    return CUDA_SUCCESS;
}
