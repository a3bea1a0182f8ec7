/* SPDX-License-Identifier: MIT */
/* Pending work of streams. */
#include "driver/stream.h"

#include "base/clock.h"
#include "base/wait.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/streams.h"

/* Streams made with CU_STREAM_NON_BLOCKING are not ordered with the legacy stream. */
static bool independent(CUstream stream, enum zc_flavour flavour)
{
    unsigned flags = 0;
    return zc_stream_kind_of(stream, flavour) == ZC_STREAM_CREATED &&
           ZC_FLAVOURED(flavour, cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS &&
           (flags & CU_STREAM_NON_BLOCKING);
}

/* *other is the context of a created stream if that is not the current one, else NULL.  Programs
 * may copy through a stream of another device (CUDA Runtime API, "Multi-Device System"). */
static CUresult find_other(CUstream stream, enum zc_flavour flavour, CUcontext *other)
{
    CUcontext mine = NULL, its = NULL;
    *other = NULL;
    if (zc_stream_kind_of(stream, flavour) != ZC_STREAM_CREATED)
        return CUDA_SUCCESS;
    CUresult result = ZC_FLAVOURED(flavour, cuStreamGetCtx)(stream, &its);
    if (result == CUDA_SUCCESS)
        result = zc_real.cuCtxGetCurrent(&mine);
    if (result == CUDA_SUCCESS && its != mine)
        *other = its;
    return result;
}

/* The same; also NULL if the driver does not say. */
static CUcontext other_context(CUstream stream, enum zc_flavour flavour)
{
    CUcontext other;
    find_other(stream, flavour, &other);
    return other;
}

bool zc_stream_here(CUstream stream, enum zc_flavour flavour)
{
    CUcontext other;
    return find_other(stream, flavour, &other) == CUDA_SUCCESS && !other;
}

CUcontext zc_stream_context(CUstream stream, enum zc_flavour flavour)
{
    CUcontext context = other_context(stream, flavour);
    if (!context)
        zc_real.cuCtxGetCurrent(&context);
    return context;
}

/* The legacy stream reports work of all streams that synchronise with it as its own.  Those streams
 * do not report the legacy stream's work. */
bool zc_stream_idle(CUstream stream, enum zc_flavour flavour)
{
    if (!zc_stream_here(stream, flavour))
        return false; /* It synchronises with the legacy stream of another context. */
    if (!independent(stream, flavour))
        stream = CU_STREAM_LEGACY;
    return ZC_FLAVOURED(flavour, cuStreamQuery)(stream) == CUDA_SUCCESS;
}

static CUevent mark_in_context(CUstream stream, enum zc_flavour flavour)
{
    CUevent event = NULL;
    if (zc_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (ZC_FLAVOURED(flavour, cuEventRecord)(event, stream) == CUDA_SUCCESS)
        return event;
    zc_real.cuEventDestroy_v2(event);
    return NULL;
}

/* An event belongs to the context of its stream. */
CUevent zc_stream_mark(CUstream stream, enum zc_flavour flavour)
{
    CUcontext other = other_context(stream, flavour);
    if (other && zc_real.cuCtxPushCurrent_v2(other) != CUDA_SUCCESS)
        return NULL;
    CUevent event = mark_in_context(stream, flavour);
    zc_stream_lent(other);
    return event;
}

CUresult zc_stream_wait_mark(CUevent event)
{
    CUresult result = zc_real.cuEventSynchronize(event);
    zc_real.cuEventDestroy_v2(event);
    return result;
}

/* Waits for a stream.  The legacy stream and independent ones can be waited for directly.  For
 * others an event is recorded: it takes part in the implicit order as a copy would, and the wait
 * includes no later work. */
static CUresult drain(CUstream stream, enum zc_flavour flavour)
{
    enum zc_stream_kind kind = zc_stream_kind_of(stream, flavour);
    bool direct = kind == ZC_STREAM_LEGACY || kind == ZC_STREAM_DEFAULT;
    CUevent event = direct || independent(stream, flavour) ? NULL : zc_stream_mark(stream, flavour);
    return event ? zc_stream_wait_mark(event) : ZC_FLAVOURED(flavour, cuStreamSynchronize)(stream);
}

CUresult zc_stream_drain(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = drain(stream, flavour);
    zc_capture_restore(before);
    return result;
}

static unsigned long long id_of(CUstream stream, enum zc_flavour flavour)
{
    unsigned long long id = 0;
    bool told = ZC_FLAVOURED(flavour, cuStreamGetId)(stream, &id) == CUDA_SUCCESS;
    return told ? id : 0;
}

static unsigned next_number(void)
{
    static unsigned last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* The kernel reuses the id of a thread that has ended. */
static unsigned thread_number(void)
{
    static __thread unsigned own;
    if (!own)
        own = next_number();
    return own;
}

void zc_stream_identify(CUstream stream, enum zc_flavour flavour, struct zc_stream_ident *out)
{
    bool threads = zc_stream_kind_of(stream, flavour) == ZC_STREAM_PER_THREAD;
    if (zc_capture_any()) {
        *out = (struct zc_stream_ident){.thread = next_number()};
        return;
    }
    *out = (struct zc_stream_ident){.handle = stream,
                                    .flavour = flavour,
                                    .context = zc_stream_context(stream, flavour),
                                    .thread = threads ? thread_number() : 0,
                                    .id = id_of(stream, flavour)};
}

bool zc_stream_same(const struct zc_stream_ident *a, const struct zc_stream_ident *b)
{
    return a->handle == b->handle && a->context == b->context && a->id == b->id &&
           a->thread == b->thread && a->flavour == b->flavour;
}

CUresult zc_stream_device(CUstream stream, enum zc_flavour flavour, CUdevice *device)
{
    CUcontext other;
    CUresult result = find_other(stream, flavour, &other);
    if (result == CUDA_SUCCESS && other)
        result = zc_real.cuCtxPushCurrent_v2(other);
    if (result != CUDA_SUCCESS)
        return result;
    result = zc_real.cuCtxGetDevice(device);
    zc_stream_lent(other);
    return result;
}

CUresult zc_stream_enter(CUcontext context, bool *entered)
{
    CUcontext current = NULL;
    zc_real.cuCtxGetCurrent(&current);
    CUresult result = current == context ? CUDA_SUCCESS : zc_real.cuCtxPushCurrent_v2(context);
    *entered = current != context && result == CUDA_SUCCESS;
    return result;
}

/* cuCtxSynchronize ends each capture in its context, whatever the thread's capture mode.  cuMemFree
 * waits for as much, and lets a thread in relaxed mode do so (tests/gpu/capture_facts.h200.txt). */
static CUresult wait_beside_capture(void)
{
    CUdeviceptr block;
    CUresult result = zc_real.cuMemAlloc_v2(&block, 1);
    return result == CUDA_SUCCESS ? zc_real.cuMemFree_v2(block) : result;
}

CUresult zc_stream_wait_context(CUcontext context)
{
    bool entered;
    CUresult result = zc_stream_enter(context, &entered);
    if (result == CUDA_SUCCESS)
        result = zc_capture_any() ? wait_beside_capture() : zc_real.cuCtxSynchronize();
    zc_stream_lent(entered);
    return result;
}

CUresult zc_stream_state(void)
{
    CUresult result = zc_capture_any() ? CUDA_SUCCESS : zc_real.cuStreamQuery(CU_STREAM_LEGACY);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult zc_stream_refusal(void)
{
    CUresult state = zc_stream_state();
    return state == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : state;
}

bool zc_stream_lend(CUcontext context)
{
    CUcontext current = NULL;
    bool none = context && zc_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && !current;
    return none && zc_real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void zc_stream_lent(bool lent)
{
    CUcontext popped;
    if (lent)
        zc_real.cuCtxPopCurrent_v2(&popped);
}

/* Retains the context for a moment, because no other call returns its handle. */
CUcontext zc_stream_primary(int device)
{
    CUcontext context = NULL;
    unsigned flags;
    int active = 0;
    if (zc_real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
        zc_real.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    zc_real.cuDevicePrimaryCtxRelease_v2(device);
    return context;
}

/* The legacy stream covers all streams except those that are independent of it. */
static CUevent mark_context(CUcontext context)
{
    bool entered;
    if (zc_stream_enter(context, &entered) != CUDA_SUCCESS)
        return NULL;
    CUevent event = mark_in_context(CU_STREAM_LEGACY, ZC_LEGACY);
    zc_stream_lent(entered);
    return event;
}

CUresult zc_stream_drain_context(CUcontext context)
{
    CUevent event = mark_context(context);
    return event ? zc_stream_wait_mark(event) : zc_stream_wait_context(context);
}

/* With the lock no other thread puts work that waits for the CPU in between. */
CUevent zc_stream_mark_context(CUcontext context)
{
    CUevent event = NULL;
    if (!zc_driver_lock())
        return NULL;
    if (!zc_capture_any() && !zc_await_any() && zc_streams_idle())
        event = mark_context(context);
    zc_driver_unlock();
    return event;
}

/* CUDA_SUCCESS if nothing runs.  Streams that the legacy stream covers wait for a mark in it, as
 * the mark does for them.  So there is none before that stream says that it has nothing to do:
 * where a kernel waits for the program, the program may wait for what it launches next. */
static CUresult look_for_work(CUevent *mark)
{
    CUresult result = zc_streams_known() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS && !*mark)
        result = zc_real.cuStreamQuery(CU_STREAM_LEGACY);
    if (result != CUDA_SUCCESS)
        return result;
    *mark = *mark ? *mark : mark_in_context(CU_STREAM_LEGACY, ZC_LEGACY);
    result = *mark ? zc_real.cuEventQuery(*mark) : CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_SUCCESS && !zc_streams_idle() ? CUDA_ERROR_NOT_READY : result;
}

bool zc_stream_rests(unsigned most_ms)
{
    uint64_t start = zc_ticks();
    CUevent mark = NULL;
    CUresult result;
    while ((result = look_for_work(&mark)) == CUDA_ERROR_NOT_READY &&
           zc_ticks_to_ns(zc_ticks() - start) < most_ms * UINT64_C(1000000))
        zc_nap(50);
    if (mark)
        zc_real.cuEventDestroy_v2(mark);
    return result == CUDA_SUCCESS;
}

CUresult zc_stream_call(CUstream stream, enum zc_flavour flavour, CUhostFn fn, void *data)
{
    return ZC_FLAVOURED(flavour, cuLaunchHostFunc)(stream, fn, data);
}

enum zc_stream_kind zc_stream_kind_of(CUstream stream, enum zc_flavour flavour)
{
    if (stream == CU_STREAM_LEGACY)
        return ZC_STREAM_LEGACY;
    if (stream == CU_STREAM_PER_THREAD || (!stream && flavour == ZC_PER_THREAD))
        return ZC_STREAM_PER_THREAD;
    return stream ? ZC_STREAM_CREATED : ZC_STREAM_DEFAULT;
}
