/* SPDX-License-Identifier: MIT */
/* A capture in progress: shared by what the driver's calls do to it and by the calls that begin,
 * ask and end. */
#ifndef SIM_CAPTURE_STATE_H
#define SIM_CAPTURE_STATE_H

#include "capture.h"

/* One capture. Guarded by sim_lock. */
struct sim_capture {
    struct sim_capture *next;     /* all captures in progress */
    struct sim_graph *graph;      /* that it builds */
    bool own_graph;               /* made by the capture, not by the program */
    CUstreamCaptureMode mode;     /* of cuStreamBeginCapture */
    CUstreamCaptureStatus status; /* active or invalidated */
    unsigned long long id;        /* cuStreamGetCaptureInfo */
    struct sim_stream *origin;    /* where it began and must end */
    pthread_t thread;             /* that began it */
    bool again;                   /* the nodes that are there get their work anew, */
    size_t done;                  /* in this order */
};

/* Begins a capture on a stream, into a graph of the program's or a new one. */
struct sim_capture *sim_capture_open(struct sim_stream *stream, CUstreamCaptureMode mode,
                                     struct sim_graph *graph);

/* True where a forked stream was not joined to the origin again. */
bool sim_capture_unjoined(const struct sim_capture *capture);

/* Ends a capture; the graph of an invalidated one is freed. */
void sim_capture_close(struct sim_capture *capture);

/* Sets the nodes that the next operation of a stream depends on; a copy is kept. */
void sim_capture_tips(struct sim_stream *stream, struct sim_node *const *tips, size_t count);

/* Sets the calling thread's mode and returns the old one. */
CUstreamCaptureMode sim_capture_exchange(CUstreamCaptureMode mode);

#endif
