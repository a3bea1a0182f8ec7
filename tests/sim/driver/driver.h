/* SPDX-License-Identifier: MIT */
/* State that all parts of the simulated driver share: the lock, the devices, the contexts. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "call.h"
#include <pthread.h>

#define SIM_MAX_DEVICES 8
#define SIM_PAGE ((size_t)2 << 20) /* granularity of device memory and of VMM, bytes */
#define SIM_MAX_PITCH 0x7fffffff   /* CU_DEVICE_ATTRIBUTE_MAX_PITCH, bytes */

struct sim_stream;
struct sim_block;
struct sim_pool;

/* One simulated GPU. */
struct sim_device {
    size_t total;                /* memory, bytes */
    CUresult failed;             /* error of work that failed, or CUDA_SUCCESS: all contexts of the
                                    device, new ones too, return it from then on, and no reset
                                    helps (measured; that other devices go on was not) */
    size_t own;                  /* bytes in blocks, chunks, handles, arrays and managed memory */
    size_t alone;                /* the same, and what SIM_TAKEN_MIB says; */
    size_t *used;                /* that, or what all processes have in SIM_BESIDE.  Atomic */
    struct sim_context *primary; /* its primary context, made at the first retain */
    struct sim_pool *default_pool; /* made at start */
    struct sim_pool *current_pool; /* what cuMemAllocAsync uses */
    struct sim_chunk *spare;       /* an empty chunk, counted as free, to save its mapping */
    struct sim_chunk *chunks;      /* 2 MiB chunks for small blocks */
};

/* One context. Never freed, so that a stale handle is still recognised. */
struct sim_context {
    struct sim_context *next;    /* all contexts ever made */
    int device;                  /* ordinal */
    bool alive;                  /* false after destroy, reset or the last release */
    bool primary;                /* the device's primary context */
    unsigned retained;           /* primary: references */
    unsigned attached;           /* of another one: references behind its maker's */
    struct sim_context *base;    /* of a green context: the primary one, whose memory it uses */
    unsigned processors;         /* of a green context: multiprocessors */
    unsigned flags;              /* CU_CTX_* */
    unsigned version;            /* cuCtxGetApiVersion */
    unsigned long long id;       /* cuCtxGetId */
    struct sim_stream *streams;  /* live streams, the default ones among them */
    struct sim_stream *legacy;   /* the legacy default stream */
    bool peer[SIM_MAX_DEVICES];  /* kernels may touch that device's memory */
    size_t limits[CU_LIMIT_MAX]; /* cuCtxSetLimit */
    CUfunc_cache cache;          /* cuCtxSetCacheConfig */
};

extern pthread_mutex_t
    sim_lock; /* guards every table of the driver; the only lock order is sim_lock alone */
extern pthread_cond_t sim_progress; /* broadcast when an operation completes */
extern struct sim_device sim_devices[SIM_MAX_DEVICES];
extern int sim_device_count;             /* 1 to SIM_MAX_DEVICES after sim_devices_start */
extern struct sim_context *sim_contexts; /* all contexts ever made */

void sim_relock(void);
void sim_unlock(void);

/* A fresh number for a context, stream, event, capture or buffer. */
unsigned long long sim_next_id(void);

/* Called once by cuInit with sim_lock held. Reads SIM_DEVICES and SIM_MEMORY_MIB and reserves the
 * address ranges. */
CUresult sim_devices_start(void);

/* Gives back what the process has of devices that it shares with others. */
void sim_devices_end(void);

/* True for an ordinal that exists. */
bool sim_device_valid(CUdevice dev);

/* Takes `bytes` of a device's memory; false where it has not so much, even after trimming the
 * pools. */
bool sim_device_take(int device, size_t bytes);
void sim_device_give(int device, size_t bytes);

/* Value of a device attribute (SIM_ATTR first); CUDA_ERROR_INVALID_VALUE for an unknown one. */
CUresult sim_device_attribute(int *value, int attribute, int device);

/* Whether the device has a capability: its attribute is not 0. */
bool sim_supports(int device, CUdevice_attribute attribute);

/* The calling thread's context: CUDA_ERROR_INVALID_CONTEXT without one,
 * CUDA_ERROR_CONTEXT_IS_DESTROYED for a dead one, or sim_context_error. *ctx is set on success
 * alone. */
CUresult sim_current(struct sim_context **ctx);

/* The same for a call that answers also in a context with an error. */
CUresult sim_current_any(struct sim_context **ctx);

/* The context of a handle (NULL means the current one), or NULL where it is none. */
struct sim_context *sim_context_of(CUcontext handle);

/* Waits for all streams of a device, of all its contexts. */
void sim_device_wait(int device);

/* Waits for all streams of a context; returns sim_context_error. */
CUresult sim_context_wait(struct sim_context *ctx);

/* The error that calls in a context return since work of its device failed, or CUDA_SUCCESS. */
static inline CUresult sim_context_error(const struct sim_context *ctx)
{
    return sim_devices[ctx->device].failed;
}

/* The context that memory, arrays and events made in `ctx` belong to. */
static inline struct sim_context *sim_context_base(struct sim_context *ctx)
{
    return ctx && ctx->base ? ctx->base : ctx;
}

/* Makes the first error of a context's device stick. */
void sim_context_fail(struct sim_context *ctx, CUresult error);

/* sim_current for a call that is not allowed while a capture forbids it:
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is invalidated (CUDA Programming Guide,
 * "Prohibited and Unhandled Operations"). */
CUresult sim_current_unsafe(struct sim_context **ctx);

/* Opens the libraries of SIM_KERNELS, whose constructors register kernels. */
void sim_kernels_open(void);

/* Writes SIM_COPIES and SIM_LEAKS; called by the destructor. */
void sim_traffic_write(void);
void sim_leaks_write(void);

#endif
