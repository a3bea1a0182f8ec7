/* SPDX-License-Identifier: MIT */
/* When blocks in host memory that kernels read over the link come to the device, and how launches
 * are timed. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "memory/regret.h"
#include "real_test.h"

#define M ((uint64_t)1 << 20)

/* A clock of one tick a nanosecond that goes on by naps alone, and a driver with two events at
 * most, of which each call may fail. */
static struct {
    uint64_t now;
    bool capture;
    unsigned naps, warned;
    uint64_t ends; /* When the timed kernel ends. */
    CUcontext current;
    CUdevice device;
    CUresult asked, created[2], recorded[2], elapsed;
    unsigned devices; /* Questions for the current context's device. */
    unsigned events, made, destroyed, records;
    CUevent record[4];
    enum zc_flavour flavour[4];
    void (*done)(const struct zc_launch *launch);
    unsigned told;
    uint64_t microseconds;
    char noted[ZC_REGRET_NOTED];
} has;

static void fake_nap(unsigned microseconds)
{
    assert_true(microseconds > 0);
    assert_true(++has.naps < 100000);
    has.now += microseconds * UINT64_C(1000);
}

static void fake_message(enum zc_severity severity, const char *code, const char *text,
                         unsigned most_ms)
{
    assert_int_equal(severity, ZC_NOTE);
    assert_string_equal(code, "launch");
    assert_non_null(text);
    assert_int_equal(most_ms, 3);
    has.warned++;
}

static CUresult get_current(CUcontext *context)
{
    *context = has.current;
    return has.asked;
}

static CUresult get_device(CUdevice *device)
{
    has.devices++;
    *device = has.device;
    return has.asked;
}

static CUresult create_event(CUevent *event, unsigned flags)
{
    assert_int_equal(flags, CU_EVENT_DEFAULT);
    CUresult result = has.created[has.events++ % 2];
    if (result == CUDA_SUCCESS)
        *event = (CUevent)(uintptr_t)(0x100 + ++has.made);
    return result;
}

static CUresult destroy_event(CUevent event)
{
    assert_non_null(event);
    has.destroyed++;
    return CUDA_SUCCESS;
}

static CUresult note_record(CUevent event, CUstream stream, enum zc_flavour flavour)
{
    assert_ptr_equal(stream, (CUstream)7);
    has.record[has.records % 4] = event;
    has.flavour[has.records % 4] = flavour;
    return has.recorded[has.records++ % 2];
}

static CUresult record_event(CUevent event, CUstream stream)
{
    return note_record(event, stream, ZC_LEGACY);
}

static CUresult record_event_ptsz(CUevent event, CUstream stream)
{
    return note_record(event, stream, ZC_PER_THREAD);
}

static CUresult elapsed_time(float *ms, CUevent first, CUevent last)
{
    assert_non_null(first);
    assert_non_null(last);
    assert_ptr_not_equal(first, last);
    if (has.elapsed == CUDA_SUCCESS && has.now < has.ends)
        return CUDA_ERROR_NOT_READY;
    if (has.elapsed == CUDA_SUCCESS)
        *ms = 2.5f;
    return has.elapsed;
}

static void when_done(void (*done)(const struct zc_launch *launch))
{
    has.done = done;
}

#define zc_ticks() has.now
#define zc_ticks_to_ns(ticks) (ticks)
#define zc_nap fake_nap
#define zc_message fake_message
#define zc_capture_any() has.capture
#define zc_launch_when_done when_done
#include "../../shim/memory/regret.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(timers, 0, sizeof(timers));
    pending = 0;
    has.current = (CUcontext)0x50;
    real_without_driver();
    zc_real.cuCtxGetCurrent = get_current;
    zc_real.cuCtxGetDevice = get_device;
    zc_real.cuEventCreate = create_event;
    zc_real.cuEventDestroy_v2 = destroy_event;
    zc_real.cuEventRecord = record_event;
    zc_real.cuEventRecord_ptsz = record_event_ptsz;
    zc_real.cuEventElapsedTime_v2 = elapsed_time;
    zc_real.cuEventElapsedTime = elapsed_time;
    return 0;
}

static void told(const void *noted, uint64_t microseconds)
{
    has.told++;
    has.microseconds = microseconds;
    memcpy(has.noted, noted, sizeof(has.noted));
}

static const struct zc_launch launch = {.flavour = ZC_LEGACY, .stream = (CUstream)7};

