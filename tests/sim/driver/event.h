/* SPDX-License-Identifier: MIT */
/* Events: a mark in the order of a stream. */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "stream.h"

/* One event. Guarded by sim_lock. */
struct sim_event {
    struct sim_event *next;      /* all live events */
    struct sim_context *ctx;     /* where it was made */
    unsigned flags;              /* CU_EVENT_* */
    bool recorded;               /* recorded at least once */
    bool destroyed;              /* no handle any more */
    unsigned refs;               /* the program's and those of queued work */
    struct sim_point point;      /* the latest record */
    uint64_t time_ns;            /* when the latest record was reached, by sim_kernel_time_ns() */
    struct sim_capture *capture; /* recorded in this capture, or NULL */
    struct sim_node **tips;      /* owned: nodes of the capture that the record stands for */
    size_t tip_count;            /* how many */
};

/* The event of a handle, or NULL. */
struct sim_event *sim_event_of(CUevent handle);

void sim_event_ref(struct sim_event *event);
void sim_event_unref(struct sim_event *event);

/* Queues a record on a stream that is not in capture. */
CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream);

/* The record is reached: takes the time. Called without sim_lock. */
void sim_event_reached(struct sim_event *event);

/* Waits on the calling thread for the latest record. Called without sim_lock. */
void sim_event_wait(struct sim_event *event);

/* A capture ends: events recorded in it are as good as never recorded. */
void sim_events_capture_end(const struct sim_capture *capture);

/* Number of live events. */
size_t sim_events_count(void);

#endif
