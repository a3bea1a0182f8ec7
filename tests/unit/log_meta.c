/* SPDX-License-Identifier: MIT */
/* The log's first line: what it says of the run, and null for what nobody knows. */
#include "log_said_test.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/job.h"
#include "base/message.h"
#include "base/options.h"
#include "base/path.h"
#include "base/version.h"
#include "ledger/profile.h"
#include "ledger/python.h"
#include "log/lines.h"

static struct {
    struct zc_job job;
    const char *arguments, *profile;
    size_t bytes;
    bool no_path;
    enum zc_python python;
    uint64_t version;
} has;
static struct zc_options options;
static bool (*sink)(enum zc_severity, const char *, const char *);

static size_t fake_text(const char *path, char *out, size_t cap)
{
    size_t n = has.bytes < cap ? has.bytes : cap - 1;
    assert_string_equal(path, "/proc/self/cmdline");
    memcpy(out, has.arguments, n);
    out[n] = '\0';
    return n;
}

static bool fake_path(char path[PATH_MAX])
{
    strcpy(path, has.no_path ? "" : "/bin/prog");
    errno = EIO;
    return !has.no_path;
}

#define zc_file_text fake_text
#define zc_log_program_path fake_path
#define zc_log_program() "prog"
#define zc_log_host() "here"
#define zc_job() (&has.job)
#define zc_options() (&options)
#define zc_profile_taught() has.profile
#define zc_python() has.python
#define zc_python_version() has.version
#define zc_message_set_sink(to) (sink = (to))
#define getpid() 7
#define getppid() 6
#undef ZC_VERSION
#define ZC_VERSION "1.2"
#include "../../shim/log/meta.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    has.job = (struct zc_job){.rank = -1, .local_rank = -1, .world = -1, .local_world = -1};
    has.arguments = "./app";
    has.bytes = 6;
    options.run = "";
    said[0] = '\0';
    off = false;
    return 0;
}

#define HEAD "{\"type\":\"meta\",\"schema\":1,\"libzc\":\"1.2\",\"pid\":7,\"ppid\":6,\"run\":"
#define NAMES ",\"host\":\"here\",\"exe\":\"prog\",\"rank\":"
#define NO_JOB                                                                                     \
    "0,\"rank_source\":null,\"local_rank\":null,\"world\":null,\"local_world\":null,\"job\":null,"
#define NO_GPU "\"driver\":null,\"gpu\":null,\"devices\":null,\"gpus\":[],\"policy\":null,"
#define TAIL "\"exe_path\":\"/bin/prog\",\"argv\":[\"./app\"]}\n"

static struct zc_log_meta none = {.devices = -1};

static void nothing_is_told_that_nobody_knows(void **state)
{
    (void)state;
    errno = 17;
    zc_log_meta(&none);
    says(HEAD "null" NAMES NO_JOB NO_GPU TAIL);
    assert_int_equal(errno, 17);
    assert_ptr_equal(sink, zc_log_warn); /* Messages go to the log from now on. */
    has.no_path = true;
    zc_log_meta(&none);
    says(HEAD "null" NAMES NO_JOB NO_GPU "\"exe_path\":null,\"argv\":[\"./app\"]}\n");
    off = true;
    sink = NULL;
    zc_log_meta(&none);
    says("");
    assert_ptr_equal(sink, zc_log_warn);
}

static void a_run_is_named_with_its_place_in_a_job(void **state)
{
    (void)state;
    options.run = "r1";
    has.job = (struct zc_job){.launcher = "slurm", .local_world = 1, .id = "9.0"};
    zc_log_meta(&none);
    says(HEAD "\"r1\"" NAMES "0,\"rank_source\":\"slurm\",\"local_rank\":0,\"world\":0,"
              "\"local_world\":1,\"job\":\"9.0\"," NO_GPU TAIL);
    has.job = (struct zc_job){.rank = 5, .local_rank = 1, .world = 8, .local_world = 0};
    zc_log_meta(&none);
    says(HEAD "\"r1\"" NAMES "5,\"rank_source\":null,\"local_rank\":1,\"world\":8,"
              "\"local_world\":0,\"job\":null," NO_GPU TAIL);
}