/* Times a launch of which "abc" is noted; true if that was begun. */
static bool timed(void)
{
    has.done = NULL;
    bool began = zc_regret_time(&launch, told, "abc", 4);
    if (began) {
        assert_non_null(has.done);
        has.done(&launch);
    }
    return began;
}

/* tests/gpu/MEASURED.md: blocks that change places, and one of `shared` that becomes OWN. */
static void a_move_costs_what_was_measured_within_a_third(void **state)
{
    static const struct {
        uint64_t bytes, us;
    } measured[] = {{32 * M, 980}, {128 * M, 3290}, {512 * M, 12400}, {1024 * M, 23500}};
    (void)state;
    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++)
        assert_in_range(zc_regret_cost(measured[i].bytes), measured[i].us,
                        measured[i].us + measured[i].us / 3);
}

/* Costs of calls, and then as many microseconds for so many bytes as the fastest move took. */
static void what_moves_have_taken_counts_instead_the_fastest_of_them(void **state)
{
    uint64_t calls = zc_regret_cost(0), before = zc_regret_cost(100 * M);
    (void)state;
    has.now = 64999000;
    zc_regret_moved(16 * M - 1, 1000000); /* Too small to tell. */
    assert_int_equal(zc_regret_cost(100 * M), before);
    zc_regret_moved(16 * M, 1000000); /* In 64 ms. */
    uint64_t slow = zc_regret_cost(100 * M);
    assert_in_range(slow, calls + UINT64_C(64000) * 100 / 16, calls + UINT64_C(64100) * 100 / 16);
    zc_regret_moved(2048 * M, 1000000);
    uint64_t fast = zc_regret_cost(100 * M);
    assert_in_range(fast, calls + UINT64_C(64000) * 100 / 2048,
                    calls + UINT64_C(64100) * 100 / 2048);
    zc_regret_moved(64 * M, 1000000);
    assert_int_equal(zc_regret_cost(100 * M), fast);
    zc_regret_moved(2048 * M, has.now); /* In no time at all. */
    assert_in_range(zc_regret_cost(100 * M), calls, fast);
}

static void a_block_moves_once_more_is_lost_than_it_costs_and_begins_anew(void **state)
{
    uint64_t owed = 0, cost = zc_regret_cost(64 * M);
    (void)state;
    assert_false(zc_regret_owes(&owed, cost - 1, 64 * M));
    assert_false(zc_regret_owes(&owed, 1, 64 * M));
    assert_true(zc_regret_owes(&owed, 1, 64 * M));
    assert_int_equal(owed, 0);
    assert_false(zc_regret_owes(&owed, cost, 64 * M));
}

static void a_launch_is_between_two_events_of_its_stream_and_told_of_once(void **state)
{
    (void)state;
    has.ends = 50;
    assert_true(timed());
    assert_int_equal(has.records, 2);
    assert_ptr_not_equal(has.record[0], has.record[1]);
    assert_int_equal(has.flavour[0], ZC_LEGACY);
    zc_regret_collect();
    assert_int_equal(has.told, 0);
    assert_false(timed()); /* While that one is under way. */
    has.now = 50;
    zc_regret_collect();
    zc_regret_collect();
    assert_int_equal(has.told, 1);
    assert_int_equal(has.microseconds, 2500);
    assert_string_equal(has.noted, "abc");
}

static void a_second_launch_of_the_context_has_the_same_events(void **state)
{
    struct zc_launch own = {.flavour = ZC_PER_THREAD, .stream = (CUstream)7};
    (void)state;
    assert_true(timed());
    zc_regret_collect();
    assert_true(zc_regret_time(&own, told, "abc", 4));
    has.done(&own);
    assert_int_equal(has.made, 2);
    assert_ptr_equal(has.record[2], has.record[0]);
    assert_ptr_equal(has.record[3], has.record[1]);
    assert_int_equal(has.flavour[2], ZC_PER_THREAD);
    zc_regret_collect();
    assert_int_equal(has.told, 2);
    has.current = (CUcontext)0x60;
    assert_false(timed()); /* The events are of the other context. */
    has.current = (CUcontext)0x50;
    assert_true(timed());
}

static void what_is_noted_may_fill_its_room_and_no_more(void **state)
{
    char noted[ZC_REGRET_NOTED + 1];
    (void)state;
    memset(noted, 'n', sizeof(noted));
    assert_false(zc_regret_time(&launch, told, noted, ZC_REGRET_NOTED + 1));
    assert_true(zc_regret_time(&launch, told, noted, ZC_REGRET_NOTED));
    has.done(&launch);
    zc_regret_collect();
    assert_memory_equal(has.noted, noted, ZC_REGRET_NOTED);
}

