/* SPDX-License-Identifier: MIT */
/* What the kernel says of ranges of addresses. */
#include "host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "memory/limits.h"
#include "copy/maps.h"

static char *map(size_t n, int fd)
{
    int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, kind, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* The answer where the kernel knows the question. */
static void answers(const void *p, size_t n, bool write, enum zc_maps_answer expected)
{
    static char own[2 * MIB];
    if (zc_maps_ask(own + MIB, 1, true) == ZC_MAPS_UNKNOWN)
        skip();
    assert_int_equal(zc_maps_ask(p, n, write), expected);
}

static void private_memory_is_what_its_protection_says(void **state)
{
    (void)state;
    char *p = map(8 * MIB, -1);
    answers(p, 8 * MIB, false, ZC_MAPS_YES);
    answers(p + 5, 8 * MIB - 5, true, ZC_MAPS_YES);
    mprotect(p + 4 * MIB, MIB, PROT_READ);
    answers(p, 8 * MIB, false, ZC_MAPS_YES);
    answers(p, 8 * MIB, true, ZC_MAPS_NO);
    answers(p, 4 * MIB, true, ZC_MAPS_YES);
    mprotect(p + 6 * MIB, MIB, PROT_NONE);
    answers(p, 8 * MIB, false, ZC_MAPS_NO);
    munmap(p + 2 * MIB, 4096);
    answers(p, 4 * MIB, false, ZC_MAPS_NO);
    answers(p + MIB, MIB, false, ZC_MAPS_YES);
    munmap(p, 8 * MIB);
    answers(p, 1, false, ZC_MAPS_NO);
}

static void a_file_may_end_early(void **state)
{
    (void)state;
    int fd = open("/proc/self/exe", O_RDONLY);
    char *p = map(MIB, fd);
    answers(p, MIB, false, ZC_MAPS_UNKNOWN);
    munmap(p, MIB);
    close(fd);
}

static void errno_is_kept(void **state)
{
    (void)state;
    errno = 4711;
    zc_maps_ask((void *)(uintptr_t)64, 5, true);
    assert_int_equal(errno, 4711);
}

/* Copies, malloc and free are no cancellation points of the program's. */
static void *ask_while_cancelled(void *returned)
{
    pthread_cancel(pthread_self());
    zc_maps_ask((void *)(uintptr_t)64, 5, true);
    zc_limits_maps();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    *(bool *)returned = true;
    return NULL;
}

static void a_thread_that_is_to_be_cancelled_gets_its_answer(void **state)
{
    pthread_t thread;
    bool returned = false;
    (void)state;
    pthread_create(&thread, NULL, ask_while_cancelled, &returned);
    pthread_join(thread, NULL);
    assert_true(returned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_memory_is_what_its_protection_says),
        cmocka_unit_test(a_file_may_end_early),
        cmocka_unit_test(errno_is_kept),
        cmocka_unit_test(a_thread_that_is_to_be_cancelled_gets_its_answer),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
