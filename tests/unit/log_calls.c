/* SPDX-License-Identifier: MIT */
/* Each call by which the log opens its file, writes a line and ends, in order; and what is left
 * where one of them fails. */
#include "trace_test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/path.h"
#include "ledger/counters.h"

#define ALL (-1000) /* Of a write: the whole line. */

static struct {
    int takes[4]; /* Bytes that each write takes, or a negative errno value. */
    unsigned writes;
    int created, dup[2], cut; /* Results; negative errno values. */
    unsigned dups;
    bool no_statx, another, locked_out, too_large;
    int64_t size;
} has;

static void expect(const char *calls)
{
    assert_string_equal(trace, calls);
    trace[0] = 0;
    has.writes = has.dups = 0;
}

static long result_of(long value)
{
    if (value >= 0)
        return value;
    errno = (int)-value;
    return -1;
}

static long fake_call(long number, int fd, const char *text, size_t bytes)
{
    int takes = has.takes[has.writes & 3];
    if (number == SYS_close) {
        say("close%d ", fd);
        errno = EIO;
        return 0;
    }
    assert_int_equal(number, SYS_write);
    assert_int_equal(text[bytes - 1], '\n');
    say("write%d ", fd);
    has.writes++;
    return takes == ALL ? (long)bytes : result_of(takes);
}

static int fake_statx(int fd, struct statx *x)
{
    say("statx%d ", fd);
    *x = (struct statx){
        .stx_dev_minor = 3, .stx_ino = has.another ? 8 : 7, .stx_size = (uint64_t)has.size};
    return (int)result_of(has.no_statx ? -EPERM : 0);
}

static int fake_fstat(int fd, struct stat *s)
{
    say("fstat%d ", fd);
    *s = (struct stat){
        .st_dev = makedev(0, 3), .st_ino = has.another ? 8 : 7, .st_size = (off_t)has.size};
    return 0;
}

static int fake_stat(const char *path)
{
    assert_true(path[0]);
    errno = ENOENT;
    return -1;
}

static int fake_cut(int fd, off_t size)
{
    say("cut%d:%d ", fd, (int)size);
    return (int)result_of(has.cut);
}

static int fake_dup(int fd, int least)
{
    say("dup%d:%d ", fd, least);
    return (int)result_of(has.dup[has.dups++ & 1]);
}

static int fake_close(int fd)
{
    say("close%d ", fd);
    errno = EIO;
    return 0;
}

static int fake_create(const char *path)
{
    say("create:%s ", strlen(path) > 40 ? "long" : path);
    return has.created;
}

static bool fake_counters(const char *path)
{
    say("counters:%s ", path ? path : "none");
    errno = EIO;
    return true;
}

static bool fake_lock(const struct zc_lock *lock)
{
    assert_int_equal(lock->rank, ZC_RANK_LOG);
    say("lock ");
    return !has.locked_out;
}

static void fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    assert_int_equal(severity, ZC_WARN);
    assert_string_equal(code, "log");
    if (strstr(format, "'%s'")) {
        const char *path = va_arg(list, const char *);
        say("%s:%d ", strlen(path) > 40 ? "long" : path, va_arg(list, int));
    }
    va_end(list);
}

#define CALL_OF(number, fd, text, bytes, ...) fake_call(number, fd, text, bytes)
#define syscall(...) CALL_OF(__VA_ARGS__, NULL, 0, 0)
#define statx(fd, path, flags, mask, x) fake_statx(fd, x)
#define fstat fake_fstat
#define stat(path, s) ((void)(s), fake_stat(path))
#define ftruncate fake_cut
#define fcntl(fd, what, least) fake_dup(fd, least)
#define close fake_close
#define getpid() 5
#define getauxval(type) 0
#define zc_wall_ns() UINT64_C(99)
#define zc_lock_take(lock) fake_lock(lock)
#define zc_lock_drop(lock) say("unlock ")
#define zc_log_create fake_create
#define zc_log_size_allowed(bytes) (!has.too_large)
#define zc_counters_open fake_counters
#define zc_counters_keep() say("keep ")
#define zc_message fake_message
#include "../../shim/log/log.c"

static int anew(void **state)
{
    (void)state;
    zc_log_reset();
    memset(&has, 0, sizeof(has));
    has.created = 4;
    has.dup[0] = 200;
    for (int i = 0; i < 4; i++)
        has.takes[i] = ALL;
    trace[0] = 0;
    return 0;
}

/* The log has the descriptor 200 then. */
static void opened(void)
{
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    expect("create:a.jsonl dup4:200 close4 fstat200 counters:a.counters ");
}

/* With an error number from before, which stays. */
static void write_line(bool last)
{
    struct zc_line line;
    zc_line_begin(&line, line.own, sizeof(line.own), "test");
    errno = 4711;
    (last ? zc_log_write_last : zc_log_write)(&line);
    assert_int_equal(errno, 4711);
}

static void ended(int error)
{
    assert_int_equal(zc_log_level(), ZC_LOG_OFF);
    assert_int_equal(zc_log_error(), error);
    write_line(false);
    expect("lock unlock ");
}

static void a_line_is_written_at_once_and_again_after_a_signal(void **state)
{
    (void)state;
    opened();
    write_line(false);
    expect("lock statx200 write200 unlock ");
    has.takes[0] = has.takes[1] = -EINTR;
    write_line(false);
    expect("lock statx200 write200 write200 write200 unlock ");
    assert_int_equal(zc_log_level(), ZC_LOG_EVENTS);
    has.takes[0] = -EIO;
    write_line(false);
    expect("lock statx200 write200 close200 keep unlock a.jsonl:5 ");
    ended(EIO);
}

