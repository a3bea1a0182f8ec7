/* SPDX-License-Identifier: MIT */
/* Pages that libzc makes by itself: where they are, and that nothing of them stays. */
#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "memory/pages.h"

#define ROUNDS 200u

static size_t addresses(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages << 12;
}

/* The threads that bring pages in have stacks, which the first round makes. */
static void pages_begin_at_a_huge_page_and_leave_no_addresses_behind(void **state)
{
    const size_t margins[] = {0, 4096, 65536};
    size_t first = 0;

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = (size_t)1 + i % 5 * (1 << 20), margin = margins[i % 3];
        char *pages = zc_pages_make(bytes, margin, -1);

        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % ZC_HUGE_PAGE, 0);
        memset(pages - margin, 1, zc_pages_span(bytes) + 2 * margin);
        zc_pages_unmake(pages, bytes, margin);
        first = i ? first : addresses();
    }
    assert_true(addresses() < first + ROUNDS * (size_t)8192);
}

static void what_no_address_space_holds_is_refused(void **state)
{
    (void)state;
    assert_null(zc_pages_make(SIZE_MAX, 0, -1));
    assert_null(zc_pages_make(SIZE_MAX / 2, 4096, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_begin_at_a_huge_page_and_leave_no_addresses_behind),
        cmocka_unit_test(what_no_address_space_holds_is_refused),
    };

    return RUN_TESTS(tests);
}
