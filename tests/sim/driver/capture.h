/* SPDX-License-Identifier: MIT */
/* Stream capture as the rest of the driver sees it. */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "stream.h"

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, with the capture invalidated, where a capture forbids the
 * calling thread a potentially unsafe call (cuThreadExchangeStreamCaptureMode in the CUDA driver
 * API). */
CUresult sim_capture_unsafe_call(void);

/* The same for a call that waits for or asks about a stream in capture; an illegal one invalidates
 * that capture. */
CUresult sim_capture_unsafe_stream(struct sim_stream *stream);

/* The same for a call that waits for a whole context: it invalidates what its streams capture, in
 * any mode of the thread (tests/gpu/capture_facts.h200.txt). */
CUresult sim_capture_unsafe_context(struct sim_context *ctx);

/* Adds work to the graph of the capture that the stream is in. Takes over what the work owns. */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work);

/* cuMemAllocAsync and cuMemFreeAsync on a stream in capture: nodes that allocate and free. */
struct sim_pool;
CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_pool *pool, size_t size,
                           CUdeviceptr *dptr);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr dptr);

/* A stream ends: its capture, if any, is invalid. */
void sim_capture_stream_end(struct sim_stream *stream);

/* cuEventRecord and cuStreamWaitEvent with a capture involved: fork and join. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);

/* Work on the legacy stream while a blocking stream of the context captures is
 * CUDA_ERROR_STREAM_CAPTURE_IMPLICIT. */
CUresult sim_capture_implicit(struct sim_stream *stream);

/* The same for questions, which invalidate nothing (CUDA Driver API, cuStreamIsCapturing). */
CUresult sim_capture_implicit_asked(struct sim_stream *stream);

#endif
