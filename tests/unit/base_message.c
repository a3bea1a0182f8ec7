/* SPDX-License-Identifier: MIT */
/* Messages: their form, their number, and that stderr is never written to wrongly. */
#include "base_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/message.h"
#include "base/options.h"
#include "forbid_test.h"

static char printed[65536];

static bool no_log(enum zc_severity severity, const char *code, const char *text)
{
    (void)severity, (void)code, (void)text;
    return false;
}

/* Runs body in a child whose stderr is a pipe, whose bytes `printed` then holds. */
static int run_with_stderr(void (*body)(void))
{
    size_t have = 0;
    int status, pipes[2];
    ssize_t n;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        zc_message_reset();
        zc_message_init();
        zc_message_set_sink(no_log);
        body();
        _exit(0);
    }
    close(pipes[1]);
    while ((n = read(pipes[0], printed + have, sizeof(printed) - 1 - have)) > 0)
        have += (size_t)n;
    printed[have] = 0;
    close(pipes[0]);
    waitpid(child, &status, 0);
    return status;
}

static int lines(void)
{
    int n = 0;

    for (const char *p = printed; (p = strchr(p, '\n')) != NULL; p++)
        n++;
    return n;
}

static void say_one(void)
{
    errno = 4711;
    zc_message(ZC_WARN, "test", "%s has %d sides", "a dice", 6);
    if (errno != 4711)
        _exit(1);
}

static void a_message_is_one_line_with_the_librarys_name(void **state)
{
    (void)state;
    assert_int_equal(run_with_stderr(say_one), 0);
    assert_string_equal(printed, "libzc: a dice has 6 sides\n");
}

static void say_escapes(void)
{
    zc_message(ZC_WARN, "test", "name '%s'", "a\033[2J\nb\x7f");
}

static void terminal_escapes_and_newlines_of_a_name_are_not_printed(void **state)
{
    (void)state;
    run_with_stderr(say_escapes);
    assert_string_equal(printed, "libzc: name 'a?[2J?b?'\n");
}

static void say_much(void)
{
    for (int i = 0; i < 100; i++) {
        static const char code[] = "much"; /* Another address than that of the constant. */

        zc_message(ZC_WARN, i % 2 ? "much" : code, "number %d", i);
    }
    zc_message(ZC_WARN, "other", "other");
}

static void a_code_is_printed_sixteen_times(void **state)
{
    (void)state;
    run_with_stderr(say_much);
    assert_int_equal(lines(), 17);
    assert_non_null(strstr(printed, "number 15 (more of this kind are not printed)\n"));
    assert_non_null(strstr(printed, "libzc: other\n"));
}

static void say_many_kinds(void)
{
    static char names[70][12];

    for (int i = 0; i < 70; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        for (int n = 0; n < 16; n++)
            zc_message(ZC_WARN, names[i], "of kind %d", i);
    }
}

static void sixty_three_codes_count_for_themselves_and_all_others_together(void **state)
{
    (void)state;
    run_with_stderr(say_many_kinds);
    assert_int_equal(lines(), 64 * 16);
}

static void say_long(void)
{
    char *text = malloc(5001);

    memset(text, 'x', 5000);
    text[5000] = 0;
    zc_message(ZC_WARN, "test", "%s", text);
}

static void a_long_message_is_cut_and_still_a_line(void **state)
{
    (void)state;
    run_with_stderr(say_long);
    assert_int_equal(lines(), 1);
    assert_in_range(strlen(printed), 900, 1100);
}

static void first_is_true_once_a_code(void **state)
{
    (void)state;
    zc_message_set_sink(no_log);
    zc_message_reset();
    assert_true(zc_message_first("a"));
    assert_false(zc_message_first("a"));
    assert_true(zc_message_first("b"));
    zc_message_reset(); /* A child that has not started libzc has what its parent holds. */
    assert_false(zc_message_first("b"));
    zc_message_set_sink(no_log);
    zc_message_reset();
    assert_true(zc_message_first("a"));
}

/* A file opened after stderr was closed gets descriptor 2, and must not get our text. */
static void say_after_close(void)
{
    char name[] = "/tmp/zc-message-XXXXXX";
    char byte;
    int fd;

    close(STDERR_FILENO);
    errno = 4711;
    zc_message_init();
    if (errno != 4711)
        _exit(2);
    fd = mkstemp(name);
    unlink(name);
    zc_message(ZC_WARN, "test", "text");
    zc_message_raw("text", 4);
    _exit(fd == STDERR_FILENO && pread(fd, &byte, 1, 0) == 0 ? 0 : 1);
}

static void nothing_is_written_when_stderr_was_closed_at_load(void **state)
{
    (void)state;
    assert_int_equal(run_with_stderr(say_after_close), 0);
}

