/* SPDX-License-Identifier: MIT */
/* The environment variables: defaults, copies, what is too long, what is said of them. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/job.h"
#include "base/message.h"
#include "base/options.h"

static bool secure;      /* The process is that of a set-user-ID program. */
static char said[16384]; /* All messages, each with a line's end. */

unsigned long getauxval(unsigned long type)
{
    return type == AT_SECURE && secure;
}

static bool hear(enum zc_severity severity, const char *code, const char *text)
{
    assert_int_equal(severity, ZC_WARN);
    assert_string_equal(code, "options");
    strcat(strcat(said, text), "\n");
    return true;
}

static void announces(const char *lines)
{
    said[0] = '\0';
    zc_options_read();
    zc_options_announce();
    assert_string_equal(said, lines);
}

static int clean_environment(void **state)
{
    (void)state;
    clearenv();
    secure = false;
    zc_options_read();
    zc_message_set_sink(hear);
    return 0;
}

static void unset_variables_have_their_defaults(void **state)
{
    const struct zc_options *o = zc_options_read();

    (void)state;
#define ASSERT_DEFAULT(field, variable, def, help) assert_string_equal(o->field, def);
    ZC_OPTIONS(ASSERT_DEFAULT)
#undef ASSERT_DEFAULT
    assert_false(o->secure);
}

static void every_variable_reaches_its_own_field(void **state)
{
    const struct zc_options *o;

    (void)state;
/* Switches have a default, and take no text. */
#define VALUE(field, def) (*(def) ? (*(def) == '1' ? "off" : "on") : "value of " #field)
#define SET(field, variable, def, help) setenv(variable, VALUE(field, def), 1);
    ZC_OPTIONS(SET)
#undef SET
    o = zc_options_read();
#define ASSERT_SET(field, variable, def, help) assert_string_equal(o->field, VALUE(field, def));
    ZC_OPTIONS(ASSERT_SET)
#undef ASSERT_SET
#undef VALUE
}

static void a_later_change_of_the_environment_changes_nothing(void **state)
{
    const struct zc_options *o;
    char *value;

    (void)state;
    setenv("ZC_POLICY", "first.conf", 1);
    o = zc_options_read();
    value = getenv("ZC_POLICY");
    memset(value, 'x', strlen(value));
    clearenv();
    assert_string_equal(o->policy, "first.conf");
    assert_string_equal(zc_options()->policy, "first.conf");
    assert_string_equal(zc_options_read()->policy, "");
}

static void a_value_that_no_path_can_have_is_ignored(void **state)
{
    char *value = malloc(100000);

    (void)state;
    memset(value, 'x', 99999);
    value[99999] = 0;
    setenv("ZC_POLICY", value, 1);
    setenv("ZC_LOG", "after.jsonl", 1);
    zc_options_read();
    assert_string_equal(zc_options()->policy, "");
    assert_string_equal(zc_options()->log, "after.jsonl");
    free(value);
}

static void a_value_of_the_longest_path_is_kept(void **state)
{
    char value[4096];

    (void)state;
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    setenv("ZC_POLICY", value, 1);
    setenv("ZC_LOG", value, 1);
    zc_options_read();
    assert_string_equal(zc_options()->policy, value);
    assert_string_equal(zc_options()->log, value);
}

static void values_are_kept_up_to_the_last_byte_of_their_store(void **state)
{
    static char value[16384 + 1];

    (void)state;
    memset(value, 'x', sizeof(value) - 1);
    setenv("ZC_POLICY", value, 1);
    assert_string_equal(zc_options_read()->policy, "");
    value[sizeof(value) - 2] = 0;
    setenv("ZC_POLICY", value, 1);
    setenv("ZC_LOG", "x", 1);
    assert_string_equal(zc_options_read()->policy, value);
    assert_string_equal(zc_options()->log, "");
}

static void switches_know_four_words(void **state)
{
    (void)state;
    assert_true(zc_option_on("1"));
    assert_true(zc_option_on("yes"));
    assert_true(zc_option_on("on"));
    assert_true(zc_option_on("true"));
    assert_false(zc_option_on(""));
    assert_false(zc_option_on("0"));
    assert_false(zc_option_on("10"));
    assert_false(zc_option_on("ON"));
}

static void a_set_user_id_program_has_the_defaults(void **state)
{
    (void)state;
    setenv("ZC_POLICY", "own.conf", 1);
    setenv("ZC_SUMMARY", "maybe", 1);
    secure = true;
    assert_true(zc_options_read()->secure);
    assert_string_equal(zc_options()->policy, "");
    announces("");
}

static void the_launcher_is_read_with_them(void **state)
{
    (void)state;
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    zc_options_read();
    assert_int_equal(zc_job()->rank, 3);
    clearenv();
    zc_options_read();
    assert_int_not_equal(zc_job()->rank, 3);
}

static void values_without_a_meaning_are_named(void **state)
{
    static char value[16384 + 1];

    (void)state;
    announces("");
    memset(value, 'x', sizeof(value) - 1);
    setenv("ZC_POLICY", value, 1);
    setenv("ZC_LOG", "", 1);
    setenv("ZC_SUMMARY", "", 1);
    setenv("ZC_STRICT", "maybe", 1);
    setenv("ZC_PYTHON", "no", 1);
    announces("ZC_POLICY is too long and was ignored\n"
              "ZC_STRICT=maybe is neither 1 nor 0\n");
    setenv("ZC_POLICY", "own.conf", 1);
    setenv("ZC_STRICT", "1", 1);
    announces("");
}

static void names_that_are_nearly_its_own_are_named(void **state)
{
    (void)state;
    setenv("ZC_POLCY", "own.conf", 1);
    announces("the variable ZC_POLCY is not one of libzc's (nearest: ZC_POLICY)\n");
    setenv("zc_log", "x", 1);
    setenv("Zc_LOG", "x", 1);
    announces("the variable ZC_POLCY is not one of libzc's (nearest: ZC_POLICY)\n"
              "the variable zc_log is not one of libzc's (nearest: ZC_LOG)\n"
              "the variable Zc_LOG is not one of libzc's (nearest: ZC_LOG)\n");
    clearenv();
    setenv("POLCY", "x", 1);
    setenv("XX_POLCY", "x", 1);
    setenv("ZC_UNLIKE_ALL", "x", 1);
    setenv("ZC_POLCYZC_POLCYZC_POLCYZC_POLCYZC_POLCYZC_POLCY", "x", 1);
    setenv("ZC_LOG", "x", 1);
    announces("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(unset_variables_have_their_defaults, clean_environment),
        cmocka_unit_test_setup(every_variable_reaches_its_own_field, clean_environment),
        cmocka_unit_test_setup(a_later_change_of_the_environment_changes_nothing,
                               clean_environment),
        cmocka_unit_test_setup(a_value_that_no_path_can_have_is_ignored, clean_environment),
        cmocka_unit_test_setup(a_value_of_the_longest_path_is_kept, clean_environment),
        cmocka_unit_test_setup(values_are_kept_up_to_the_last_byte_of_their_store,
                               clean_environment),
        cmocka_unit_test_setup(switches_know_four_words, clean_environment),
        cmocka_unit_test_setup(a_set_user_id_program_has_the_defaults, clean_environment),
        cmocka_unit_test_setup(the_launcher_is_read_with_them, clean_environment),
        cmocka_unit_test_setup(values_without_a_meaning_are_named, clean_environment),
        cmocka_unit_test_setup(names_that_are_nearly_its_own_are_named, clean_environment),
    };

    return RUN_TESTS(tests);
}
