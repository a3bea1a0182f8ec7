/* SPDX-License-Identifier: MIT */
/* Formatting: every formatter against snprintf, and what happens at the end of the buffer. */
#include "base_test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const uint64_t numbers[] = {0,          1,
                                   9,          10,
                                   99,         100,
                                   4095,       4096,
                                   UINT32_MAX, (uint64_t)1 << 32,
                                   INT64_MAX,  (uint64_t)1 << 63,
                                   UINT64_MAX};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static char buf[256];
static struct zc_text t;

static int fresh(void **state)
{
    (void)state;
    memset(buf, '#', sizeof(buf));
    t = zc_text_on(buf, sizeof(buf));
    return 0;
}

static void assert_text(const char *wanted)
{
    assert_string_equal(zc_text_cstr(&t), wanted);
    assert_false(t.truncated);
    t.len = 0;
}

static void numbers_read_as_printf_writes_them(void **state)
{
    char wanted[64];

    (void)state;
    for (size_t i = 0; i < NUMBERS; i++) {
        snprintf(wanted, sizeof(wanted), "%" PRIu64, numbers[i]);
        zc_text_u64(&t, numbers[i]);
        assert_text(wanted);
        snprintf(wanted, sizeof(wanted), "%" PRId64, (int64_t)numbers[i]);
        zc_text_i64(&t, (int64_t)numbers[i]);
        assert_text(wanted);
        for (unsigned digits = 0; digits <= 16; digits += 4) {
            snprintf(wanted, sizeof(wanted), "%0*" PRIx64, (int)digits, numbers[i]);
            zc_text_hex(&t, numbers[i], digits);
            assert_text(wanted);
        }
    }
}

static void formats_read_as_printf_writes_them(void **state)
{
    char wanted[256];

    (void)state;
    snprintf(wanted, sizeof(wanted), "%s|%u|%d|%" PRIu64 "|%" PRIx64 "|%p|%%|", "text", UINT32_MAX,
             INT32_MIN, UINT64_MAX, (uint64_t)0xfeed, (void *)buf);
    zc_text_fmt(&t, "%s|%u|%d|%U|%x|%p|%%|", "text", UINT32_MAX, INT32_MIN, UINT64_MAX,
                (uint64_t)0xfeed, (void *)buf);
    assert_text(wanted);
    zc_text_fmt(&t, "%s %B %X end%", NULL, (uint64_t)4096, UINT32_C(0x5c0ffee));
    assert_text("(null) 4 KiB 05c0ffee end");
}

static void errors_are_told_in_words_or_by_number(void **state)
{
    (void)state;
    zc_text_fmt(&t, "%e, %e", ENOSPC, 4711);
    assert_text("No space left on device, error 4711");
}

static void sizes_have_one_decimal_only_where_it_says_something(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {1025, "1.0 KiB"},
        {4096, "4 KiB"},
        {(1 << 20) - 1, "1.0 MiB"},
        {1 << 20, "1 MiB"},
        {100 << 10, "100 KiB"},
        {(100 << 10) + 600, "101 KiB"},
        {(100 << 10) - 1, "100 KiB"},
        {1023 << 20, "1023 MiB"},
        {((uint64_t)1024 << 20) - 1, "1.0 GiB"},
        {(uint64_t)3 << 29, "1.5 GiB"},
        {(uint64_t)5 << 40, "5 TiB"},
        {(uint64_t)1 << 63, "8 EiB"},
        {UINT64_MAX, "16.0 EiB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        zc_text_bytes(&t, cases[i].bytes);
        assert_text(cases[i].text);
    }
}

static void no_size_is_wider_than_eight_columns(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t delta = 0; delta < 5; delta++) {
            zc_text_bytes(&t, ((uint64_t)1 << bit) / 100 * 97 + delta);
            assert_true(t.len <= 8);
            t.len = 0;
        }
    }
}

static void a_format_may_end_in_a_percent_sign(void **state)
{
    (void)state;
    zc_text_fmt(&t, "100%");
    assert_text("100");
}

static void times_are_at_most_eight_columns_wide(void **state)
{
    (void)state;
    zc_text_fmt(&t, "%t %t %t %t", (uint64_t)999, (uint64_t)1500, (uint64_t)99900000,
                (uint64_t)5000000000000);
    assert_text("999 ns 1.5 us 99.9 ms 5000 s");
}

static void a_full_buffer_keeps_whole_numbers_and_one_byte_for_the_terminator(void **state)
{
    (void)state;
    t = zc_text_on(buf, 8);
    zc_text_str(&t, "size ");
    zc_text_u64(&t, 1234);
    assert_true(t.truncated);
    assert_string_equal(zc_text_cstr(&t), "size ");
    zc_text_str(&t, "x");
    assert_string_equal(zc_text_cstr(&t), "size ");
    assert_int_equal(buf[8], '#');
}

static void plain_text_is_cut_where_the_buffer_ends(void **state)
{
    (void)state;
    t = zc_text_on(buf, 8);
    zc_text_fmt(&t, "%s %d", "0123456789", 7);
    assert_true(t.truncated);
    assert_string_equal(zc_text_cstr(&t), "0123456");
    assert_int_equal(buf[8], '#');
}

static void characters_of_every_length_are_utf8(void **state)
{
    static const struct {
        uint32_t c;
        const char *bytes;
    } rows[] = {{0x7f, "\x7f"},
                {0x80, "\xc2\x80"},
                {0x7ff, "\xdf\xbf"},
                {0x800, "\xe0\xa0\x80"},
                {0xffff, "\xef\xbf\xbf"},
                {0x10000, "\xf0\x90\x80\x80"},
                {0x10ffff, "\xf4\x8f\xbf\xbf"}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        zc_text_utf8(&t, rows[i].c);
        assert_text(rows[i].bytes);
    }
}

static void control_characters_are_disarmed_from_there_to_the_end(void **state)
{
    (void)state;
    memcpy(buf, "a\nb\x1b[\x7fz\n", 8);
    t.len = 7;
    zc_text_disarm(&t, 2);
    assert_memory_equal(buf, "a\nb?[?z\n", 8);
}

static void a_buffer_of_one_byte_holds_the_empty_text(void **state)
{
    (void)state;
    t = zc_text_on(buf, 1);
    zc_text_str(&t, "x");
    zc_text_json(&t, "x");
    assert_string_equal(zc_text_cstr(&t), "");
    assert_int_equal(buf[1], '#');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(numbers_read_as_printf_writes_them, fresh),
        cmocka_unit_test_setup(formats_read_as_printf_writes_them, fresh),
        cmocka_unit_test_setup(errors_are_told_in_words_or_by_number, fresh),
        cmocka_unit_test_setup(sizes_have_one_decimal_only_where_it_says_something, fresh),
        cmocka_unit_test_setup(no_size_is_wider_than_eight_columns, fresh),
        cmocka_unit_test_setup(a_format_may_end_in_a_percent_sign, fresh),
        cmocka_unit_test_setup(times_are_at_most_eight_columns_wide, fresh),
        cmocka_unit_test_setup(a_full_buffer_keeps_whole_numbers_and_one_byte_for_the_terminator,
                               fresh),
        cmocka_unit_test_setup(plain_text_is_cut_where_the_buffer_ends, fresh),
        cmocka_unit_test_setup(characters_of_every_length_are_utf8, fresh),
        cmocka_unit_test_setup(control_characters_are_disarmed_from_there_to_the_end, fresh),
        cmocka_unit_test_setup(a_buffer_of_one_byte_holds_the_empty_text, fresh),
    };

    return RUN_TESTS(tests);
}