static void say_into_reused_descriptor(void)
{
    char name[] = "/tmp/zc-message-XXXXXX";
    char byte;
    int pair[2];

    close(STDERR_FILENO);
    if (mkstemp(name) != STDERR_FILENO)
        _exit(1);
    unlink(name);
    zc_message(ZC_WARN, "test", "text");
    if (pread(STDERR_FILENO, &byte, 1, 0) != 0)
        _exit(2);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || dup2(pair[0], STDERR_FILENO) != 2)
        _exit(3);
    zc_message(ZC_WARN, "test", "text");
    _exit(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0 ? 0 : 4);
}

static void nothing_is_written_when_the_program_reuses_descriptor_two(void **state)
{
    (void)state;
    assert_int_equal(run_with_stderr(say_into_reused_descriptor), 0);
}

static void say_to_nobody(void)
{
    int pipes[2];
    sigset_t pending;

    if (pipe(pipes) != 0 || dup2(pipes[1], STDERR_FILENO) != STDERR_FILENO)
        _exit(1);
    close(pipes[0]);
    close(pipes[1]);
    zc_message_init();
    zc_message(ZC_WARN, "test", "text");
    errno = 4711;
    zc_message_raw("text", 4);
    if (errno != 4711)
        _exit(3);
    sigpending(&pending);
    _exit(sigismember(&pending, SIGPIPE) ? 2 : 0);
}

static void a_pipe_without_reader_does_not_kill_the_program(void **state)
{
    (void)state;
    assert_int_equal(run_with_stderr(say_to_nobody), 0);
}

static void say_into_limited_file(void)
{
    struct rlimit none = {0, 0};
    char name[] = "/tmp/zc-message-XXXXXX";

    close(STDERR_FILENO);
    if (mkstemp(name) != STDERR_FILENO)
        _exit(1);
    unlink(name);
    zc_message_init();
    setrlimit(RLIMIT_FSIZE, &none);
    zc_message(ZC_WARN, "test", "text");
    _exit(0);
}

static void a_file_at_its_size_limit_does_not_kill_the_program(void **state)
{
    (void)state;
    assert_int_equal(run_with_stderr(say_into_limited_file), 0);
}

/* As a device may: without an error, but it takes no byte.  To try for ever would use up the
 * processor time. */
static void say_to_what_takes_nothing(void)
{
    struct rlimit second = {1, 1};

    setrlimit(RLIMIT_CPU, &second);
    if (!forbid_from(SYS_write, 0, 0))
        _exit(77);
    errno = EINTR; /* Of an earlier call. */
    zc_message(ZC_WARN, "test", "text");
    _exit(0);
}

static void a_write_that_takes_nothing_is_not_tried_for_ever(void **state)
{
    int status = run_with_stderr(say_to_what_takes_nothing);

    (void)state;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void say_before_a_sink(void)
{
    zc_message_set_sink(NULL);
    zc_message(ZC_WARN, "test", "held");
    zc_message(ZC_URGENT, "test", "at once");
    zc_message_reset();
    zc_message_raw("start\n", 6);
    zc_message_set_sink(no_log);
    zc_message_set_sink(no_log);
}

static void a_message_is_held_until_there_is_a_sink_unless_it_is_urgent(void **state)
{
    (void)state;
    run_with_stderr(say_before_a_sink);
    assert_string_equal(printed, "libzc: at once\nstart\nlibzc: held\n");
}

static char sunk[1000];

static bool sink(enum zc_severity severity, const char *code, const char *text)
{
    size_t have = strlen(sunk);

    snprintf(sunk + have, sizeof(sunk) - have, "%d %s %s\n", severity, code, text);
    return true;
}

static void the_log_gets_earlier_messages_too(void **state)
{
    (void)state;
    zc_message_reset();
    zc_message(ZC_ERROR, "early", "before");
    assert_string_equal(sunk, "");
    zc_message_set_sink(sink);
    zc_message(ZC_NOTE, "late", "after");
    assert_string_equal(sunk, "2 early before\n0 late after\n");
    zc_message_set_sink(sink);
    assert_string_equal(sunk, "2 early before\n0 late after\n");
    zc_message_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_one_line_with_the_librarys_name),
        cmocka_unit_test(terminal_escapes_and_newlines_of_a_name_are_not_printed),
        cmocka_unit_test(a_code_is_printed_sixteen_times),
        cmocka_unit_test(sixty_three_codes_count_for_themselves_and_all_others_together),
        cmocka_unit_test(a_long_message_is_cut_and_still_a_line),
        cmocka_unit_test(first_is_true_once_a_code),
        cmocka_unit_test(nothing_is_written_when_stderr_was_closed_at_load),
        cmocka_unit_test(nothing_is_written_when_the_program_reuses_descriptor_two),
        cmocka_unit_test(a_pipe_without_reader_does_not_kill_the_program),
        cmocka_unit_test(a_file_at_its_size_limit_does_not_kill_the_program),
        cmocka_unit_test(a_write_that_takes_nothing_is_not_tried_for_ever),
        cmocka_unit_test(a_message_is_held_until_there_is_a_sink_unless_it_is_urgent),
        cmocka_unit_test(the_log_gets_earlier_messages_too),
    };

    return RUN_TESTS(tests);
}
