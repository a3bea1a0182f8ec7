/* SPDX-License-Identifier: MIT */
/* Calls and values that libzc does not know: memory of rules is ready for anything before them, and
 * each function is told once. */
#include "hook_test.h"

#include "base/message.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/unknown.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "log/summary.h"

static struct {
    int version; /* The driver's. */
    CUresult asked, exposed;
    unsigned forgotten; /* How often the arguments of functions were. */
} has;

static CUresult get_version(int *version)
{
    *version = has.version;
    return has.asked;
}

__attribute__((format(printf, 3, 4))) static void
fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    assert_true(severity == ZC_WARN && strcmp(code, "unknown") == 0);
    tell("message: %.*s", (int)(strchr(text, ',') - strstr(text, "does")), strstr(text, "does"));
}

static bool fake_warn(enum zc_severity severity, const char *code, const char *text)
{
    assert_true(severity == ZC_NOTE && strcmp(code, "unknown") == 0);
    tell("line: %s", strstr(text, "does"));
    return true;
}

static CUresult fake_expose(enum zc_fn fn)
{
    (void)fn;
    tell("exposed");
    return has.exposed;
}

static void fake_begun(CUstream stream)
{
    assert_null(stream);
    tell("capture");
}

static const char *fake_name(enum zc_fn fn)
{
    static const char *const names[] = {"cuFuture", "cuStreamBeginNextCapture",
                                        "cuStreamBeginRecaptureToFile", "cuMemBegin",
                                        "cuStreamEndCapture"};
    assert_true(fn >= ZC_FN_COUNT && fn < ZC_FN_COUNT + 5);
    return names[fn - ZC_FN_COUNT];
}

static void *fake_real(unsigned slot)
{
    return (void *)(uintptr_t)(0x100 + slot);
}

#define zc_message fake_message
#define zc_log_warn fake_warn
#define zc_place_expose fake_expose
#define zc_launch_forget() (has.forgotten++)
#define zc_capture_begun fake_begun
#define zc_fn_name fake_name
#define zc_unknown_real fake_real
#include "../../shim/hook/unknown.c"

static const enum zc_fn FUTURE = ZC_FN_COUNT;

static int anew(void **state)
{
    (void)state;
    hook_anew();
    memset(&has, 0, sizeof(has));
    memset(said, 0, sizeof(said));
    memset(&zc_log_unknown, 0, sizeof(zc_log_unknown));
    zc_rules_read.rule_count = 1;
    zc_real.cuDriverGetVersion = get_version;
    return 0;
}

static void
memory_of_rules_is_exposed_before_each_unknown_call_and_a_message_says_so_once(void **state)
{
    (void)state;
    assert_int_equal(zc_unknown_call(FUTURE), CUDA_SUCCESS);
    assert_int_equal(zc_unknown_call(FUTURE), CUDA_SUCCESS);
    assert_told("message: does not know cuFuture; exposed; exposed");
    has.exposed = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_unknown_call((enum zc_fn)(FUTURE + 3)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("message: does not know cuMemBegin; exposed");
    assert_int_equal(zc_log_unknown.calls, 3);
    assert_int_equal(zc_log_unknown.functions, 2);
}

static void before_each_unknown_call_the_arguments_of_functions_are_forgotten(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(zc_unknown_call(FUTURE), CUDA_SUCCESS);
        assert_int_equal(has.forgotten, i);
    }
}

static void without_rules_the_log_has_the_function_and_no_more(void **state)
{
    (void)state;
    zc_rules_read.rule_count = 0;
    has.exposed = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_unknown_call(FUTURE), CUDA_SUCCESS);
    assert_int_equal(zc_unknown_call(FUTURE), CUDA_SUCCESS);
    assert_told("line: does not know cuFuture");
    assert_int_equal(zc_log_unknown.calls, 2);
}

static void before_the_first_known_call_there_is_nothing_to_do(void **state)
{
    (void)state;
    zc_life_state = ZC_LIFE_OFF;
    assert_int_equal(zc_unknown_call((enum zc_fn)(FUTURE + 1)), CUDA_SUCCESS);
    assert_told("");
    assert_int_equal(zc_log_unknown.calls, 0);
}

static void a_call_that_by_its_name_begins_a_capture_counts_as_one(void **state)
{
    (void)state;
    for (unsigned i = 1; i < 5; i++)
        assert_int_equal(zc_unknown_call((enum zc_fn)(FUTURE + i)), CUDA_SUCCESS);
    assert_told("message: does not know cuStreamBeginNextCapture; exposed; capture; "
                "message: does not know cuStreamBeginRecaptureToFile; exposed; capture; "
                "message: does not know cuMemBegin; exposed; "
                "message: does not know cuStreamEndCapture; exposed");
    has.exposed = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_unknown_call((enum zc_fn)(FUTURE + 1)), CUDA_ERROR_UNKNOWN);
    assert_told("exposed");
}

static void an_unknown_value_matters_to_a_driver_that_may_know_it(void **state)
{
    (void)state;
    has.version = 13040;
    assert_int_equal(zc_unknown_value(FUTURE), CUDA_SUCCESS);
    has.version = 13041;
    has.asked = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_unknown_value(FUTURE), CUDA_SUCCESS);
    assert_told("");
    has.asked = CUDA_SUCCESS;
    has.exposed = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(zc_unknown_value(FUTURE), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("message: does not know a value that was given to cuFuture; exposed");
}

static void a_trampoline_goes_on_to_the_driver_or_answers_the_program(void **state)
{
    (void)state;
    struct zc_choice choice = zc_unknown_before(3);
    assert_true(choice.address == (void *)0x103 && !choice.answered);
    has.exposed = CUDA_ERROR_OUT_OF_MEMORY;
    choice = zc_unknown_before(3);
    assert_true(choice.address == (void *)CUDA_ERROR_OUT_OF_MEMORY && choice.answered);
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_of_rules_is_exposed_before_each_unknown_call_and_a_message_says_so_once),
        TEST(before_each_unknown_call_the_arguments_of_functions_are_forgotten),
        TEST(without_rules_the_log_has_the_function_and_no_more),
        TEST(before_the_first_known_call_there_is_nothing_to_do),
        TEST(a_call_that_by_its_name_begins_a_capture_counts_as_one),
        TEST(an_unknown_value_matters_to_a_driver_that_may_know_it),
        TEST(a_trampoline_goes_on_to_the_driver_or_answers_the_program),
    };
    return RUN_TESTS(tests);
}
