/* SPDX-License-Identifier: MIT */
/* Private views of files by /proc/self/pagemap, with PAGEMAP_SCAN and without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static enum { SCANS, TOO_OLD, GETS_NOWHERE } kernel;

static int call(int fd, unsigned long request, void *arg)
{
    return kernel == SCANS ? ioctl(fd, request, arg) : kernel == TOO_OLD ? -1 : 0;
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

static void written_pages_are_told(int now)
{
    const char *why;
    kernel = now;
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
    written_pages_are_told(SCANS);
}

static void by_reading_before_linux_6_7(void **state)
{
    (void)state;
    written_pages_are_told(TOO_OLD);
}

static void by_reading_where_a_scan_gets_nowhere(void **state)
{
    (void)state;
    written_pages_are_told(GETS_NOWHERE);
}

/* Nothing is read then, and no page that was written goes untold. */
static void what_a_scan_that_fails_later_has_not_told_counts_as_written(void **state)
{
    const char *why;
    (void)state;
    kernel = SCANS;
    pagemap.answer = 0;
    if (!zc_pagemap_works(&why) || !pagemap.scans)
        skip();
    page = zc_page_end(1);
    view = mmap(NULL, 10 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    kernel = TOO_OLD;
    assert_int_equal(ask(0, 10), 1);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(told[i], 1);
    munmap(view, 10 * page);
}

static void pages_that_a_child_has_as_well_are_counted(void **state)
{
    int hold[2];
    char byte;
    (void)state;
    page = zc_page_end(1);
    char *p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t low = (uintptr_t)p, high = low + 8 * page;
    memset(p, 1, 8 * page);
    assert_int_equal(zc_pagemap_inherited(low, high, 8), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        close(hold[1]);
        _exit((int)read(hold[0], &byte, 1)); /* Until the other end is closed. */
    }
    memset(p, 2, 3 * page);
    assert_int_equal(zc_pagemap_inherited(low, high, 8), 5);
    close(hold[1]);
    waitpid(child, NULL, 0);
    close(hold[0]);
    munmap(p, 8 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_one_call),
        cmocka_unit_test(by_reading_before_linux_6_7),
        cmocka_unit_test(by_reading_where_a_scan_gets_nowhere),
        cmocka_unit_test(what_a_scan_that_fails_later_has_not_told_counts_as_written),
        cmocka_unit_test(pages_that_a_child_has_as_well_are_counted),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
