/* SPDX-License-Identifier: MIT */
/* Pending work of streams. */
#include "driver/stream.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/lock.h"

/* The driver notices a little later that all work before an event of a context has ended. */
#define NOTICED_NS UINT64_C(20000)

/* How long a call waits for the GPU to come to rest, and how many calls do so in a row where it
 * does not. */
#define RESTS_MS 200u
#define VAIN_MOST 5u

static ZC_OWN struct {
    bool independent; /* There was a stream that the legacy one does not cover.  Atomic, */
    bool silent;      /* and so is this: the driver does not tell of those (before CUDA 12.5). */
} streams;

void zc_stream_made(unsigned flags)
{
    if (flags & CU_STREAM_NON_BLOCKING)
        __atomic_store_n(&streams.independent, true, __ATOMIC_RELAXED);
}

bool zc_stream_covered(void)
{
    return !__atomic_load_n(&streams.independent, __ATOMIC_RELAXED);
}

bool zc_stream_rest_known(void)
{
    return !__atomic_load_n(&streams.silent, __ATOMIC_RELAXED);
}

/* Streams made with CU_STREAM_NON_BLOCKING are not ordered with the legacy stream. */
static bool is_independent(CUstream stream, enum zc_flavour flavour)
{
    unsigned flags = 0;
    return zc_stream_kind_of(stream, flavour) == ZC_STREAM_CREATED &&
           ZC_FLAVOURED(flavour, cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS &&
           (flags & CU_STREAM_NON_BLOCKING);
}

/* The legacy stream reports work of all streams that synchronise with it as its own.  Those streams
 * do not report the legacy stream's work. */
bool zc_stream_idle(CUstream stream, enum zc_flavour flavour)
{
    ZC_CAPTURE_BARRED barred = zc_capture_bar();
    if (zc_capture_any() || !zc_stream_here(stream, flavour))
        return false; /* The latter synchronises with the legacy stream of another context. */
    if (!is_independent(stream, flavour))
        stream = CU_STREAM_LEGACY;
    return ZC_FLAVOURED(flavour, cuStreamQuery)(stream) == CUDA_SUCCESS;
}

/* Waits for a stream.  The legacy stream and independent ones can be waited for directly.  For
 * others an event is recorded: it takes part in the implicit order as a copy would, and the wait
 * includes no later work. */
static CUresult drain_stream(CUstream stream, enum zc_flavour flavour)
{
    enum zc_stream_kind kind = zc_stream_kind_of(stream, flavour);
    bool direct = kind == ZC_STREAM_LEGACY || kind == ZC_STREAM_DEFAULT;
    CUevent event =
        direct || is_independent(stream, flavour) ? NULL : zc_stream_mark(stream, flavour);
    return event ? zc_stream_wait_mark(event) : ZC_FLAVOURED(flavour, cuStreamSynchronize)(stream);
}

CUresult zc_stream_drain(CUstream stream, enum zc_flavour flavour)
{
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = drain_stream(stream, flavour);
    zc_capture_restore(before);
    return result;
}

uint64_t zc_stream_id(CUstream stream, enum zc_flavour flavour)
{
    unsigned long long id = 0;
    bool told =
        !zc_capture_any() && ZC_FLAVOURED(flavour, cuStreamGetId)(stream, &id) == CUDA_SUCCESS;
    return told ? id : 0;
}

/* cuCtxSynchronize ends each capture in its context, whatever the thread's capture mode.  cuMemFree
 * waits for as much, and lets a thread in relaxed mode do so (tests/gpu/capture_facts.h200.txt). */
static CUresult wait_beside_capture(void)
{
    CUdeviceptr block;
    return zc_real.cuMemAlloc_v2(&block, 1) ?: zc_real.cuMemFree_v2(block);
}

CUresult zc_stream_state(void)
{
    CUcontext current = NULL;
    ZC_CAPTURE_BARRED barred = zc_capture_bar();
    bool captures = zc_capture_any();
    CUresult result =
        captures ? zc_real.cuCtxGetCurrent(&current) : zc_real.cuStreamQuery(CU_STREAM_LEGACY);
    if (captures && result == CUDA_SUCCESS && !current)
        result = CUDA_ERROR_INVALID_CONTEXT;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult zc_stream_refusal(void)
{
    CUresult state = zc_stream_state();
    return state == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : state;
}

CUresult zc_stream_drain_context(CUcontext context)
{
    bool pushed;
    CUresult result = zc_context_push(context, &pushed);
    if (result == CUDA_SUCCESS)
        result = zc_stream_drain(CU_STREAM_LEGACY, ZC_LEGACY);
    zc_context_pop(pushed);
    return result;
}

/* An event behind the work of all streams of the current context, also of destroyed ones; none
 * beside a capture, which such a record would end in any mode of the thread (CUDA Driver API). */
static CUevent mark_all(void)
{
    CUcontext context = NULL;
    CUevent event = NULL;
    if (!zc_stream_rest_known() || zc_capture_any() ||
        zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        zc_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    CUresult result = zc_real.cuCtxRecordEvent(context, event);
    if (result == CUDA_SUCCESS)
        return event;
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        __atomic_store_n(&streams.silent, true, __ATOMIC_RELAXED);
    zc_real.cuEventDestroy_v2(event);
    return NULL;
}

/* cuCtxSynchronize also ends a capture that begins just then, and nothing may keep one from
 * beginning as long as it waits.  An event's end none: it is recorded before any begins. */
static CUresult wait_here(void)
{
    bool barred = zc_capture_bar(), captures = zc_capture_any();
    CUevent event = mark_all();
    zc_capture_unbar(&barred);
    if (!event)
        return captures ? wait_beside_capture() : zc_real.cuCtxSynchronize();
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = zc_stream_wait_mark(event);
    zc_capture_restore(before);
    bool lacks = result == CUDA_ERROR_NOT_SUPPORTED; /* The driver has no such function. */
    return lacks ? zc_real.cuCtxSynchronize() : result;
}

CUresult zc_stream_wait_context(CUcontext context)
{
    bool pushed;
    CUresult result = zc_context_push(context, &pushed);
    if (result == CUDA_SUCCESS)
        result = wait_here();
    zc_context_pop(pushed);
    return result;
}

/* True once the current context rests.  Each record may take room of the driver's as long as a
 * stream has work, so there is one. */
static bool this_rests(unsigned most_ms)
{
    uint64_t start = zc_ticks(), took = 0, most = most_ms * UINT64_C(1000000);
    CUevent event = zc_stream_covered() ? NULL : mark_all();
    CUresult result;
    if (!event && !zc_stream_covered())
        return false;
    most = event && most < NOTICED_NS ? NOTICED_NS : most;
    do {
        if (took > NOTICED_NS)
            zc_nap(50);
        result = event ? zc_real.cuEventQuery(event) : zc_real.cuStreamQuery(CU_STREAM_LEGACY);
        took = zc_ticks_to_ns(zc_ticks() - start);
    } while (result == CUDA_ERROR_NOT_READY && took < most);
    if (event)
        zc_real.cuEventDestroy_v2(event);
    return result == CUDA_SUCCESS;
}

bool zc_stream_rests_in(CUcontext context, unsigned most_ms)
{
    bool pushed;
    if (zc_leaving(context) || zc_context_push(context, &pushed) != CUDA_SUCCESS)
        return false;
    bool rest = this_rests(most_ms);
    zc_context_pop(pushed);
    return rest;
}

static bool others_rest(CUcontext but, unsigned most_ms)
{
    bool known, rest = true;
    CUcontext context = zc_context_at(0, &known);
    for (unsigned i = 1; rest && context; context = zc_context_at(i++, &known))
        rest = context == but || zc_stream_rests_in(context, most_ms);
    return rest && known;
}

static bool stream_rests(unsigned most_ms)
{
    CUcontext context = NULL;
    return this_rests(most_ms) &&
           (zc_stream_covered() ||
            (zc_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && others_rest(context, most_ms)));
}

bool zc_stream_come_to_rest(void)
{
    static ZC_OWN unsigned in_vain; /* Calls since the last one that was not. */
    bool rest = stream_rests(in_vain < VAIN_MOST ? RESTS_MS : 0);
    in_vain = rest ? 0 : in_vain + 1;
    return rest;
}

bool zc_stream_all_rest(CUcontext first, unsigned most_ms)
{
    return zc_stream_rests_in(first, most_ms) && others_rest(first, most_ms);
}

bool zc_stream_others_rest(CUcontext but, unsigned most_ms)
{
    ZC_DRIVER_HELD mine = zc_driver_lock();
    return !zc_capture_any() && others_rest(but, most_ms);
}

bool zc_stream_may_wait(unsigned most_ms)
{
    return !zc_await_any() || zc_stream_others_rest(NULL, most_ms);
}
