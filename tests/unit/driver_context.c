/* SPDX-License-Identifier: MIT */
/* Contexts of streams and devices: events are made in the context of their stream, and the
 * thread's own is current again behind that. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include "base_test.h"

#include <string.h>

#include "real_test.h"

#include "../../shim/driver/context.c"

#define STREAM(n) ((CUstream)(uintptr_t)(0x1000 + (n)))
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x2000 + (n)))
#define EVENT ((CUevent)(uintptr_t)0x3000)
#define NONE STREAM(9) /* No stream. */

/* The driver: stream n is of context n, whose device is n. */
static struct {
    CUcontext stack[4];
    unsigned depth, flags;
    int events, retained;
    CUcontext recorded_in;
    CUstream recorded;
    bool no_current, no_push, no_event, no_record, no_device, no_primary, no_retain, idle, ptsz;
    CUresult waited;
} has;

static CUcontext top(void)
{
    return has.depth ? has.stack[has.depth - 1] : NULL;
}

static CUresult get_current(CUcontext *out)
{
    *out = top();
    return has.no_current ? CUDA_ERROR_DEINITIALIZED : CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (has.no_push)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    has.stack[has.depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out)
{
    assert_true(has.depth > 0);
    *out = has.stack[--has.depth];
    return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *out)
{
    if (stream == NONE)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = CONTEXT((uintptr_t)stream - 0x1000);
    return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *out, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
    if (has.no_event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = EVENT;
    has.events++;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    assert_ptr_equal(event, EVENT);
    has.events--;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    assert_ptr_equal(event, EVENT);
    has.recorded_in = top();
    has.recorded = stream;
    return has.no_record ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult record_ptsz(CUevent event, CUstream stream)
{
    has.ptsz = true;
    return record(event, stream);
}

static CUresult wait_for_event(CUevent event)
{
    assert_true(event == EVENT && has.events == 1);
    return has.waited;
}

static CUresult get_device(CUdevice *out)
{
    *out = (CUdevice)((uintptr_t)top() - 0x2000);
    return has.no_device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = !has.idle;
    assert_int_equal(device, 3);
    return has.no_primary ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult primary_retain(CUcontext *out, CUdevice device)
{
    *out = CONTEXT(device);
    has.retained += !has.no_retain;
    return has.no_retain ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult primary_release(CUdevice device)
{
    assert_int_equal(device, 3);
    has.retained--;
    return CUDA_SUCCESS;
}

/* The thread's own context is that of device 1. */
static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxPushCurrent_v2 = push;
    zc_real.cuCtxPopCurrent_v2 = pop;
    zc_real.cuStreamGetCtx = stream_context;
    zc_real.cuStreamGetCtx_ptsz = stream_context;
    zc_real.cuEventCreate = create_event;
    zc_real.cuEventDestroy_v2 = destroy_event;
    zc_real.cuEventRecord = record;
    zc_real.cuEventRecord_ptsz = record_ptsz;
    zc_real.cuEventSynchronize = wait_for_event;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuDevicePrimaryCtxGetState = primary_state;
    zc_real.cuDevicePrimaryCtxRetain = primary_retain;
    zc_real.cuDevicePrimaryCtxRelease_v2 = primary_release;
    push(CONTEXT(1));
    return 0;
}

static void streams_are_told_apart_by_their_handles(void **state)
{
    (void)state;
    assert_int_equal(zc_stream_kind_of(CU_STREAM_LEGACY, ZC_PER_THREAD), ZC_STREAM_LEGACY);
    assert_int_equal(zc_stream_kind_of(CU_STREAM_PER_THREAD, ZC_LEGACY), ZC_STREAM_PER_THREAD);
    assert_int_equal(zc_stream_kind_of(NULL, ZC_PER_THREAD), ZC_STREAM_PER_THREAD);
    assert_int_equal(zc_stream_kind_of(NULL, ZC_LEGACY), ZC_STREAM_DEFAULT);
    assert_int_equal(zc_stream_kind_of(STREAM(1), ZC_LEGACY), ZC_STREAM_CREATED);
    assert_int_equal(zc_stream_kind_of(STREAM(1), ZC_PER_THREAD), ZC_STREAM_CREATED);
}

static void a_stream_is_here_where_its_context_is_current(void **state)
{
    (void)state;
    assert_true(zc_stream_here(STREAM(1), ZC_LEGACY));
    assert_true(zc_stream_here(STREAM(1), ZC_PER_THREAD));
    assert_false(zc_stream_here(STREAM(2), ZC_LEGACY));
    assert_false(zc_stream_here(NONE, ZC_LEGACY));
    assert_true(zc_stream_here(NULL, ZC_LEGACY)); /* The default one is the current context's. */
    assert_ptr_equal(zc_stream_context(STREAM(2), ZC_LEGACY), CONTEXT(2));
    assert_ptr_equal(zc_stream_context(STREAM(1), ZC_LEGACY), CONTEXT(1));
    assert_ptr_equal(zc_stream_context(NULL, ZC_LEGACY), CONTEXT(1));
    has.no_current = true;
    assert_false(zc_stream_here(STREAM(1), ZC_LEGACY));
    assert_false(zc_stream_here(STREAM(2), ZC_LEGACY));
    assert_true(zc_stream_here(CU_STREAM_LEGACY, ZC_LEGACY));
}

static void an_event_is_made_in_the_context_of_its_stream(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 2; i++) {
        assert_ptr_equal(zc_stream_mark(STREAM(i), ZC_LEGACY), EVENT);
        assert_true(has.recorded_in == CONTEXT(i) && has.recorded == STREAM(i) && !has.ptsz);
        assert_true(has.depth == 1 && has.events == 1);
        has.waited = i == 1 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
        assert_int_equal(zc_stream_wait_mark(EVENT), has.waited);
        assert_int_equal(has.events, 0);
    }
    assert_ptr_equal(zc_stream_mark(NULL, ZC_PER_THREAD), EVENT);
    assert_true(has.recorded_in == CONTEXT(1) && !has.recorded && has.ptsz);
}

static void where_the_driver_refuses_there_is_no_event(void **state)
{
    (void)state;
    has.no_push = true;
    assert_null(zc_stream_mark(STREAM(2), ZC_LEGACY));
    assert_null(has.recorded_in);
    assert_non_null(zc_stream_mark(STREAM(1), ZC_LEGACY));
    has.no_push = false;
    has.events = 0;
    has.no_record = true;
    assert_null(zc_stream_mark(STREAM(2), ZC_LEGACY));
    assert_int_equal(has.events, 0);
    has.no_event = true;
    assert_null(zc_stream_mark(STREAM(2), ZC_LEGACY));
    assert_true(has.events == 0 && has.depth == 1);
}

static void the_device_of_a_stream_is_its_contexts(void **state)
{
    CUdevice device = 9;
    (void)state;
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(zc_stream_device(STREAM(i), ZC_LEGACY, &device), CUDA_SUCCESS);
        assert_true(device == (CUdevice)i && has.depth == 1);
    }
    assert_int_equal(zc_stream_device(NONE, ZC_LEGACY, &device), CUDA_ERROR_INVALID_HANDLE);
    has.no_device = true;
    assert_int_equal(zc_stream_device(STREAM(2), ZC_LEGACY, &device), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(has.depth, 1);
    has.no_push = true;
    device = 9;
    assert_int_equal(zc_stream_device(STREAM(2), ZC_LEGACY, &device),
                     CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_true(device == 9 && has.depth == 1);
}

static void a_context_is_made_current_where_another_is(void **state)
{
    bool pushed = true;
    (void)state;
    assert_int_equal(zc_context_push(CONTEXT(1), &pushed), CUDA_SUCCESS);
    assert_true(!pushed && has.depth == 1);
    zc_context_pop(pushed);
    assert_int_equal(zc_context_push(CONTEXT(2), &pushed), CUDA_SUCCESS);
    assert_true(pushed && top() == CONTEXT(2));
    zc_context_pop(pushed);
    assert_ptr_equal(top(), CONTEXT(1));
    has.no_push = true;
    assert_int_equal(zc_context_push(CONTEXT(2), &pushed), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_false(pushed);
}

static void a_thread_without_a_context_gets_one(void **state)
{
    (void)state;
    assert_false(zc_context_push_if_none(CONTEXT(2)));
    has.depth = 0;
    assert_false(zc_context_push_if_none(NULL));
    assert_int_equal(has.depth, 0);
    has.no_current = true;
    assert_false(zc_context_push_if_none(CONTEXT(2)));
    has.no_current = false;
    has.no_push = true;
    assert_false(zc_context_push_if_none(CONTEXT(2)));
    has.no_push = false;
    assert_true(zc_context_push_if_none(CONTEXT(2)));
    assert_ptr_equal(top(), CONTEXT(2));
}

static void a_primary_context_is_told_and_not_kept(void **state)
{
    (void)state;
    assert_ptr_equal(zc_context_primary(3), CONTEXT(3));
    assert_int_equal(has.retained, 0);
    has.idle = true; /* Asking would make it. */
    assert_null(zc_context_primary(3));
    has.idle = false;
    has.no_retain = true;
    assert_null(zc_context_primary(3));
    has.no_retain = false;
    has.no_primary = true;
    assert_null(zc_context_primary(3));
    assert_int_equal(has.retained, 0);
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(streams_are_told_apart_by_their_handles),
        T(a_stream_is_here_where_its_context_is_current),
        T(an_event_is_made_in_the_context_of_its_stream),
        T(where_the_driver_refuses_there_is_no_event),
        T(the_device_of_a_stream_is_its_contexts),
        T(a_context_is_made_current_where_another_is),
        T(a_thread_without_a_context_gets_one),
        T(a_primary_context_is_told_and_not_kept),
    };
    return RUN_TESTS(tests);
}
