/* SPDX-License-Identifier: MIT */
/* The count of captures in progress: which calls begin and end one. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "driver/capture.h"
#include "memory/reclaim.h"
#include "real_test.h"

static char streams[2]; /* True: it captures. */
#define FIRST ((CUstream)&streams[0])
#define SECOND ((CUstream)&streams[1])

static CUresult CUDAAPI is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    *status = *(char *)stream ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI begin(CUstream stream, CUstreamCaptureMode mode)
{
    (void)mode;
    assert_false(zc_capture_bar()); /* The calling thread has. */
    if (*(char *)stream)
        return CUDA_ERROR_ILLEGAL_STATE;
    *(char *)stream = 1;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI end(CUstream stream, CUgraph *graph)
{
    if (!*(char *)stream)
        return CUDA_ERROR_ILLEGAL_STATE;
    *(char *)stream = 0;
    *graph = NULL;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI invalidated(CUstream stream, CUgraph *graph)
{
    end(stream, graph);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

/* As where the capture goes on in other streams, which were not joined. */
static CUresult CUDAAPI unjoined(CUstream stream, CUgraph *graph)
{
    (void)stream, (void)graph;
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static CUresult to_cig; /* The code of its end. */
static unsigned to_cig_calls;

/* The driver has no such capture any more when it is asked again. */
static CUresult CUDAAPI end_to_cig(CUstream stream)
{
    to_cig_calls++;
    if (!*(char *)stream)
        return CUDA_ERROR_ILLEGAL_STATE;
    *(char *)stream = 0;
    return to_cig;
}

static CUresult CUDAAPI destroy(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    setenv("ZC_LOG", "off", 1);
    real_without_driver();
    zc_real.cuStreamIsCapturing = is_capturing;
    zc_real.cuStreamBeginCapture_v2 = begin;
    zc_real.cuStreamEndCapture = end;
    zc_real.cuStreamEndCaptureToCig = end_to_cig;
    zc_real.cuStreamDestroy_v2 = destroy;
    streams[0] = streams[1] = 0;
    zc_captures = 0;
    return 0;
}

static CUresult begin_in(CUstream stream)
{
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void each_capture_counts_from_its_beginning_to_its_end(void **state)
{
    CUgraph graph;

    (void)state;
    assert_int_equal(begin_in(FIRST), CUDA_SUCCESS);
    assert_int_equal(begin_in(SECOND), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 2);
    assert_int_equal(begin_in(FIRST), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(zc_captures, 2);
    assert_int_equal(cuStreamEndCapture(SECOND, &graph), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 1);
    assert_int_equal(cuStreamEndCapture(SECOND, &graph), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(zc_captures, 1);
    assert_true(zc_capture_holds(FIRST, ZC_LEGACY) && !zc_capture_holds(SECOND, ZC_LEGACY));
    zc_real.cuStreamEndCapture = unjoined;
    assert_int_equal(cuStreamEndCapture(FIRST, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_int_equal(zc_captures, 1);
    zc_real.cuStreamEndCapture = invalidated;
    assert_int_equal(cuStreamEndCapture(FIRST, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(zc_captures, 0);
}

static void a_capture_to_a_graphics_context_ends_whatever_the_result_is(void **state)
{
    (void)state;
    begin_in(FIRST);
    assert_int_equal(cuStreamEndCaptureToCig(SECOND), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(zc_captures, 1);
    to_cig = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    assert_int_equal(cuStreamEndCaptureToCig(FIRST), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(zc_captures, 0);
}

static CUstreamCaptureMode thread_mode;

static CUresult CUDAAPI exchange(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* Another thread's capture may begin before the thread has waited. */
static void a_thread_that_waits_is_relaxed_whether_or_not_any_captures(void **state)
{
    (void)state;
    zc_real.cuThreadExchangeStreamCaptureMode = exchange;
    for (int i = 0; i < 3; i++) {
        thread_mode = (CUstreamCaptureMode)i;
        CUstreamCaptureMode before = zc_capture_relax();
        assert_int_equal(thread_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
        zc_capture_restore(before);
        assert_int_equal(thread_mode, i);
    }
}

static void *give_back(void *unused)
{
    zc_release_begin();
    zc_release_end();
    return unused;
}

/* Another thread has given memory back: calls that can be made again are.  The capture is one whose
 * beginning libzc did not see. */
static void the_end_of_a_capture_that_lacks_memory_is_not_made_again(void **state)
{
    pthread_t thread;
    (void)state;
    streams[0] = 1;
    to_cig = CUDA_ERROR_OUT_OF_MEMORY;
    to_cig_calls = 0;
    pthread_create(&thread, NULL, give_back, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(cuStreamEndCaptureToCig(FIRST), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(to_cig_calls, 1);
    assert_int_equal(zc_captures, 0);
}

static void a_capture_ends_with_its_stream_where_no_other_goes_on(void **state)
{
    CUgraph graph;

    (void)state;
    begin_in(FIRST);
    assert_int_equal(cuStreamDestroy_v2(SECOND), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 1);
    assert_int_equal(cuStreamDestroy_v2(FIRST), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 0);
    streams[0] = 0;
    begin_in(FIRST);
    begin_in(SECOND);
    assert_int_equal(cuStreamDestroy_v2(FIRST), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 2); /* Nobody knows whose it was. */
    assert_int_equal(cuStreamEndCapture(SECOND, &graph), CUDA_SUCCESS);
    assert_int_equal(zc_captures, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_capture_counts_from_its_beginning_to_its_end, setup),
        cmocka_unit_test_setup(a_capture_ends_with_its_stream_where_no_other_goes_on, setup),
        cmocka_unit_test_setup(a_capture_to_a_graphics_context_ends_whatever_the_result_is, setup),
        cmocka_unit_test_setup(a_thread_that_waits_is_relaxed_whether_or_not_any_captures, setup),
        cmocka_unit_test_setup(the_end_of_a_capture_that_lacks_memory_is_not_made_again, setup),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
