/* SPDX-License-Identifier: MIT */
/* Short-lived threads: what they copy, clear and touch, and how they start. */
#include "memory/thread.h"
#include "memory/pages.h"
#include "memory/workers.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define MOST (70 * MIB) /* More than one share for each of the threads that there may be. */
#define MARGIN ((size_t)64)
#define HUGE (2 * MIB)

/* More thread-local storage than the stack of a worker has room for. */
static __thread volatile char wide[MIB];

static const size_t sizes[] = {
    0, 1, 4095, 4 * MIB, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 17 * MIB + 4099, 64 * MIB, MOST};

static unsigned char *memory(size_t n)
{
    unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void check_margins(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < MARGIN; i++)
        if (p[i] != 0xa5 || p[MARGIN + n + i] != 0xa5)
            fail_msg("a byte beside %zu bytes has changed", n);
}

static void copies_and_clears_are_whole(void **state)
{
    (void)state;
    unsigned char *from = memory(MOST + 1), *to = memory(MOST + 2 * MARGIN);
    for (size_t i = 0; i < MOST; i += 8)
        memcpy(from + i, &(uint64_t){i * UINT64_C(0x9e3779b97f4a7c15)}, 8);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s];
        memset(to, 0xa5, n + 2 * MARGIN);
        zc_workers_copy(to + MARGIN, from + 1, n);
        assert_memory_equal(to + MARGIN, from + 1, n);
        check_margins(to, n);
        zc_workers_zero(to + MARGIN, n);
        assert_true(n == 0 || (to[MARGIN] == 0 && !memcmp(to + MARGIN, to + MARGIN + 1, n - 1)));
        check_margins(to, n);
    }
    munmap(from, MOST + 1);
    munmap(to, MOST + 2 * MARGIN);
}

static void every_page_is_touched(void **state)
{
    (void)state;
    static unsigned char present[MOST / 4096 + 1];
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t n = sizes[s], pages = (n + 4095) / 4096;
        unsigned char *p = memory(MOST);
        zc_workers_prefault(p, n, false, -1);
        assert_int_equal(mincore(p, MOST, present), 0);
        for (size_t i = 0; i < pages; i++)
            if (!(present[i] & 1))
                fail_msg("page %zu of %zu bytes was not touched", i, n);
        munmap(p, MOST);
    }
}

/* Bytes that the caller waits for are there; others may not be yet, and stay as they are. */
static void pages_come_in_from_the_first_to_the_last_and_keep_their_content(void **state)
{
    (void)state;
    static unsigned char present[MOST / 4096];
    unsigned char *p = memory(MOST + HUGE);
    p += -(uintptr_t)p % HUGE;
    memset(p + MIB, 7, MIB);
    struct zc_fill *fill = zc_workers_fill(p, MOST, ZC_FILL_USED, 0);
    for (size_t n = MIB; n < MOST; n += 23 * MIB) {
        zc_workers_filled(fill, n);
        assert_int_equal(mincore(p, MOST, present), 0);
        for (size_t i = 0; i < n / 4096; i++)
            if (!(present[i] & 1))
                fail_msg("page %zu of %zu bytes is not there", i, n);
    }
    zc_workers_end_fill(fill);
    assert_int_equal(mincore(p, MOST, present), 0);
    unsigned char after[sizeof(present)];
    assert_int_equal(mincore(p, MOST, after), 0);
    assert_memory_equal(after, present, sizeof(present));
    assert_true(p[MIB] == 7 && !memcmp(p + MIB, p + MIB + 1, MIB - 1));
    assert_int_equal(p[2 * MIB], 0);
}

/* In huge pages, or one by one where the kernel makes none of files. */
static void memory_of_a_file_is_touched_too(void **state)
{
    (void)state;
    static unsigned char present[MOST / 4096];
    unsigned char *p = mmap(NULL, MOST + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    int fd = memfd_create("test", 0);
    assert_int_equal(ftruncate(fd, MOST), 0);
    p += -(uintptr_t)p % HUGE;
    for (size_t n = 1; n <= MOST; n = n < 7 * MIB ? 7 * MIB : n + 21 * MIB) {
        assert_true(mmap(p, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == p);
        zc_workers_prefault(p, n, true, -1);
        assert_int_equal(mincore(p, MOST, present), 0);
        for (size_t i = 0; i < (n + 4095) / 4096; i++)
            if (!(present[i] & 1))
                fail_msg("page %zu of %zu bytes was not touched", i, n);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, MOST), 0);
    }
    close(fd);
}

/* Pages that threads bring in near a device change nothing for those that the program takes then.
 */
static void the_threads_choice_of_nodes_stays_its_own(void **state)
{
    int policy = 1;
    (void)state;
    zc_workers_prefault(memory(8 * MIB), 8 * MIB, false, -1);
    struct zc_fill *fill = zc_workers_fill(memory(8 * MIB), 8 * MIB, ZC_FILL_FRESH, 0);
    zc_workers_filled(fill, 8 * MIB);
    zc_workers_end_fill(fill);
    assert_int_equal(syscall(SYS_get_mempolicy, &policy, NULL, 0ul, NULL, 0ul), 0);
    assert_int_equal(policy, 0);
}

/* Blocks of 512 pages and more; other lines and words count nothing. */
static void free_huge_pages_are_counted_from_the_kernels_list(void **state)
{
    (void)state;
    static const char text[] =
        "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1 "
        "     1      3 \n"
        "Node 0, zone   Normal     57  71046  27701  11639  11202   3199   1204    287     78 "
        "   563   1765 \n"
        "Node 1, zone  Movable      9      9      9      9      9      9      9      9      9 "
        "     2 \n";
    if (sysconf(_SC_PAGESIZE) != 4096)
        skip();
    assert_int_equal(zc_pages_huge_in(text), (1 + 2 * 3 + 563 + 2 * 1765 + 2) * HUGE);
    assert_int_equal(zc_pages_huge_in(""), 0);
    assert_int_equal(zc_pages_huge_in("Node 0, zone"), 0);
}

static void *mask_of_thread(void *mask)
{
    wide[0] = 1;
    pthread_sigmask(SIG_BLOCK, NULL, mask);
    return mask;
}

static void a_thread_starts_with_more_local_storage_than_stack_and_takes_no_signal(void **state)
{
    (void)state;
    pthread_t thread;
    sigset_t mask, before, after;
    sigemptyset(&mask);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_true(zc_thread_start(&thread, mask_of_thread, &mask));
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    pthread_join(thread, NULL);
    for (int sig = 1; sig <= SIGSYS; sig++) {
        assert_int_equal(sigismember(&after, sig), sigismember(&before, sig));
        if (sig != SIGKILL && sig != SIGSTOP)
            assert_true(sigismember(&mask, sig));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_clears_are_whole),
        cmocka_unit_test(every_page_is_touched),
        cmocka_unit_test(pages_come_in_from_the_first_to_the_last_and_keep_their_content),
        cmocka_unit_test(memory_of_a_file_is_touched_too),
        cmocka_unit_test(the_threads_choice_of_nodes_stays_its_own),
        cmocka_unit_test(free_huge_pages_are_counted_from_the_kernels_list),
        cmocka_unit_test(a_thread_starts_with_more_local_storage_than_stack_and_takes_no_signal),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
