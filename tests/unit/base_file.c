/* SPDX-License-Identifier: MIT */
/* Reading small files: what fits, and no byte beside it. */
#include "base_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

static char path[] = "/tmp/zc-file-XXXXXX";

static int make(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    bool whole = write(fd, "0123456789 size: 42 kB\n", 23) == 23;
    close(fd);
    return whole ? 0 : -1;
}

static int unmake(void **state)
{
    (void)state;
    return unlink(path);
}

static void a_text_is_cut_to_its_buffer(void **state)
{
    char text[32];

    (void)state;
    for (size_t cap = 1; cap <= 26; cap++) {
        memset(text, '#', sizeof(text));
        size_t n = cap - 1 < 23 ? cap - 1 : 23;
        assert_int_equal(zc_file_text(path, text, cap), n);
        assert_memory_equal(text, "0123456789 size: 42 kB\n", n);
        assert_int_equal(text[n], 0);
        for (size_t i = n + 1; i < sizeof(text); i++)
            assert_int_equal(text[i], '#');
    }
}

/* The kernel gives some of its files in pieces of less than a page. */
static void a_text_that_comes_in_pieces_is_cut_to_its_buffer(void **state)
{
    static char text[64 << 10];
    const size_t cap = 6000;

    (void)state;
    for (int i = 0; i < 200; i++)
        assert_true(mmap(NULL, 4096, i % 2 ? PROT_NONE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0) != MAP_FAILED);
    memset(text, '#', sizeof(text));
    assert_int_equal(zc_file_text("/proc/self/maps", text, cap), cap - 1);
    assert_int_equal(strlen(text), cap - 1);
    for (size_t i = cap; i < sizeof(text); i++)
        assert_int_equal(text[i], '#');
}

static void a_file_that_is_not_there_is_empty(void **state)
{
    char text[4] = "abc";

    (void)state;
    assert_int_equal(zc_file_text("/nowhere/at/all", text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

static void a_number_is_read_behind_its_label(void **state)
{
    uint64_t number = 7;

    (void)state;
    assert_true(zc_file_number(path, "size:", &number));
    assert_int_equal(number, 42);
    assert_false(zc_file_number(path, "sizes:", &number));
    assert_false(zc_file_number(path, "kB", &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_to_its_buffer),
        cmocka_unit_test(a_text_that_comes_in_pieces_is_cut_to_its_buffer),
        cmocka_unit_test(a_file_that_is_not_there_is_empty),
        cmocka_unit_test(a_number_is_read_behind_its_label),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make, unmake);
}
