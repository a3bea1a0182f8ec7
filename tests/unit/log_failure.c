/* SPDX-License-Identifier: MIT */
/* The log in trouble: full disk, size limit, lost descriptor, SIGKILL, fork, many threads. */
#include "log_test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "forbid_test.h"
#include "log/log.h"

static struct zc_log_meta meta;

static void write_some(int lines)
{
    char buf[ZC_LINE_MAX];
    struct zc_line line;

    for (int i = 0; i < lines; i++) {
        zc_line_begin(&line, buf, sizeof(buf), "test");
        zc_line_str(&line, "text", "0123456789012345678901234567890123456789");
        zc_log_write(&line);
    }
}

static void fill_limited_file(void)
{
    struct rlimit limit = {10000, 10000};

    setrlimit(RLIMIT_FSIZE, &limit);
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    zc_log_meta(&meta);
    errno = 4711;
    write_some(1000);
    _exit(errno == 4711 && zc_log_level() == ZC_LOG_OFF && zc_log_error() == EFBIG ? 0 : 1);
}

static void a_file_size_limit_ends_the_log_and_raises_no_signal(void **state)
{
    size_t size;

    (void)state;
    assert_int_equal(in_child(fill_limited_file), 0);
    size = strlen(text_of("a.jsonl"));
    assert_in_range(size, 9000, 10000);
    assert_true(json_lines(text_of("a.jsonl")) > 10);
    assert_false(exists("a.counters"));
}

static void lower_the_limit(void)
{
    struct rlimit limit = {20000, 20000};

    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    write_some(500);
    setrlimit(RLIMIT_FSIZE, &limit);
    write_some(1);
    _exit(zc_log_level() == ZC_LOG_OFF && zc_log_error() == EFBIG ? 0 : 1);
}

static void a_limit_that_is_lowered_below_the_logs_size_raises_no_signal(void **state)
{
    (void)state;
    assert_int_equal(in_child(lower_the_limit), 0);
    assert_int_equal(json_lines(text_of("a.jsonl")), 500);
}

/* In a mount namespace of its own, so that no mount outlives the test. */
static void fill_small_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mkdir("disk", 0700) != 0 || mount("zc", "disk", "tmpfs", 0, "size=64k") != 0)
        _exit(77);
    zc_log_open("disk/a.jsonl", ZC_LOG_EVENTS);
    zc_log_meta(&meta);
    write_some(5000);
    if (zc_log_level() != ZC_LOG_OFF || zc_log_error() != ENOSPC || exists("disk/a.counters"))
        _exit(1);
    _exit(json_lines(text_of("disk/a.jsonl")) > 100 ? 0 : 2);
}

static void a_full_disk_ends_the_log_behind_a_whole_line(void **state)
{
    int status;

    (void)state;
    status = in_child(fill_small_disk);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

/* The program closes all descriptors, as daemons do, and gets ours back for a file of its own. */
static void reuse_descriptors(void)
{
    int last = -1;

    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    for (int fd = 3; fd < 300; fd++)
        last = open("precious", O_CREAT | O_WRONLY, 0600);
    write_some(3);
    if (zc_log_level() != ZC_LOG_OFF)
        _exit(1);
    _exit(last >= 200 && fcntl(last, F_GETFD) >= 0 ? 0 : 2);
}

static void a_reused_descriptor_is_neither_written_nor_closed(void **state)
{
    (void)state;
    assert_int_equal(in_child(reuse_descriptors), 0);
    assert_string_equal(text_of("precious"), "");
}

static rlim_t most; /* One more than the highest descriptor. */

/* Printing then writes nowhere, as without libzc. */
static void print_nowhere(void)
{
    struct rlimit low = {most, most};

    close_range(STDIN_FILENO, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &low);
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    write_some(1);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            _exit(1);
    _exit(zc_log_level() == ZC_LOG_OFF ? 2 : 0);
}

static void the_log_is_no_standard_descriptor_whatever_the_limit(void **state)
{
    (void)state;
    for (most = 100; most >= 4; most /= 5) {
        assert_int_equal(in_child(print_nowhere), 0);
        unlink("a.jsonl");
        unlink("a.counters");
    }
}

static void write_and_reuse_without_statx(void)
{
    if (!forbid(SYS_statx))
        _exit(77);
    zc_log_open("b.jsonl", ZC_LOG_EVENTS);
    write_some(3);
    if (zc_log_level() != ZC_LOG_EVENTS)
        _exit(3);
    zc_log_reset();
    reuse_descriptors();
}

static void where_statx_is_forbidden_the_log_is_still_told_from_another_file(void **state)
{
    int status;

    (void)state;
    status = in_child(write_and_reuse_without_statx);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    assert_int_equal(json_lines(text_of("b.jsonl")), 3);
    assert_string_equal(text_of("precious"), "");
}

static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(all);
    while (readdir(all))
        n++;
    closedir(all);
    return n;
}

