/* SPDX-License-Identifier: MIT */
/* JSON strings: what is escaped, what is replaced, and that nothing is cut in the middle. */
#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define REPLACED "\xef\xbf\xbd"

static void assert_json(const char *text, const char *wanted)
{
    char buf[256];
    struct zc_text t = zc_text_on(buf, sizeof(buf));

    zc_text_json(&t, text);
    assert_string_equal(zc_text_cstr(&t), wanted);
    assert_false(t.truncated);
}

static void plain_text_stays_as_it_is(void **state)
{
    (void)state;
    assert_json("", "");
    assert_json("/usr/bin/a b~", "/usr/bin/a b~");
    assert_json("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
}

static void every_printable_byte_but_quote_and_backslash_stands_for_itself(void **state)
{
    (void)state;
    for (char c = ' '; c <= '~'; c++) {
        const char text[] = {c, 'a', c, 0};

        if (c != '"' && c != '\\')
            assert_json(text, text);
    }
}

static void quotes_and_control_characters_are_escaped(void **state)
{
    (void)state;
    assert_json("a\"b\\c", "a\\\"b\\\\c");
    assert_json("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
    assert_json("\x01\x1f\x7f", "\\u0001\\u001f\\u007f");
}

static void bytes_that_are_not_utf8_become_replacement_characters(void **state)
{
    (void)state;
    assert_json("a\xff\x80z", "a" REPLACED REPLACED "z");    /* Never lead bytes. */
    assert_json("\xc0\xaf", REPLACED REPLACED);              /* Overlong slash. */
    assert_json("\xe0\x80\xaf", REPLACED REPLACED REPLACED); /* The same in three bytes. */
    assert_json("\xed\xa0\x80", REPLACED REPLACED REPLACED); /* A surrogate. */
    assert_json("\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED); /* Above U+10FFFF. */
}

/* Unicode's advice, and what other decoders do: one replacement for the part that was begun. */
static void a_broken_sequence_becomes_one_replacement_character(void **state)
{
    (void)state;
    assert_json("\xe2\x82", REPLACED);
    assert_json("\xe2\x82 x", REPLACED " x");
    assert_json("\xf0\x9f\x98", REPLACED);
    assert_json("\xf0\x9f\x98\"", REPLACED "\\\"");
}

static void no_escape_or_character_is_cut_at_the_end_of_the_buffer(void **state)
{
    static const char *const texts[] = {"ab\x01", "ab\"", "ab\xf0\x9f\x98\x80", "ab\xff"};
    char buf[32];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char full[32];
        struct zc_text t = zc_text_on(full, sizeof(full));

        zc_text_json(&t, texts[i]);
        zc_text_cstr(&t);
        for (size_t cap = 3; cap <= strlen(full) + 1; cap++) {
            struct zc_text s = zc_text_on(buf, cap);

            memset(buf, '#', sizeof(buf));
            zc_text_json(&s, texts[i]);
            assert_string_equal(zc_text_cstr(&s), cap == strlen(full) + 1 ? full : "ab");
            assert_true(s.truncated == (cap <= strlen(full)));
            assert_int_equal(buf[cap], '#');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_stays_as_it_is),
        cmocka_unit_test(every_printable_byte_but_quote_and_backslash_stands_for_itself),
        cmocka_unit_test(quotes_and_control_characters_are_escaped),
        cmocka_unit_test(bytes_that_are_not_utf8_become_replacement_characters),
        cmocka_unit_test(a_broken_sequence_becomes_one_replacement_character),
        cmocka_unit_test(no_escape_or_character_is_cut_at_the_end_of_the_buffer),
    };

    return RUN_TESTS(tests);
}
