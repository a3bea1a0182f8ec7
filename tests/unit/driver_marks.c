/* SPDX-License-Identifier: MIT */
/* Marks behind launches: what is known of a launch, and where nothing is known. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built: every ABI version by its own name. \
                                     */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/module.h"
#include "driver/marks.h"
#include "real_test.h"

extern const struct zc_module zc_module_marks;

#define HOME ((CUcontext)0x1000)
#define OTHER ((CUcontext)0x2000)

static CUcontext current;
static uint64_t word;    /* Written by the GPU. */
static uint64_t written; /* The value that it is to write last. */
static unsigned live;    /* Streams and events. */
static CUresult allocates, records, writes;
static unsigned recorded; /* Calls. */

static CUresult CUDAAPI get_current(CUcontext *out)
{
    *out = current;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI stream_create(CUstream *out, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    *out = (CUstream)0x10;
    live++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI stream_destroy(CUstream stream)
{
    (void)stream;
    live--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_create(CUevent *out, unsigned flags)
{
    (void)flags;
    *out = (CUevent)0x20;
    live++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_destroy(CUevent event)
{
    (void)event;
    live--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI host_alloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    assert_int_equal(bytes, sizeof(word));
    if (allocates == CUDA_SUCCESS)
        *out = &word;
    return allocates;
}

static CUresult CUDAAPI record(CUevent event, CUstream stream)
{
    (void)event;
    assert_ptr_equal(stream, (CUstream)0x5000);
    recorded++;
    return records;
}

static CUresult CUDAAPI wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI write_value(CUstream stream, CUdeviceptr at, cuuint64_t value,
                                    unsigned flags)
{
    (void)stream, (void)flags;
    assert_true(at == (CUdeviceptr)&word);
    if (writes == CUDA_SUCCESS)
        written = value;
    return writes;
}

static int setup(void **state)
{
    (void)state;
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuStreamCreate = stream_create;
    zc_real.cuStreamDestroy_v2 = stream_destroy;
    zc_real.cuEventCreate = event_create;
    zc_real.cuEventDestroy_v2 = event_destroy;
    zc_real.cuMemHostAlloc = host_alloc;
    zc_real.cuEventRecord = record;
    zc_real.cuStreamWaitEvent = wait_event;
    zc_real.cuStreamWriteValue64_v2 = write_value;
    zc_module_marks.context_gone(HOME);
    current = HOME;
    word = written = 0;
    live = recorded = 0;
    allocates = records = writes = CUDA_SUCCESS;
    return 0;
}

static uint64_t launch(void)
{
    const struct zc_launch one = {.stream = (CUstream)0x5000, .kernels = true};
    uint64_t mark = zc_mark_launch(0, current);

    zc_launch_done(&one);
    return mark;
}

static void a_launch_has_ended_once_its_number_is_written(void **state)
{
    (void)state;
    uint64_t first = launch(), second = launch();

    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
    assert_int_equal(recorded, 2);
    assert_int_equal(written, 2);
    assert_false(zc_mark_passed(0, first, 0));
    word = 1;
    assert_true(zc_mark_passed(0, first, 0) && !zc_mark_passed(0, second, 0));
    word = 2;
    assert_true(zc_mark_passed(0, second, 0));
    assert_false(zc_mark_passed(0, 0, 0));
}

static void launches_of_another_context_have_no_marks(void **state)
{
    (void)state;
    assert_int_equal(launch(), 1);
    current = OTHER;
    assert_int_equal(launch(), 0);
    current = NULL;
    assert_int_equal(launch(), 0);
    current = OTHER;
    assert_int_equal(zc_mark_launch(1, HOME),
                     0); /* In a stream of a context that is not current. */
    assert_int_equal(recorded, 1);
    zc_module_marks.context_gone(OTHER);
    current = HOME;
    assert_int_equal(launch(), 2);
    word = 2;
    zc_module_marks.context_gone(HOME);
    assert_false(zc_mark_passed(0, 2, 0)); /* Nothing is known any more. */
    current = OTHER;
    assert_int_equal(launch(), 1);
    assert_int_equal(word, 0);
    zc_module_marks.context_gone(OTHER);
}

static void without_memory_there_are_no_marks_and_nothing_stays(void **state)
{
    (void)state;
    allocates = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(launch(), 0);
    assert_int_equal(live, 0);
    assert_int_equal(recorded, 0);
    allocates = CUDA_SUCCESS;
    assert_int_equal(launch(), 1);
    assert_int_equal(live, 2);
}

static void nothing_is_known_once_the_driver_has_refused_a_mark(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        uint64_t before = launch();
        *(i ? &records : &writes) = CUDA_ERROR_INVALID_VALUE;
        launch();
        word = UINT64_MAX;
        assert_false(zc_mark_passed(0, before, 0));
        zc_module_marks.context_gone(HOME);
        setup(state);
    }
}

static void *launch_there(void *unused)
{
    (void)unused;
    launch();
    return NULL;
}

static void another_threads_launch_may_have_the_mark_before(void **state)
{
    const struct zc_launch one = {.stream = (CUstream)0x5000, .kernels = true};
    uint64_t mark = zc_mark_launch(0, current);
    pthread_t other;

    (void)state;
    assert_int_equal(pthread_create(&other, NULL, launch_there, NULL), 0);
    pthread_join(other, NULL);
    zc_launch_done(&one);
    launch();
    launch();
    word = 1;
    assert_true(zc_mark_ended(0) < mark && !zc_mark_passed(0, mark, 0));
    word = 2;
    assert_true(zc_mark_ended(0) == mark && zc_mark_passed(0, mark, 0));
    word = 4;
    assert_true(zc_mark_ended(0) == UINT64_MAX);
}

static void each_device_has_marks_of_its_own(void **state)
{
    const struct zc_launch one = {.stream = (CUstream)0x5000, .kernels = true};
    (void)state;
    assert_int_equal(launch(), 1);
    assert_int_equal(launch(), 2);
    current = OTHER;
    assert_int_equal(zc_mark_launch(1, OTHER), 1);
    zc_launch_done(&one);
    assert_int_equal(written, 1);
    word = 1;
    assert_true(zc_mark_passed(1, 1, 0) && zc_mark_ended(1) == UINT64_MAX);
    assert_false(zc_mark_passed(0, 2, 0));
    zc_module_marks.context_gone(HOME);
    assert_true(zc_mark_passed(1, 1, 0) && !zc_mark_passed(0, 1, 0));
    zc_module_marks.context_gone(OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_device_has_marks_of_its_own, setup),
        cmocka_unit_test_setup(a_launch_has_ended_once_its_number_is_written, setup),
        cmocka_unit_test_setup(launches_of_another_context_have_no_marks, setup),
        cmocka_unit_test_setup(without_memory_there_are_no_marks_and_nothing_stays, setup),
        cmocka_unit_test_setup(nothing_is_known_once_the_driver_has_refused_a_mark, setup),
        cmocka_unit_test_setup(another_threads_launch_may_have_the_mark_before, setup),
    };

    zc_clock_calibrate();
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
