/* SPDX-License-Identifier: MIT */
/* The log's path: what patterns give, and what is never opened. */
#include "log_test.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/job.h"
#include "base/options.h"
#include "base/path.h"

static struct zc_log_meta meta;

static void assert_expands(const char *pattern, const char *wanted)
{
    char buf[512];
    struct zc_text t = zc_text_on(buf, sizeof(buf));

    assert_true(zc_log_expand(&t, pattern));
    assert_string_equal(zc_text_cstr(&t), wanted);
}

static void every_letter_of_a_pattern_has_its_meaning(void **state)
{
    char wanted[512];
    struct utsname host;

    (void)state;
    uname(&host);
    assert_expands("%r.%l.%j", "0.0.0");
    setenv("SLURM_PROCID", "7", 1);
    setenv("SLURM_LOCALID", "1", 1);
    setenv("SLURM_JOB_ID", "77", 1);
    zc_options_read();
    snprintf(wanted, sizeof(wanted), "zc.%s.%d.%s.7.1.77.%%.jsonl", program_invocation_short_name,
             (int)getpid(), host.nodename);
    assert_expands("zc.%e.%p.%h.%r.%l.%j.%%.jsonl", wanted);
    assert_expands("plain", "plain");
    assert_expands("%q%", "%q%");
}

/* Tried twice: the second may change between the two readings.  Of one clock: time(2) lags behind
 * clock_gettime(2) by up to a tick. */
static void the_time_in_a_pattern_is_utc(void **state)
{
    char buf[64], wanted[64];
    bool equal = false;

    (void)state;
    for (int i = 0; i < 2 && !equal; i++) {
        struct zc_text t = zc_text_on(buf, sizeof(buf));
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        strftime(wanted, sizeof(wanted), "%Y%m%dT%H%M%SZ", gmtime(&now.tv_sec));
        assert_true(zc_log_expand(&t, "%t"));
        equal = strcmp(zc_text_cstr(&t), wanted) == 0;
    }
    assert_true(equal);
}

static void every_day_of_five_centuries_has_its_date(void **state)
{
    char buf[64], wanted[64];

    (void)state;
    for (int64_t day = 0; day < 500 * 366; day++) {
        struct zc_text t = zc_text_on(buf, sizeof(buf));
        time_t when = day * 86400 + day * 7919 % 86400;

        strftime(wanted, sizeof(wanted), "%Y%m%dT%H%M%SZ", gmtime(&when));
        zc_log_utc(&t, (uint64_t)when);
        assert_string_equal(zc_text_cstr(&t), wanted);
    }
}

static void a_log_is_a_new_private_file(void **state)
{
    struct stat s;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_ALLOCS);
    assert_int_equal(zc_log_level(), ZC_LOG_ALLOCS);
    assert_string_equal(zc_log_path(), "a.jsonl");
    assert_int_equal(stat("a.jsonl", &s), 0);
    assert_int_equal(s.st_mode, S_IFREG | 0600);
    assert_int_equal(stat("a.counters", &s), 0);
    assert_int_equal(s.st_mode, S_IFREG | 0400);
    assert_int_equal(s.st_size, sizeof(struct zc_counters));
}

static void off_and_an_empty_pattern_open_nothing(void **state)
{
    (void)state;
    zc_log_open("off", ZC_LOG_EVENTS);
    zc_log_open("", ZC_LOG_EVENTS);
    zc_log_open(NULL, ZC_LOG_EVENTS);
    zc_log_open("a.jsonl", ZC_LOG_OFF);
    assert_int_equal(zc_log_level(), ZC_LOG_OFF);
    assert_null(zc_log_path());
    assert_int_equal(rmdir(folder), 0);
}

