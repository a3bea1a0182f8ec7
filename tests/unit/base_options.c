/* SPDX-License-Identifier: MIT */
/* The environment variables: defaults, copies, what is too long. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"

static int clean_environment(void **state)
{
    (void)state;
    clearenv();
    zc_options_read();
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
    };

    return RUN_TESTS(tests);
}