static void without_a_context_or_an_event_nothing_is_timed_until_there_is(void **state)
{
    (void)state;
    has.current = NULL;
    assert_false(timed());
    has.current = (CUcontext)0x50;
    has.asked = CUDA_ERROR_DEINITIALIZED;
    assert_false(timed());
    assert_int_equal(has.events, 0);
    has.asked = CUDA_SUCCESS;
    has.created[0] = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(timed());
    assert_int_equal(has.events, 1);
    assert_int_equal(has.destroyed, 0);
    has.events = 0;
    has.created[0] = CUDA_SUCCESS;
    has.created[1] = CUDA_ERROR_OUT_OF_MEMORY;
    assert_false(timed());
    assert_int_equal(has.destroyed, 1);
    assert_int_equal(has.records, 0);
    has.created[1] = CUDA_SUCCESS;
    assert_true(timed());
    assert_int_equal(has.made, 3);
}

static void an_event_that_is_not_recorded_leaves_the_next_launch_its_turn(void **state)
{
    (void)state;
    has.recorded[0] = CUDA_ERROR_UNKNOWN;
    assert_false(timed());
    assert_null(has.done);
    has.records = 0;
    has.recorded[0] = CUDA_SUCCESS;
    has.recorded[1] = CUDA_ERROR_UNKNOWN;
    assert_true(timed());
    zc_regret_collect();
    assert_int_equal(has.told, 0); /* Its end is not known. */
    has.recorded[1] = CUDA_SUCCESS;
    assert_true(timed());
    zc_regret_collect();
    assert_int_equal(has.told, 1);
}

static void events_whose_question_fails_are_made_anew(void **state)
{
    (void)state;
    assert_true(timed());
    has.elapsed = CUDA_ERROR_INVALID_HANDLE;
    zc_regret_collect();
    assert_int_equal(has.told, 0);
    has.elapsed = CUDA_SUCCESS;
    assert_true(timed());
    assert_int_equal(has.made, 4);
    zc_regret_collect();
    assert_int_equal(has.told, 1);
}

static void a_capture_is_not_disturbed_by_questions(void **state)
{
    (void)state;
    assert_true(timed());
    has.capture = true;
    zc_regret_collect();
    assert_int_equal(has.told, 0);
    has.capture = false;
    zc_regret_collect();
    assert_int_equal(has.told, 1);
}

static bool unknown(const void *arg)
{
    (void)arg;
    return !has.told;
}

static bool at_most_twice(const void *arg)
{
    return (*(unsigned *)(uintptr_t)arg)++ < 2;
}

static void a_launch_waits_for_the_time_of_one_that_ends_soon(void **state)
{
    (void)state;
    zc_regret_wait(unknown, NULL, 3); /* None is under way. */
    assert_int_equal(has.naps, 0);
    has.ends = 2000000;
    assert_true(timed());
    zc_regret_wait(unknown, NULL, 3);
    assert_int_equal(has.told, 1);
    assert_int_equal(has.warned, 0);
    assert_in_range(has.now, 2000000, 2100000);
}

static void it_waits_only_for_what_it_does_not_know_and_not_in_captures(void **state)
{
    unsigned asked = 0;
    (void)state;
    has.ends = UINT64_MAX;
    assert_true(timed());
    zc_regret_wait(at_most_twice, &asked, 3);
    assert_int_equal(has.naps, 2);
    has.capture = true;
    asked = 0;
    zc_regret_wait(at_most_twice, &asked, 3);
    assert_int_equal(has.naps, 2);
}

static void a_kernel_that_does_not_end_is_waited_for_once(void **state)
{
    (void)state;
    has.now = 5000000;
    has.ends = UINT64_MAX;
    assert_true(timed());
    zc_regret_wait(unknown, NULL, 3);
    assert_int_equal(has.warned, 1);
    assert_in_range(has.now, 8000000, 8200000);
    unsigned naps = has.naps;
    zc_regret_wait(unknown, NULL, 3);
    assert_int_equal(has.naps, naps);
    has.ends = 0;
    zc_regret_collect();
    assert_true(timed());
    zc_regret_wait(unknown, NULL, 3); /* Nor for any later one. */
    assert_int_equal(has.naps, naps);
    assert_int_equal(has.warned, 1);
}