/* The file at the log's name is made by plant(), and stays as it was. */
static void assert_numbered(void (*plant)(void))
{
    struct stat before, after;
    char name[64], counters[64];

    plant();
    assert_int_equal(lstat("a.jsonl", &before), 0);
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    zc_log_meta(&meta);
    snprintf(name, sizeof(name), "a.%d.jsonl", (int)getpid());
    snprintf(counters, sizeof(counters), "a.%d.counters", (int)getpid());
    assert_string_equal(zc_log_path(), name);
    assert_int_equal(json_lines(text_of(name)), 1);
    assert_true(exists(counters));
    assert_int_equal(lstat("a.jsonl", &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mode, before.st_mode);
}

static void plant_file(void)
{
    int fd = open("a.jsonl", O_CREAT | O_WRONLY, 0644);

    assert_int_equal(write(fd, "old", 3), 3);
    close(fd);
}

static void plant_link(void)
{
    int fd = open("victim", O_CREAT | O_WRONLY, 0644);

    close(fd);
    assert_int_equal(symlink("victim", "a.jsonl"), 0);
}

static void plant_dangling_link(void)
{
    assert_int_equal(symlink("victim", "a.jsonl"), 0);
}

static void plant_folder(void)
{
    assert_int_equal(mkdir("a.jsonl", 0700), 0);
}

static void plant_fifo(void)
{
    assert_int_equal(mkfifo("a.jsonl", 0600), 0);
}

static void an_existing_file_is_left_alone(void **state)
{
    (void)state;
    assert_numbered(plant_file);
    assert_string_equal(text_of("a.jsonl"), "old");
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    assert_numbered(plant_link);
    assert_string_equal(text_of("victim"), "");
}

static void a_dangling_link_creates_nothing(void **state)
{
    (void)state;
    assert_numbered(plant_dangling_link);
    assert_false(exists("victim"));
}

static void a_folder_at_the_logs_name_is_left_alone(void **state)
{
    (void)state;
    assert_numbered(plant_folder);
}

static void a_fifo_without_reader_does_not_block(void **state)
{
    (void)state;
    alarm(300);
    assert_numbered(plant_fifo);
    alarm(0);
}

/* On other hosts processes may have had the same id: then the name has the time as well. */
static void no_process_goes_without_a_log(void **state)
{
    char pattern[64];

    (void)state;
    plant_file();
    snprintf(pattern, sizeof(pattern), "a.%d.%%*[0-9].jsonl%%n", (int)getpid());
    for (int i = 0; i < 20; i++) {
        int length = 0;

        zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
        zc_log_meta(&meta);
        assert_int_equal(json_lines(text_of(zc_log_path())), 1);
        sscanf(zc_log_path(), pattern, &length);
        assert_int_equal(length, i == 0 ? 0 : strlen(zc_log_path()));
        zc_counters_reset();
        zc_log_reset();
    }
}

/* Nothing is created beside a device, in /dev. */
static void a_device_is_refused(void **state)
{
    char name[64];

    (void)state;
    zc_log_open("/dev/null", ZC_LOG_SUMMARY);
    assert_null(zc_log_path());
    assert_int_equal(symlink("/dev/full", "a.jsonl"), 0);
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    assert_null(zc_log_path());
    snprintf(name, sizeof(name), "a.%d.jsonl", (int)getpid());
    assert_false(exists(name));
}

static void a_path_that_is_too_long_gives_no_log(void **state)
{
    char pattern[6000];

    (void)state;
    memset(pattern, 'x', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = 0;
    zc_log_open(pattern, ZC_LOG_SUMMARY);
    assert_null(zc_log_path());
    pattern[300] = 0;
    zc_log_open(pattern, ZC_LOG_SUMMARY);
    assert_null(zc_log_path());
    assert_int_equal(zc_log_level(), ZC_LOG_OFF);
}

static void log_into_forbidden_folder(void)
{
    if (setgid(65534) != 0 || setuid(65534) != 0)
        _exit(77);
    zc_log_open("shut/a.jsonl", ZC_LOG_SUMMARY);
    _exit(zc_log_level() == ZC_LOG_OFF && zc_log_path() == NULL ? 0 : 1);
}

static void a_folder_that_may_not_be_written_gives_no_log(void **state)
{
    int status;

    (void)state;
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(mkdir("shut", 0755), 0);
    status = in_child(log_into_forbidden_folder);
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void a_missing_folder_gives_no_log(void **state)
{
    (void)state;
    zc_log_open("missing/a.jsonl", ZC_LOG_SUMMARY);
    assert_null(zc_log_path());
    assert_false(exists("missing"));
}

/* Run by the set-user-ID copy of this program: the environment asks for a log.  It leaves by
 * _exit(2), because a leak checker can't look into such a process. */
static int run_secure(void)
{
    const struct zc_options *o = zc_options_read();

    if (getauxval(AT_SECURE) == 0)
        return 77;
    if (!o->secure || o->log[0] != 0 || zc_job()->launcher)
        return 1;
    zc_log_open("a.jsonl", ZC_LOG_EVENTS);
    return zc_log_path() != NULL || zc_log_level() != ZC_LOG_OFF || exists("a.jsonl") ||
           exists("a.counters");
}

static void exec_secure(void)
{
    setenv("ZC_LOG", "a.jsonl", 1);
    setenv("SLURM_PROCID", "7", 1);
    execl("./copy", "copy", "secure", (char *)NULL);
    _exit(77);
}

static void a_set_user_id_program_reads_no_environment_and_opens_nothing(void **state)
{
    int status;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(system("cp /proc/$PPID/exe copy"), 0);
    if (chown("copy", 65534, 65534) != 0 || chmod("copy", 04755) != 0)
        skip();
    status = in_child(exec_secure);
    /* The loader does not look for libraries where LD_LIBRARY_PATH says, then. */
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127)
        skip();
    assert_int_equal(status, 0);
}

static void exec_deleted(void)
{
    execl("./program", "program", "deleted", (char *)NULL);
    _exit(77);
}

static int run_deleted(void)
{
    return unlink("program") != 0 || strcmp(zc_log_program(), "program") != 0;
}

static void a_program_whose_file_is_gone_has_its_name(void **state)
{
    (void)state;
    assert_int_equal(system("cp /proc/$PPID/exe program"), 0);
    assert_int_equal(in_child(exec_deleted), 0);
    assert_false(exists("program"));
}

static void expand_host_with_slash(void)
{
    char buf[64];
    struct zc_text t = zc_text_on(buf, sizeof(buf));

    if (unshare(CLONE_NEWUTS) != 0 || sethostname("rack/4/gpu", 10) != 0)
        _exit(77);
    _exit(!zc_log_expand(&t, "%h") || strcmp(zc_text_cstr(&t), "rack_4_gpu") != 0);
}

static void the_name_of_a_host_leads_into_no_folder(void **state)
{
    int status = in_child(expand_host_with_slash);

    (void)state;
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "secure") == 0)
        _exit(run_secure());
    if (argc == 2 && strcmp(argv[1], "deleted") == 0)
        _exit(run_deleted());

    const struct CMUnitTest tests[] = {
        FOLDER_TEST(the_name_of_a_host_leads_into_no_folder), /* The name is read once. */
        FOLDER_TEST(every_letter_of_a_pattern_has_its_meaning),
        FOLDER_TEST(a_program_whose_file_is_gone_has_its_name),
        FOLDER_TEST(the_time_in_a_pattern_is_utc),
        FOLDER_TEST(every_day_of_five_centuries_has_its_date),
        FOLDER_TEST(a_log_is_a_new_private_file),
        FOLDER_TEST(off_and_an_empty_pattern_open_nothing),
        FOLDER_TEST(an_existing_file_is_left_alone),
        FOLDER_TEST(a_link_is_not_followed),
        FOLDER_TEST(a_dangling_link_creates_nothing),
        FOLDER_TEST(a_folder_at_the_logs_name_is_left_alone),
        FOLDER_TEST(a_fifo_without_reader_does_not_block),
        FOLDER_TEST(no_process_goes_without_a_log),
        FOLDER_TEST(a_device_is_refused),
        FOLDER_TEST(a_path_that_is_too_long_gives_no_log),
        FOLDER_TEST(a_folder_that_may_not_be_written_gives_no_log),
        FOLDER_TEST(a_missing_folder_gives_no_log),
        FOLDER_TEST(a_set_user_id_program_reads_no_environment_and_opens_nothing),
    };

    return RUN_TESTS(tests);
}