static void what_is_written_of_a_line_that_does_not_fit_is_taken_back(void **state)
{
    (void)state;
    opened();
    has.size = 300;
    has.takes[0] = 3;
    write_line(false);
    expect("lock statx200 write200 cut200:300 close200 keep unlock a.jsonl:28 ");
    ended(ENOSPC);
    anew(NULL);
    opened();
    has.takes[0] = -EINTR;
    has.takes[1] = 0;
    has.cut = -EROFS;
    write_line(false);
    expect("lock statx200 write200 write200 cut200:0 close200 keep unlock a.jsonl:30 ");
    ended(EROFS);
}

static void no_other_file_is_written_or_closed_and_no_limit_passed(void **state)
{
    (void)state;
    opened();
    has.another = true;
    write_line(false);
    expect("lock statx200 keep unlock a.jsonl:9 ");
    ended(EBADF);
    anew(NULL);
    opened();
    has.no_statx = true;
    write_line(false);
    expect("lock statx200 fstat200 write200 unlock ");
    has.too_large = true;
    write_line(false);
    expect("lock statx200 fstat200 close200 keep unlock a.jsonl:27 ");
    ended(EFBIG);
}

/* Its counters are not kept: the last line has them. */
static void the_last_line_ends_the_log_without_a_word(void **state)
{
    (void)state;
    opened();
    write_line(true);
    expect("lock statx200 write200 close200 unlock ");
    ended(0);
    assert_string_equal(zc_log_path(), "a.jsonl");
}

static void lines_of_a_handler_in_the_log_are_lost_and_counted(void **state)
{
    (void)state;
    opened();
    has.locked_out = true;
    write_line(false);
    write_line(true);
    expect("lock lock ");
    assert_int_equal(zc_log_lost(), 2);
    assert_int_equal(zc_log_level(), ZC_LOG_EVENTS);
}

static void a_descriptor_that_can_not_move_up_stays(void **state)
{
    (void)state;
    has.created = 0;
    has.dup[0] = has.dup[1] = -EMFILE;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    expect("create:a.jsonl dup0:200 dup0:3 fstat0 counters:a.counters ");
    write_line(true);
    expect("lock statx0 write0 close0 unlock ");
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    trace[0] = 0;
    zc_log_reset();
    expect("statx0 close0 ");
    has.dups = 0;
    has.dup[1] = 3;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    expect("create:a.jsonl dup0:200 dup0:3 close0 fstat3 counters:a.counters ");
}

static void a_name_that_is_taken_gets_numbers_before_its_ending(void **state)
{
    static char pattern[PATH_MAX];
    (void)state;
    has.created = -EEXIST;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    expect("create:a.jsonl create:a.5.jsonl create:a.5.99.jsonl a.jsonl:17 counters:none ");
    assert_null(zc_log_path());
    memset(pattern, 'a', PATH_MAX - 2); /* With a number it is as long as the buffer. */
    zc_log_open(pattern, ZC_LOG_EVENTS);
    expect("create:long long:36 counters:none ");
}

static void counters_have_the_name_without_its_ending(void **state)
{
    static const char *const names[][2] = {{"a.jsonl", "a.counters"},
                                           {"ab.longer", "ab.longer.counters"},
                                           {".jsonl", ".jsonl.counters"}};
    char calls[100];
    (void)state;
    for (int i = 0; i < 3; i++) {
        anew(NULL);
        zc_log_open(names[i][0], ZC_LOG_EVENTS);
        snprintf(calls, sizeof(calls), "create:%s dup4:200 close4 fstat200 counters:%s ",
                 names[i][0], names[i][1]);
        expect(calls);
    }
}

static void without_a_name_or_a_level_there_are_counters_alone(void **state)
{
    static const char *const names[] = {NULL, "", "off", "a.jsonl"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        errno = 4711;
        zc_log_open(names[i], i == 3 ? ZC_LOG_OFF : ZC_LOG_EVENTS);
        assert_int_equal(errno, 4711);
        expect("counters:none ");
        assert_null(zc_log_path());
    }
}

static void a_log_that_is_left_is_closed_if_it_still_is_the_log(void **state)
{
    (void)state;
    opened();
    has.locked_out = true;
    write_line(false);
    trace[0] = 0;
    errno = 4711;
    zc_log_reset();
    assert_int_equal(errno, 4711);
    expect("statx200 close200 ");
    assert_int_equal(zc_log_lost(), 0);
    assert_null(zc_log_path());
    has.locked_out = false;
    ended(0);
    zc_log_reset(); /* There is none any more. */
    expect("");
    opened();
    has.another = true;
    zc_log_reset();
    expect("statx200 ");
    ended(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_line_is_written_at_once_and_again_after_a_signal, anew),
        cmocka_unit_test_setup(what_is_written_of_a_line_that_does_not_fit_is_taken_back, anew),
        cmocka_unit_test_setup(no_other_file_is_written_or_closed_and_no_limit_passed, anew),
        cmocka_unit_test_setup(the_last_line_ends_the_log_without_a_word, anew),
        cmocka_unit_test_setup(lines_of_a_handler_in_the_log_are_lost_and_counted, anew),
        cmocka_unit_test_setup(a_descriptor_that_can_not_move_up_stays, anew),
        cmocka_unit_test_setup(a_name_that_is_taken_gets_numbers_before_its_ending, anew),
        cmocka_unit_test_setup(counters_have_the_name_without_its_ending, anew),
        cmocka_unit_test_setup(without_a_name_or_a_level_there_are_counters_alone, anew),
        cmocka_unit_test_setup(a_log_that_is_left_is_closed_if_it_still_is_the_log, anew),
    };

    return RUN_TESTS(tests);
}
