/* SPDX-License-Identifier: MIT */
/* Whether devices have nothing to do: each context is asked in itself, and the thread's own is
 * current again behind that. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "real_test.h"

#define CONTEXTS 3u

static CUcontext stack[8];
static unsigned depth, asked[CONTEXTS];
static bool busy[CONTEXTS], refuses[CONTEXTS];
static CUresult recorded; /* The answer of a record of a context. */
static unsigned events, records;

static CUcontext context(unsigned i)
{
    return (CUcontext)(uintptr_t)(i + 1);
}

static CUresult get_current(CUcontext *out)
{
    *out = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext c)
{
    if (refuses[(uintptr_t)c - 1])
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out)
{
    assert_true(depth > 0);
    *out = stack[--depth];
    return CUDA_SUCCESS;
}

static CUresult query(CUstream stream)
{
    CUcontext now;

    assert_ptr_equal(stream, CU_STREAM_LEGACY);
    get_current(&now);
    assert_non_null(now);
    asked[(uintptr_t)now - 1]++;
    return busy[(uintptr_t)now - 1] ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult create_event(CUevent *out, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DISABLE_TIMING);
    *out = (CUevent)(uintptr_t)0x50;
    events++;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    assert_ptr_equal(event, (CUevent)(uintptr_t)0x50);
    events--;
    return CUDA_SUCCESS;
}

static CUresult record_context(CUcontext c, CUevent event)
{
    CUcontext now;

    assert_ptr_equal(event, (CUevent)(uintptr_t)0x50);
    get_current(&now);
    assert_ptr_equal(now, c);
    records++;
    return recorded;
}

static CUresult query_event(CUevent event)
{
    assert_ptr_equal(event, (CUevent)(uintptr_t)0x50);
    return query(CU_STREAM_LEGACY);
}

static CUresult legacy_is_not_asked(CUstream stream)
{
    (void)stream;
    fail();
    return CUDA_SUCCESS;
}

static int begin(void **state)
{
    (void)state;
    zc_own_forget();
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxPushCurrent_v2 = push;
    zc_real.cuCtxPopCurrent_v2 = pop;
    zc_real.cuStreamQuery = query;
    zc_real.cuEventCreate = create_event;
    zc_real.cuEventDestroy_v2 = destroy_event;
    zc_real.cuCtxRecordEvent = record_context;
    zc_real.cuEventQuery = query_event;
    recorded = CUDA_SUCCESS;
    events = 0;
    depth = 0;
    push(context(0));
    for (unsigned i = 0; i < CONTEXTS; i++) {
        busy[i] = refuses[i] = false;
        zc_context_note(context(i), true);
    }
    return 0;
}

/* Questions change nothing for the thread. */
static void expect(bool all, bool others)
{
    assert_int_equal(zc_stream_all_rest(context(0), 0), all);
    assert_int_equal(zc_stream_others_rest(context(0), 0), others);
    assert_true(depth == 1 && stack[0] == context(0));
}

static void all_rest_where_no_context_has_work(void **state)
{
    (void)state;
    expect(true, true);
    for (unsigned i = 0; i < CONTEXTS; i++) {
        busy[i] = true;
        expect(false, i == 0);
        busy[i] = false;
    }
    assert_int_equal(zc_stream_all_rest(context(2), 0), true);
    busy[1] = true;
    assert_int_equal(zc_stream_others_rest(context(1), 0), true);
    assert_int_equal(depth, 1);
}

static void a_context_that_cannot_be_asked_does_not_rest(void **state)
{
    struct zc_leaving leaving;

    (void)state;
    refuses[1] = true;
    expect(false, false);
    refuses[1] = false;
    zc_leaving_begin(&leaving, context(2));
    asked[2] = 0;
    expect(false, false);
    assert_int_equal(asked[2], 0); /* Another thread is destroying it. */
    zc_leaving_end(&leaving);
    expect(true, true);
    zc_context_note(context(2), false);
    busy[2] = true;
    expect(true, true);
}

/* A context was made where libzc could not note it. */
static void contexts_that_are_not_known_do_not_rest(void **state)
{
    (void)state;
    zc_driver_lock();
    zc_context_note(context(7), true);
    zc_driver_unlock();
    expect(false, false);
}

static void a_moment_is_waited_for_work_to_end(void **state)
{
    (void)state;
    busy[1] = true;
    asked[1] = 0;
    assert_false(zc_stream_others_rest(context(0), 20));
    assert_true(asked[1] > 1);
}

/* A stream that the legacy one does not cover. */
static void an_event_of_each_context_tells_of_independent_streams(void **state)
{
    (void)state;
    zc_stream_made(0);
    assert_true(zc_stream_covered());
    zc_stream_made(CU_STREAM_NON_BLOCKING);
    assert_false(zc_stream_covered());
    zc_real.cuStreamQuery = legacy_is_not_asked;
    expect(true, true);
    assert_true(zc_stream_rests(0));
    for (unsigned i = 0; i < CONTEXTS; i++) {
        busy[i] = true;
        expect(false, i == 0);
        assert_false(zc_stream_rests(0)); /* Whichever context it is of. */
        busy[i] = false;
    }
    assert_int_equal(events, 0);
    assert_true(zc_stream_rest_known());
    recorded = CUDA_ERROR_NOT_SUPPORTED; /* Before CUDA 12.5. */
    expect(false, false);
    assert_false(zc_stream_rest_known());
    assert_int_equal(events, 0);
}

static void no_event_of_a_context_is_recorded_beside_a_capture(void **state)
{
    (void)state;
    zc_stream_made(CU_STREAM_NON_BLOCKING);
    zc_capture_begun(NULL);
    zc_real.cuStreamQuery = legacy_is_not_asked;
    records = 0;
    expect(false, false);
    assert_int_equal(records, 0);
    zc_capture_ended(NULL);
    expect(true, true);
    assert_true(records > 0);
}

static CUresult tell_id(CUstream stream, unsigned long long *id)
{
    *id = (uintptr_t)stream;
    return stream ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static void a_stream_has_no_id_where_nobody_may_ask_for_it(void **state)
{
    CUstream stream = (CUstream)(uintptr_t)0x70;

    (void)state;
    zc_real.cuStreamGetId = tell_id;
    assert_int_equal(zc_stream_id(stream, ZC_LEGACY), 0x70);
    assert_int_equal(zc_stream_id(NULL, ZC_LEGACY), 0);
    zc_capture_begun(NULL);
    assert_int_equal(zc_stream_id(stream, ZC_LEGACY), 0);
    zc_capture_ended(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_rest_where_no_context_has_work, begin),
        cmocka_unit_test_setup(a_context_that_cannot_be_asked_does_not_rest, begin),
        cmocka_unit_test_setup(contexts_that_are_not_known_do_not_rest, begin),
        cmocka_unit_test_setup(a_moment_is_waited_for_work_to_end, begin),
        cmocka_unit_test_setup(an_event_of_each_context_tells_of_independent_streams, begin),
        cmocka_unit_test_setup(no_event_of_a_context_is_recorded_beside_a_capture, begin),
        cmocka_unit_test_setup(a_stream_has_no_id_where_nobody_may_ask_for_it, begin),
    };

    zc_clock_calibrate();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