static void devices_are_listed_with_their_places_and_numbers(void **state)
{
    struct zc_log_meta meta = {.gpu = "H100", .driver = 13000, .devices = 2};
    (void)state;
    strcpy(meta.gpus[0].pci, "0000:0a:00.0");
    meta.gpus[1].known = true;
    for (unsigned i = 0; i < 16; i++)
        meta.gpus[1].uuid[i] = (unsigned char)(i + 1);
    zc_log_meta(&meta);
    says(HEAD "null" NAMES NO_JOB
              "\"driver\":13000,\"gpu\":\"H100\",\"devices\":2,\"gpus\":[{\"pci\":\"0000:0a:00.0\","
              "\"uuid\":null},{\"pci\":null,\"uuid\":\"GPU-01020304-0506-0708-090a-0b0c0d0e0f10\"}]"
              ",\"policy\":null," TAIL);
    meta.devices = 0;
    meta.driver = 1;
    zc_log_meta(&meta);
    says(HEAD "null" NAMES NO_JOB
              "\"driver\":1,\"gpu\":\"H100\",\"devices\":0,\"gpus\":[],\"policy\":null," TAIL);
    meta.devices = ZC_LOG_GPUS + 1;
    zc_log_meta(&meta);
    unsigned listed = 0;
    for (const char *at = said; (at = strstr(at, "\"pci\":")); at++)
        listed++;
    assert_int_equal(listed, ZC_LOG_GPUS);
}

static void a_policy_is_named_with_its_hash_and_a_profile_where_one_learns(void **state)
{
    const struct zc_log_meta meta = {.policy_file = "p.conf", .policy_hash = 0xab, .devices = -1};
    (void)state;
    has.profile = "/cache/p";
    zc_log_meta(&meta);
    says(HEAD "null" NAMES NO_JOB "\"driver\":null,\"gpu\":null,\"devices\":null,\"gpus\":[],"
              "\"policy\":{\"file\":\"p.conf\",\"hash\":\"00000000000000ab\"},"
              "\"profile\":\"/cache/p\"," TAIL);
}

static void an_interpreter_is_told_where_its_functions_are(void **state)
{
    static const struct {
        enum zc_python python;
        const char *field;
    } rows[] = {{ZC_PYTHON_NONE, "\"python\":null,"},
                {ZC_PYTHON_UNKNOWN, "\"python\":null,"},
                {ZC_PYTHON_FOUND, "\"python\":\"3.12.4\","},
                {ZC_PYTHON_READ, "\"python\":\"3.12.4\","}};
    (void)state;
    has.version = 0x030c04f0;
    for (unsigned i = 0; i < 4; i++) {
        char want[600] = HEAD "null" NAMES NO_JOB NO_GPU;
        has.python = rows[i].python;
        zc_log_meta(&none);
        says(strcat(strcat(want, rows[i].field), TAIL));
    }
}

static void all_arguments_are_told_as_far_as_there_is_room(void **state)
{
    static char many[5000];
    (void)state;
    has.arguments = "a\0\0-x y\0z";
    has.bytes = 10;
    zc_log_meta(&none);
    says(HEAD "null" NAMES NO_JOB NO_GPU
              "\"exe_path\":\"/bin/prog\",\"argv\":[\"a\",\"\",\"-x y\",\"z\"]}\n");
    has.bytes = 0;
    zc_log_meta(&none);
    says(HEAD "null" NAMES NO_JOB NO_GPU "\"exe_path\":\"/bin/prog\",\"argv\":[]}\n");
    has.arguments = many; /* Empty ones, of which there is room for a thousand and more. */
    has.bytes = 900;
    zc_log_meta(&none);
    assert_null(strstr(said, "truncated"));
    said[0] = '\0';
    memset(many, 'm', sizeof(many));
    has.bytes = sizeof(many);
    zc_log_meta(&none);
    assert_non_null(strstr(said, "mmm\"],\"truncated\":true}\n"));
}

/* The kernel may have more than libzc has read. */
static void arguments_that_were_not_read_whole_are_marked(void **state)
{
    static char many[ZC_LINE_MAX];
    (void)state;
    has.arguments = many;
    memset(many, '\n', sizeof(many));
    many[10] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        has.bytes = i ? 11 : ZC_LINE_MAX - 1;
        zc_log_meta(&none);
        assert_true((strstr(said, "\"truncated\":true") != NULL) == !i);
        said[0] = '\0';
    }
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_is_told_that_nobody_knows),
        T(a_run_is_named_with_its_place_in_a_job),
        T(devices_are_listed_with_their_places_and_numbers),
        T(a_policy_is_named_with_its_hash_and_a_profile_where_one_learns),
        T(an_interpreter_is_told_where_its_functions_are),
        T(all_arguments_are_told_as_far_as_there_is_room),
        T(arguments_that_were_not_read_whole_are_marked),
    };
    return RUN_TESTS(tests);
}
