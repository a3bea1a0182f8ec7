/* SPDX-License-Identifier: MIT */
/*
 * Glob patterns, what one pattern covers of another, and the nearest word.
 */
#include "policy_test.h"

#include "policy/internal.h"

static bool match(const char *pattern, const char *text)
{
    return zc_glob_match(zc_slice_of(pattern), zc_slice_of(text));
}

static bool covers(const char *pattern, const char *other)
{
    return zc_glob_covers(zc_slice_of(pattern), zc_slice_of(other));
}

static void a_star_matches_any_run(void **state)
{
    (void)state;
    assert_true(match("*", ""));
    assert_true(match("*", "anything"));
    assert_true(match("lib*", "lib"));
    assert_true(match("lib*.so*", "libfoo.so.1"));
    assert_true(match("*a*b", "xaxbxab"));
    assert_true(match("a**b", "ab"));
    assert_false(match("lib*", "Lib"));
    assert_false(match("*a*b", "xaxbxa"));
    assert_false(match("ab*bc", "abc"));
    assert_false(match("", "a"));
    assert_true(match("", ""));
}

static void a_question_mark_matches_one_byte(void **state)
{
    (void)state;
    assert_true(match("a?c", "abc"));
    assert_true(match("???", "\xff\xfe#"));
    assert_false(match("a?c", "ac"));
    assert_false(match("?", ""));
}

static void a_class_matches_its_members(void **state)
{
    (void)state;
    assert_true(match("[abc]", "b"));
    assert_false(match("[abc]", "d"));
    assert_true(match("v[0-9].[0-9]", "v3.7"));
    assert_true(match("[!0-9]x", "ax"));
    assert_false(match("[^0-9]x", "1x"));
    assert_true(match("[]]", "]"));
    assert_true(match("[!]]", "a"));
    assert_false(match("[!]]", "]"));
    assert_true(match("[a-]", "-"));
    assert_true(match("[\x80-\xff]", "\xc3"));
    assert_false(match("[abc]", ""));
}

static void a_broken_pattern_is_told(void **state)
{
    (void)state;
    assert_null(zc_glob_fault(zc_slice_of("lib[a-z]*?.so")));
    assert_null(zc_glob_fault(zc_slice_of("[a-c-b]")));
    assert_non_null(zc_glob_fault(zc_slice_of("a[")));
    assert_non_null(zc_glob_fault(zc_slice_of("[]")));
    assert_non_null(zc_glob_fault(zc_slice_of("[!]")));
    assert_non_null(zc_glob_fault(zc_slice_of("[z-a]")));
    assert_non_null(zc_glob_fault(zc_slice_of("ok[!9-0]")));
}

static void stars_do_not_multiply_the_work(void **state)
{
    (void)state;
    char text[256];

    memset(text, 'a', 255);
    text[255] = '\0';
    assert_false(match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
    text[254] = 'b';
    assert_true(match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

static void a_wider_pattern_covers_a_narrower_one(void **state)
{
    (void)state;
    assert_true(covers("*", "a*b?[c]"));
    assert_true(covers("lib*", "libfoo.so*"));
    assert_true(covers("lib*", "lib[ab]*"));
    assert_true(covers("a?c", "abc"));
    assert_true(covers("a?c", "a?c"));
    assert_true(covers("a?c", "a[xyz]c"));
    assert_true(covers("a[xy]", "a[xy]"));
    assert_true(covers("a[xyz]c", "a[xyz]c"));
    assert_true(covers("a[xyz]c", "ayc"));
    assert_true(covers("*o*", "*foo*"));
}

/* Coverage that zc_glob_covers() affirms must hold for every text, so that no rule is called hidden
 * that can still match. */
static void a_pattern_is_not_covered_by_a_narrower_one(void **state)
{
    (void)state;
    assert_false(covers("libfoo*", "lib*"));
    assert_false(covers("a[xy]", "a[xz]"));
    assert_false(covers("a?c", "a*c"));
    assert_false(covers("abc", "a?c"));
    assert_false(covers("a[xyz]c", "a?c"));
    assert_false(covers("a[xy]c", "a[xyz]c"));
    assert_false(covers("[*]", "*"));
    assert_false(covers("?", "*"));
    assert_false(covers("*b", "*"));
}

static void the_shortest_match_is_known(void **state)
{
    (void)state;
    assert_int_equal(zc_glob_shortest(zc_slice_of("a*b?[cd]*")), 4);
    assert_int_equal(zc_glob_shortest(zc_slice_of("***")), 0);
}

static unsigned distance(const char *a, const char *b)
{
    return zc_nearest_distance(zc_slice_of(a), zc_slice_of(b));
}

static void distance_counts_letters_changed(void **state)
{
    (void)state;
    assert_int_equal(distance("place", "place"), 0);
    assert_int_equal(distance("Place", "pLACE"), 0);
    assert_int_equal(distance("plcae", "place"), 1);
    assert_int_equal(distance("plac", "place"), 1);
    assert_int_equal(distance("pllace", "place"), 1);
    assert_int_equal(distance("plave", "place"), 1);
    assert_int_equal(distance("kitten", "sitting"), 3);
    assert_int_equal(distance("", "abc"), 3);
    assert_int_equal(distance("abc", ""), 3);
    assert_int_equal(distance("01234567890123456789012345678901234567890", "a"), UINT32_MAX);
}

static void only_near_words_are_suggested(void **state)
{
    (void)state;
    static const struct zc_word words[] = {
        {"vmm", 0}, {"managed", 0}, {"mapped", 0}, {"read_mostly", 0}, {NULL, 0}};

    assert_string_equal(zc_nearest_word(zc_slice_of("vm"), words), "vmm");
    assert_string_equal(zc_nearest_word(zc_slice_of("maped"), words), "mapped");
    assert_string_equal(zc_nearest_word(zc_slice_of("readmosty"), words), "read_mostly");
    assert_null(zc_nearest_word(zc_slice_of("xyz"), words));
    assert_null(zc_nearest_word(zc_slice_of("mm"), (const struct zc_word[]){{"ab", 0}, {NULL, 0}}));
    assert_null(zc_nearest_word(zc_slice_of("readmst"), words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_matches_any_run),
        cmocka_unit_test(a_question_mark_matches_one_byte),
        cmocka_unit_test(a_class_matches_its_members),
        cmocka_unit_test(a_broken_pattern_is_told),
        cmocka_unit_test(stars_do_not_multiply_the_work),
        cmocka_unit_test(a_wider_pattern_covers_a_narrower_one),
        cmocka_unit_test(a_pattern_is_not_covered_by_a_narrower_one),
        cmocka_unit_test(the_shortest_match_is_known),
        cmocka_unit_test(distance_counts_letters_changed),
        cmocka_unit_test(only_near_words_are_suggested),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