/* As a child does whose parent had one. */
static void a_log_that_is_left_keeps_no_descriptor(void **state)
{
    int before = descriptors();

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    write_some(1);
    assert_true(descriptors() > before);
    zc_log_reset();
    assert_int_equal(descriptors(), before);
}

static void write_until_killed(void)
{
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    for (;;)
        write_some(1);
}

/* A kernel may leave a write at a page's edge for SIGKILL: an end without newline is no line. */
static void after_sigkill_every_line_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        struct stat s = {.st_size = 0};
        char *text;

        if (child == 0)
            write_until_killed();
        while (s.st_size < 20000)
            if (stat("a.jsonl", &s) != 0)
                sched_yield();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        text = text_of("a.jsonl");
        *(strrchr(text, '\n') + 1) = 0;
        assert_true(json_lines(text) > 100);
        unlink("a.jsonl");
        unlink("a.counters");
    }
}

enum { THREADS = 8, LINES = 500 };

static void *write_lines(void *arg)
{
    (void)arg;
    write_some(LINES);
    return NULL;
}

static void lines_of_many_threads_do_not_mix(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, write_lines, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(json_lines(text_of("a.jsonl")), THREADS * LINES);
}

static void log_as_child(void)
{
    zc_message_reset();
    zc_counters_reset();
    zc_log_reset();
    write_some(1);
    zc_message(ZC_WARN, "test", "not in the parent's log");
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    write_some(2);
    _exit(rename(zc_log_path(), "child.jsonl"));
}

static void a_forked_child_writes_a_log_of_its_own(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    write_some(1);
    assert_int_equal(in_child(log_as_child), 0);
    write_some(1);
    assert_int_equal(json_lines(text_of("a.jsonl")), 2);
    assert_int_equal(json_lines(text_of("child.jsonl")), 2);
}

static void an_executed_program_does_not_inherit_the_log(void **state)
{
    struct stat log, s;
    int found = 0;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    assert_int_equal(stat("a.jsonl", &log), 0);
    for (int fd = 0; fd < 1024; fd++) {
        if (fstat(fd, &s) != 0 || s.st_ino != log.st_ino || s.st_dev != log.st_dev)
            continue;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        found++;
    }
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_file_size_limit_ends_the_log_and_raises_no_signal),
        FOLDER_TEST(a_limit_that_is_lowered_below_the_logs_size_raises_no_signal),
        FOLDER_TEST(a_full_disk_ends_the_log_behind_a_whole_line),
        FOLDER_TEST(a_reused_descriptor_is_neither_written_nor_closed),
        FOLDER_TEST(the_log_is_no_standard_descriptor_whatever_the_limit),
        FOLDER_TEST(where_statx_is_forbidden_the_log_is_still_told_from_another_file),
        FOLDER_TEST(a_log_that_is_left_keeps_no_descriptor),
        FOLDER_TEST(after_sigkill_every_line_is_whole),
        FOLDER_TEST(lines_of_many_threads_do_not_mix),
        FOLDER_TEST(a_forked_child_writes_a_log_of_its_own),
        FOLDER_TEST(an_executed_program_does_not_inherit_the_log),
    };

    return RUN_TESTS(tests);
}
