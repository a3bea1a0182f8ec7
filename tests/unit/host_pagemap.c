/* SPDX-License-Identifier: MIT */
/* What /proc/self/pagemap tells of private views of files, with PAGEMAP_SCAN and without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#include <cmocka.h>

static bool old_kernel;

static int call(int fd, unsigned long request, void *arg)
{
    return old_kernel ? -1 : ioctl(fd, request, arg);
}

#define ioctl call
#include "../../shim/host/pagemap.c"
#undef ioctl

#define PAGES 1500u /* More than are asked for at once. */

static char *view;
static size_t page;
static unsigned char told[PAGES];

static void visit(uintptr_t from, uintptr_t to, void *arg)
{
    (*(unsigned *)arg)++;
    memset(told + (from - (uintptr_t)view) / page, 1, (to - from) / page);
}

static unsigned ask(size_t first, size_t count)
{
    unsigned runs = 0;
    memset(told, 0, sizeof(told));
    zc_pagemap_each((uintptr_t)view + first * page, (uintptr_t)view + (first + count) * page, visit,
                    &runs);
    return runs;
}

static void written_pages_are_told(bool old)
{
    const char *why;
    old_kernel = old;
    pagemap.answer = 0;
    page = zc_page_end(1);
    int fd = memfd_create("view", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)(PAGES * page)), 0);
    view = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *file = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    assert_true(zc_pagemap_works(&why));
    assert_int_equal(ask(0, PAGES), 0);
    for (size_t i = 0; i < PAGES; i += 7) /* Read, and written by others. */
        file[i * page] = ((volatile char *)view)[i * page] + 1;
    assert_int_equal(ask(0, PAGES), 0);
    for (size_t i = 1; i < PAGES; i += 2)
        view[i * page] = 1;
    assert_int_equal(ask(0, PAGES), PAGES / 2);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(told[i], i % 2);
    memset(view, 1, 600 * page);
    assert_true(ask(0, PAGES) >= (PAGES - 600) / 2);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(told[i], i < 600 || i % 2);
    ask(601, 2);
    assert_true(told[601] && !told[602] && !told[603]);
    /* Closed to the program, swapped out where there is room for that: still its own. */
    madvise(view, PAGES * page, MADV_PAGEOUT);
    mprotect(view, PAGES * page, PROT_NONE);
    ask(0, PAGES);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(told[i], i < 600 || i % 2);
    munmap(view, PAGES * page);
    munmap(file, PAGES * page);
}

static void by_one_call(void **state)
{
    (void)state;
    written_pages_are_told(false);
}

static void by_reading_before_linux_6_7(void **state)
{
    (void)state;
    written_pages_are_told(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_one_call),
        cmocka_unit_test(by_reading_before_linux_6_7),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
