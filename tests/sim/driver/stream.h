/* SPDX-License-Identifier: MIT */
/* Streams and the work on them. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "driver.h"
#include "../batch_node.h"
#include "../sim.h"

struct sim_function;
struct sim_event;
struct sim_graph;
struct sim_graph_exec;
struct sim_capture;
struct sim_node;
struct sim_bodies;
struct sim_batch;

/* Kinds of operations. The first values equal CUgraphNodeType, because captured work becomes
 * nodes. */
enum sim_work_kind {
    SIM_WORK_KERNEL = CU_GRAPH_NODE_TYPE_KERNEL,
    SIM_WORK_COPY = CU_GRAPH_NODE_TYPE_MEMCPY,
    SIM_WORK_SET = CU_GRAPH_NODE_TYPE_MEMSET,
    SIM_WORK_HOST = CU_GRAPH_NODE_TYPE_HOST,
    SIM_WORK_CHILD = CU_GRAPH_NODE_TYPE_GRAPH,
    SIM_WORK_EMPTY = CU_GRAPH_NODE_TYPE_EMPTY,
    SIM_WORK_EVENT_WAIT = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
    SIM_WORK_EVENT_RECORD = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
    SIM_WORK_ALLOC = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
    SIM_WORK_FREE = CU_GRAPH_NODE_TYPE_MEM_FREE,
    SIM_WORK_CONDITIONAL = CU_GRAPH_NODE_TYPE_CONDITIONAL,
    SIM_WORK_BATCH = SIM_BATCH_NODE,
    SIM_WORK_VALUE = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, /* cuStreamWriteValue32/64 and WaitValue */
    SIM_WORK_CALLBACK = 100,                          /* cuStreamAddCallback */
    SIM_WORK_GRAPH                                    /* cuGraphLaunch */
};

/* One operation. Copied by value; what it owns is freed by sim_work_free. */
struct sim_work {
    enum sim_work_kind kind; /* which member holds */
    union {
        struct {
            struct sim_function *function; /* what to run */
            struct sim_launch shape;       /* grid */
            void **args;                   /* owned: pointers and, behind them, the copied values */
        } kernel;
        struct {
            CUDA_MEMCPY3D
            shape;         /* source, destination, extent; a linear copy has Height and Depth 1 */
            void *staging; /* owned: the packed bytes of a source that the CPU read, or NULL */
            void *landing; /* where the bytes for a target that the CPU will write are packed, the
                              caller's, or NULL */
            int device;    /* whose rights count, but where contexts are named */
            int link;      /* whose link it takes to the host: the stream's */
            bool node;     /* in a graph; then: */
            unsigned char operand[2];         /* what it copies to and from (copy.c) */
            bool peer;                        /* between two devices' memory */
            bool frail;                       /* fails where it copies pageable memory */
            unsigned long long registered[2]; /* BUFFER_ID of registered memory that it copies from
                                                 and to, or 0 */
        } copy;
        struct {
            CUDA_MEMSET_NODE_PARAMS shape; /* destination, value, extent */
            int device;                    /* of the stream's context */
        } set;
        struct {
            CUhostFn fn; /* to call */
            void *data;  /* its argument, the program's */
        } host;
        struct {
            CUstreamCallback fn; /* to call */
            CUstream stream;     /* its first argument */
            void *data;          /* its last argument, the program's */
        } callback;
        struct sim_graph *child;   /* owned: nodes of a child graph */
        struct sim_bodies *bodies; /* owned: graphs of a conditional node */
        struct sim_batch *batch;   /* owned: several copies */
        struct sim_event *event;   /* to record or to wait for */
        struct {
            CUDA_MEM_ALLOC_NODE_PARAMS
            params; /* request and, in dptr, the address that all launches get */
        } alloc;
        CUdeviceptr free; /* block to give back */
        struct {
            CUdeviceptr address; /* where */
            uint64_t value;      /* what */
            unsigned flags;      /* CU_STREAM_WAIT_VALUE_* */
            bool wide;           /* 64 bits */
            bool write;          /* else it waits */
        } value;
        struct sim_graph_exec *exec; /* graph to launch, referenced */
    } u;
};

/* A place in a stream's order: reached when `completed` of the stream is at least seq. */
struct sim_point {
    struct sim_stream *stream; /* counted reference; NULL is a point that is always reached */
    uint64_t seq;              /* position */
};

