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

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "real_test.h"

static uint64_t ticks,
    step; /* The clock, in nanoseconds, and how far it goes until the next look. */
static unsigned naps;

static void fake_nap(unsigned us)
{
    assert_int_equal(us, 50);
    naps++;
}

static bool ends; /* Another thread's capture, once captures may begin. */

static void unbar(const bool *barred)
{
    zc_capture_unbar(barred);
    if (ends)
        zc_capture_ended(NULL);
    ends = false;
}

#define zc_capture_unbar unbar
#define zc_ticks() (ticks += step)
#define zc_ticks_to_ns(t) (t)
#define zc_nap fake_nap
#include "../../shim/driver/stream.c"

#define CONTEXTS 3u

static CUcontext stack[8];
static unsigned depth, asked[CONTEXTS];
static bool busy[CONTEXTS], refuses[CONTEXTS];
static CUresult recorded; /* The answer of a record of a context. */
static unsigned events, records;

static char said[200]; /* Calls of the driver that somebody waits in, in their order. */

static void say(const char *what)
{
    strcat(said, what);
}

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
    step = 7000;
    naps = 0;
    said[0] = '\0';
    for (unsigned i = 0; i < CONTEXTS; i++)
        asked[i] = 0;
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
    assert_true(stream_rests(0));
    for (unsigned i = 0; i < CONTEXTS; i++) {
        busy[i] = true;
        expect(false, i == 0);
        assert_false(stream_rests(0)); /* Whichever context it is of. */
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

/* Stream 0x70 is independent of the legacy one, 0x71 is of another context, 0x79 is none. */
static CUresult flags_of(CUstream stream, unsigned *flags)
{
    *flags = stream == (CUstream)0x70 ? CU_STREAM_NON_BLOCKING : 0;
    return stream == (CUstream)0x79 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult context_of(CUstream stream, CUcontext *out)
{
    *out = context(stream == (CUstream)0x71);
    return stream == (CUstream)0x79 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult answer;

static const char *name_of(CUstream stream)
{
    static char name[8];
    snprintf(name, sizeof(name), "%x", (unsigned)(uintptr_t)stream);
    return name;
}

/* Another thread's capture begins with both locks, and would be ended by what comes next. */
static void no_capture_begins(void)
{
    bool could = zc_driver_lock();
    zc_driver_leave(&could);
    say(could ? " unsafe" : "");
}

static CUresult query_named(CUstream stream)
{
    no_capture_begins();
    say(" query ");
    say(name_of(stream));
    return answer;
}

static CUresult synchronize(CUstream stream)
{
    say(" wait ");
    say(name_of(stream));
    return answer;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    CUcontext now;
    (void)event;
    get_current(&now);
    say(" mark ");
    say(name_of(stream));
    say(now == context(0) ? "" : " there");
    return recorded;
}

static CUresult record_named(CUcontext c, CUevent event)
{
    no_capture_begins();
    say(c == context(0) ? " record" : " record there");
    return record_context(c, event);
}

static CUresult wait_event(CUevent event)
{
    assert_ptr_equal(event, (CUevent)(uintptr_t)0x50);
    say(" event");
    return answer;
}

static CUresult wait_context(void)
{
    CUcontext now;
    get_current(&now);
    say(now == context(0) ? " context" : " other");
    return answer;
}

static CUresult alloc(CUdeviceptr *out, size_t n)
{
    assert_int_equal(n, 1);
    *out = 0x500;
    say(" alloc");
    return recorded;
}

static CUresult free_block(CUdeviceptr block)
{
    assert_int_equal(block, 0x500);
    say(" free");
    return answer;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    static CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    say(now == CU_STREAM_CAPTURE_MODE_RELAXED ? " (" : " )");
    return CUDA_SUCCESS;
}

static int begin_streams(void **state)
{
    begin(state);
    zc_real.cuStreamGetFlags = flags_of;
    zc_real.cuStreamGetCtx = context_of;
    zc_real.cuStreamGetFlags_ptsz = NULL;
    zc_real.cuStreamGetCtx_ptsz = NULL;
    zc_real.cuStreamQuery = query_named;
    zc_real.cuStreamQuery_ptsz = NULL;
    zc_real.cuStreamSynchronize = synchronize;
    zc_real.cuStreamSynchronize_ptsz = NULL;
    zc_real.cuEventRecord = record_event;
    zc_real.cuEventRecord_ptsz = NULL;
    zc_real.cuEventSynchronize = wait_event;
    zc_real.cuCtxRecordEvent = record_named;
    zc_real.cuCtxSynchronize = wait_context;
    zc_real.cuMemAlloc_v2 = alloc;
    zc_real.cuMemFree_v2 = free_block;
    zc_real.cuThreadExchangeStreamCaptureMode = exchange;
    answer = CUDA_SUCCESS;
    return 0;
}

static void says(const char *what)
{
    assert_string_equal(said, what);
    said[0] = '\0';
    assert_true(depth == 1 && events == 0);
}

/* The legacy stream tells of all that synchronise with it. */
static void a_stream_is_idle_where_nothing_comes_before_its_work(void **state)
{
    (void)state;
    assert_true(zc_stream_idle((CUstream)0x72, ZC_LEGACY));
    says(" query 1");
    assert_true(zc_stream_idle(NULL, ZC_LEGACY));
    says(" query 1");
    assert_true(zc_stream_idle((CUstream)0x70, ZC_LEGACY));
    says(" query 70");
    assert_false(zc_stream_idle((CUstream)0x71, ZC_LEGACY));
    assert_false(zc_stream_idle((CUstream)0x79, ZC_LEGACY));
    says("");
    answer = CUDA_ERROR_NOT_READY;
    assert_false(zc_stream_idle((CUstream)0x72, ZC_LEGACY));
    assert_false(zc_stream_idle((CUstream)0x70, ZC_LEGACY));
    said[0] = '\0';
    zc_capture_begun(NULL);
    assert_false(zc_stream_idle((CUstream)0x72, ZC_LEGACY));
    zc_capture_ended(NULL);
    says(""); /* Nothing is asked. */
}

static void a_stream_is_waited_for_as_a_copy_in_it_would_wait(void **state)
{
    static const struct {
        uintptr_t stream;
        enum zc_flavour flavour;
        const char *said;
    } rows[] = {
        {0, ZC_LEGACY, " ( wait 0 )"},           {1, ZC_LEGACY, " ( wait 1 )"},
        {0x70, ZC_LEGACY, " ( wait 70 )"},       {0x72, ZC_LEGACY, " ( mark 72 event )"},
        {0, ZC_PER_THREAD, " ( mark 0 event )"}, {0x71, ZC_LEGACY, " ( mark 71 there event )"},
    };
    (void)state;
    zc_capture_begun(NULL); /* Which the thread's mode keeps going. */
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        answer = i % 2 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
        assert_int_equal(zc_stream_drain((CUstream)rows[i / 2].stream, rows[i / 2].flavour),
                         answer);
        says(rows[i / 2].said);
    }
    recorded = CUDA_ERROR_OUT_OF_MEMORY; /* Then for all that is in the stream. */
    zc_stream_drain((CUstream)0x72, ZC_LEGACY);
    says(" ( mark 72 wait 72 )");
    zc_capture_ended(NULL);
}

static void a_context_is_waited_for_without_ending_a_capture(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        answer = i ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
        assert_int_equal(zc_stream_wait_context(context(0)), answer);
        says(" record ( event )");
        assert_int_equal(zc_stream_wait_context(context(1)), answer);
        says(" record there ( event )");
        assert_int_equal(zc_stream_drain_context(context(1)), answer);
        says(" ( wait 1 )");
        zc_capture_begun(NULL);
        assert_int_equal(zc_stream_wait_context(context(0)), answer);
        zc_capture_ended(NULL);
        says(" alloc free");
        zc_capture_begun(NULL);
        ends = true; /* The next one may begin at once. */
        assert_int_equal(zc_stream_wait_context(context(0)), answer);
        says(" alloc free");
        assert_false(zc_capture_any());
    }
    recorded = CUDA_ERROR_OUT_OF_MEMORY;
    answer = CUDA_SUCCESS;
    zc_capture_begun(NULL);
    assert_int_equal(zc_stream_wait_context(context(0)), CUDA_ERROR_OUT_OF_MEMORY);
    zc_capture_ended(NULL);
    says(" alloc");
    refuses[1] = true;
    assert_int_equal(zc_stream_wait_context(context(1)), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(zc_stream_drain_context(context(1)), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    says("");
}

/* Before CUDA 12.5, and where a kernel has failed. */
static void a_context_that_records_no_event_is_waited_for_itself(void **state)
{
    (void)state;
    recorded = answer = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(zc_stream_wait_context(context(0)), CUDA_ERROR_LAUNCH_FAILED);
    says(" record context");
    recorded = CUDA_ERROR_NOT_SUPPORTED;
    answer = CUDA_SUCCESS;
    assert_int_equal(zc_stream_wait_context(context(1)), CUDA_SUCCESS);
    says(" record there other");
    assert_int_equal(zc_stream_wait_context(context(0)), CUDA_SUCCESS);
    says(" context");
}

static void the_state_is_the_code_of_any_call(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        answer = i == 0 ? CUDA_SUCCESS : i == 1 ? CUDA_ERROR_NOT_READY : CUDA_ERROR_LAUNCH_FAILED;
        assert_int_equal(zc_stream_state(), i < 2 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED);
        says(" query 1");
        assert_int_equal(zc_stream_refusal(),
                         i < 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_FAILED);
        said[0] = '\0';
    }
    zc_capture_begun(NULL); /* Nothing is asked. */
    assert_int_equal(zc_stream_state(), CUDA_SUCCESS);
    says("");
    depth = 0;
    assert_int_equal(zc_stream_state(), CUDA_ERROR_INVALID_CONTEXT);
    zc_capture_ended(NULL);
}

static void waiting_for_rest_ends_when_its_time_is_over(void **state)
{
    (void)state;
    busy[0] = true;
    assert_false(stream_rests(0));
    assert_true(asked[0] == 1 && naps == 0);
    assert_false(stream_rests(1)); /* Looks at 7, 14, 21... us; and 1,001 at last. */
    assert_true(asked[0] == 1 + 143 && naps == 143 - 3);
    zc_stream_made(CU_STREAM_NON_BLOCKING); /* Events are noticed a little later. */
    asked[0] = naps = 0;
    assert_false(stream_rests(0));
    assert_true(asked[0] == 3 && naps == 0 && events == 0);
    recorded = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(stream_rests(0));
    assert_true(asked[0] == 3 && zc_stream_rest_known());
}

/* A kernel may wait for what the program does next. */
static void calls_that_wait_in_vain_stop_waiting(void **state)
{
    (void)state;
    step = 150000000;
    busy[0] = true;
    for (unsigned i = 0; i < 8; i++) {
        asked[0] = 0;
        assert_false(zc_stream_come_to_rest());
        assert_int_equal(asked[0], i < 5 ? 2 : 1);
    }
    busy[0] = false;
    assert_true(zc_stream_come_to_rest());
    busy[0] = true;
    asked[0] = 0;
    assert_false(zc_stream_come_to_rest());
    assert_int_equal(asked[0], 2);
}

static void a_call_may_wait_where_no_stream_waits_for_the_program(void **state)
{
    (void)state;
    busy[1] = true;
    assert_true(zc_stream_may_wait(0));
    zc_await_note();
    assert_false(zc_stream_may_wait(0));
    busy[1] = false;
    assert_true(zc_stream_may_wait(0));
    assert_true(zc_driver_lock()); /* It has been given back. */
    zc_driver_unlock();
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
        cmocka_unit_test_setup(a_stream_is_idle_where_nothing_comes_before_its_work, begin_streams),
        cmocka_unit_test_setup(a_stream_is_waited_for_as_a_copy_in_it_would_wait, begin_streams),
        cmocka_unit_test_setup(a_context_is_waited_for_without_ending_a_capture, begin_streams),
        cmocka_unit_test_setup(a_context_that_records_no_event_is_waited_for_itself, begin_streams),
        cmocka_unit_test_setup(the_state_is_the_code_of_any_call, begin_streams),
        cmocka_unit_test_setup(waiting_for_rest_ends_when_its_time_is_over, begin),
        cmocka_unit_test_setup(calls_that_wait_in_vain_stop_waiting, begin),
        cmocka_unit_test_setup(a_call_may_wait_where_no_stream_waits_for_the_program, begin),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