static void a_context_that_goes_takes_its_events_along_and_no_others(void **state)
{
    (void)state;
    has.ends = UINT64_MAX;
    assert_true(timed());
    zc_module_regret.context_gone((CUcontext)0x60);
    assert_false(timed()); /* That one is still under way. */
    zc_module_regret.context_gone((CUcontext)0x50);
    zc_regret_collect();
    assert_int_equal(has.told, 0);
    assert_true(timed());
    assert_int_equal(has.made, 4);
    has.ends = 0;
    zc_regret_collect();
    zc_module_regret.context_gone((CUcontext)0x50); /* Between launches, too. */
    assert_true(timed());
    assert_int_equal(has.made, 6);
}

static void a_context_that_goes_while_its_launch_is_made_leaves_the_events_to_it(void **state)
{
    (void)state;
    assert_true(zc_regret_time(&launch, told, "abc", 4));
    zc_module_regret.context_gone((CUcontext)0x50);
    assert_false(zc_regret_time(&launch, told, "abc", 4)); /* Its turn is not over. */
    has.done(&launch);
    zc_regret_collect();
    assert_int_equal(has.told, 1);
}

static void the_driver_is_asked_nothing_while_no_timed_launch_is_to_be_told_of(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        zc_regret_collect();
        zc_regret_wait(unknown, NULL, 3);
        assert_int_equal(has.devices, 0);
        assert_true(timed());
        if (i == 2)
            zc_module_regret.context_gone((CUcontext)0x50);
        zc_regret_collect();
        has.devices = 0;
        assert_int_equal(has.told, i < 2 ? i + 1 : 2);
    }
    zc_regret_collect();
    assert_int_equal(has.devices, 0);
}

static void launches_of_two_devices_are_timed_at_once(void **state)
{
    (void)state;
    assert_true(zc_regret_time(&launch, told, "abc", 4));
    has.done(&launch);
    assert_false(zc_regret_time(&launch, told, "abc", 4));
    has.current = (CUcontext)0x60;
    for (has.device = 1; has.device < 64; has.device += 62)
        assert_true(zc_regret_time(&launch, told, "def", 4));
    has.device = 64; /* It shares the last one's. */
    assert_false(zc_regret_time(&launch, told, "def", 4));
    has.device = 1;
    has.done(&launch);
    zc_regret_collect();
    assert_true(has.told == 1 && !strcmp(has.noted, "def"));
    zc_module_regret.context_gone((CUcontext)0x60);
    has.device = 0;
    zc_regret_collect();
    assert_true(has.told == 2 && !strcmp(has.noted, "abc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launches_of_two_devices_are_timed_at_once, anew),
        cmocka_unit_test_setup(the_driver_is_asked_nothing_while_no_timed_launch_is_to_be_told_of,
                               anew),
        cmocka_unit_test_setup(a_move_costs_what_was_measured_within_a_third, anew),
        cmocka_unit_test_setup(what_moves_have_taken_counts_instead_the_fastest_of_them, anew),
        cmocka_unit_test_setup(a_block_moves_once_more_is_lost_than_it_costs_and_begins_anew, anew),
        cmocka_unit_test_setup(a_launch_is_between_two_events_of_its_stream_and_told_of_once, anew),
        cmocka_unit_test_setup(a_second_launch_of_the_context_has_the_same_events, anew),
        cmocka_unit_test_setup(what_is_noted_may_fill_its_room_and_no_more, anew),
        cmocka_unit_test_setup(without_a_context_or_an_event_nothing_is_timed_until_there_is, anew),
        cmocka_unit_test_setup(an_event_that_is_not_recorded_leaves_the_next_launch_its_turn, anew),
        cmocka_unit_test_setup(events_whose_question_fails_are_made_anew, anew),
        cmocka_unit_test_setup(a_capture_is_not_disturbed_by_questions, anew),
        cmocka_unit_test_setup(a_launch_waits_for_the_time_of_one_that_ends_soon, anew),
        cmocka_unit_test_setup(it_waits_only_for_what_it_does_not_know_and_not_in_captures, anew),
        cmocka_unit_test_setup(a_kernel_that_does_not_end_is_waited_for_once, anew),
        cmocka_unit_test_setup(a_context_that_goes_takes_its_events_along_and_no_others, anew),
        cmocka_unit_test_setup(a_context_that_goes_while_its_launch_is_made_leaves_the_events_to_it,
                               anew)};
    return RUN_TESTS(tests);
}