/* One queued operation. */
struct sim_op {
    struct sim_op *next;     /* later in the stream */
    struct sim_work work;    /* what to do, owned */
    struct sim_point *after; /* owned: other streams' work that must be done first */
    size_t after_count;      /* how many */
    CUresult *result;        /* where a waiting caller takes the result, or NULL */
};

/* One stream. Guarded by sim_lock. */
struct sim_stream {
    struct sim_stream *next; /* of the context */
    struct sim_context *ctx; /* where it runs */
    unsigned flags;          /* CU_STREAM_NON_BLOCKING or 0 */
    int priority;            /* as asked, clamped */
    CUstream builtin;        /* CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or NULL for a created one */
    unsigned long long id;   /* cuStreamGetId */
    unsigned refs;           /* the program's, the worker's and those of points */
    bool destroyed;          /* no handle any more */
    bool busy;               /* an operation is running */
    bool worker;             /* a thread serves it */
    struct sim_op *head, *tail;     /* queue */
    uint64_t submitted;             /* operations given so far */
    uint64_t completed;             /* operations done so far */
    pthread_cond_t arrived;         /* signalled for the worker */
    struct sim_capture *capture;    /* capture that it takes part in, or NULL */
    struct sim_node **tips;         /* owned: nodes that the next captured operation depends on */
    size_t tip_count;               /* how many */
    CUsynchronizationPolicy policy; /* CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY */
};

/* Threads that do the work of streams. */
extern unsigned sim_stream_workers;

/* The stream of a handle in a flavour-aware call (NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a
 * created one): CUDA_ERROR_INVALID_HANDLE (or INVALID_CONTEXT) where there is none. *out is set on
 * success alone. */
CUresult sim_stream_find(CUstream handle, struct sim_stream **out);

/* The same for a call that needs no current context where the program made the stream (measured on
 * an H200 for cuStreamSynchronize and cuMemFreeAsync). */
CUresult sim_stream_find_bare(CUstream handle, struct sim_stream **out);

/* A new stream of a context with one reference, the program's. */
struct sim_stream *sim_stream_new(struct sim_context *ctx, CUstream builtin, unsigned flags,
                                  int priority);

/* Takes a stream from its context; it is freed once its work is done. */
void sim_stream_end(struct sim_stream *stream);

void sim_stream_ref(struct sim_stream *stream);
void sim_stream_unref(struct sim_stream *stream);

/* Queues `work`, or adds it to the capture that the stream is in, and takes over what the work
 * owns, also on failure. */
CUresult sim_submit(struct sim_stream *stream, struct sim_work *work);

/* Runs `work` in the order of the stream and returns its result; on the calling thread where the
 * stream is idle. */
CUresult sim_run(struct sim_stream *stream, struct sim_work *work);

/* Whether new work of the stream has nothing to wait for. */
bool sim_stream_idle(const struct sim_stream *stream);

/* The point behind everything submitted so far; holds a reference. */
struct sim_point sim_stream_point(struct sim_stream *stream);

/* Whether a point is reached; waits until it is; drops its reference. */
bool sim_point_reached(const struct sim_point *point);
void sim_point_wait(const struct sim_point *point);
void sim_point_drop(struct sim_point *point);

/* Makes later work of `stream` wait for `point`, whose reference is taken over. */
void sim_stream_wait_point(struct sim_stream *stream, struct sim_point point);

/* Waits for all work of a stream; the context's sticky error. */
CUresult sim_stream_wait(struct sim_stream *stream);

/* Does the work on the calling thread, without sim_lock. */
CUresult sim_work_run(struct sim_work *work, struct sim_context *ctx);

/* Whether the calling thread is in a function of cuLaunchHostFunc or cuStreamAddCallback. */
bool sim_in_host_function(void);

/* Frees what the work owns. */
void sim_work_free(struct sim_work *work);

/* A copy of the work that owns copies. Staged copies and graph launches can't be cloned. */
struct sim_work sim_work_clone(const struct sim_work *work);

/* Calls fn(data) with SIGSEGV and SIGBUS turned into CUDA_ERROR_ILLEGAL_ADDRESS. */
CUresult sim_guarded(CUresult (*fn)(void *), void *data);

/* Ends the process by SIGSEGV, as the driver does with what it did not expect. */
void sim_crash(void);

/* Puts the fault handler in place; called by cuInit. */
void sim_guard_start(void);

/* Puts it over a handler that the program installed since. */
void sim_guard_ensure(void);

#endif
