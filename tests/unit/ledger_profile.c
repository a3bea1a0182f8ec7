/* SPDX-License-Identifier: MIT */
/* The profile of a program: what tells two programs apart, where it lies, and the log beside it. */
#include "base_test.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/options.h"
#include "base/path.h"
#include "base/version.h"
#include "ledger/profile.h"

#undef ZC_VERSION
#define ZC_VERSION "0.0"

/* The machine and the program. */
static struct {
    const char *cache, *home, *exe, *word, *script, *driver, *bus, *model;
    const char *closed; /* A folder that nobody may write. */
    mode_t type;        /* Of the script; 0: no such file. */
    unsigned found, pid;
} has;
static struct zc_options options;

static char *fake_env(const char *name)
{
    return (char *)(strcmp(name, "HOME") ? has.cache : has.home);
}

static size_t fake_file(const char *path, char *out, size_t cap)
{
    const char *text = !strcmp(path, "/proc/self/exe")                             ? has.exe
                       : !strcmp(path, "/proc/driver/nvidia/version")              ? has.driver
                       : !strcmp(path, "/sys/bus/pci/devices/0000:0a:00.0/device") ? has.model
                                                                                   : has.script;
    assert_int_equal(cap, 65536);
    if (text == has.script)
        assert_true(!strcmp(path, has.word) && S_ISREG(has.type));
    strcpy(out, text);
    return strlen(text);
}

static const char *fake_script(char *text, size_t size)
{
    assert_int_equal(size, 65536);
    return has.word ? strcpy(text, has.word) : NULL;
}

static int fake_stat(const char *path, struct stat *s)
{
    assert_string_equal(path, has.word);
    s->st_mode = has.type ? has.type : S_IFREG;
    return has.type ? 0 : -1;
}

static int fake_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *out)
{
    static char path[64], *paths[] = {path, NULL};
    assert_string_equal(pattern, "/proc/driver/nvidia/gpus/*");
    assert_true(flags == 0 && !error);
    out->gl_pathv = paths;
    if (!has.bus)
        return GLOB_NOMATCH;
    snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s", has.bus);
    has.found++;
    return 0;
}

static void fake_globfree(glob_t *found)
{
    (void)found;
    has.found--;
}

static int fake_access(const char *path, int how)
{
    return has.closed && how == W_OK && !strcmp(path, has.closed) ? -1 : access(path, how);
}

#define secure_getenv fake_env
#define zc_file_text fake_file
#define zc_log_script fake_script
#define zc_log_program() "prog"
#define zc_options() (&options)
#define stat(path, out) fake_stat(path, out)
#define glob(pattern, flags, error, out) fake_glob(pattern, flags, error, out)
#define globfree fake_globfree
#define access fake_access
#define getpid() ((pid_t)has.pid)
#include "../../shim/ledger/profile.c"

static char folder[] = "/tmp/zc-profile-XXXXXX";

static int anew(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zc-profile-XXXXXX");
    memset(&profile, 0, sizeof(profile));
    memset(&has, 0, sizeof(has));
    has.exe = "an executable";
    has.script = "a script";
    has.driver = "580";
    has.model = "0x2330";
    has.cache = "/cache";
    has.pid = 35;
    options.policy = "auto";
    return mkdtemp(folder) ? 0 : -1;
}

static int gone(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void only_the_two_words_ask_for_a_profile_and_one_teaches_it(void **state)
{
    static const struct {
        const char *policy;
        bool asked, learns;
    } rows[] = {{"auto", true, true},
                {"auto-frozen", true, false},
                {"", false, false},
                {"auto.conf", false, false}};
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        options.policy = rows[i].policy;
        profile.path[0] = '\0';
        assert_true(zc_profile_asked() == rows[i].asked && zc_profile_learns() == rows[i].learns);
        assert_null(zc_profile_taught());
        const char *path = zc_profile_find();
        assert_ptr_equal(zc_profile_taught(), rows[i].learns ? path : NULL);
    }
}

/* By the rules of the XDG Base Directory Specification. */
static void a_profile_lies_in_the_cache_of_the_user(void **state)
{
    static const struct {
        const char *cache, *home, *at;
    } rows[] = {{"/cache", "/", "/cache/libzc/auto/prog-"},
                {"/cache", NULL, "/cache/libzc/auto/prog-"},
                {"cache", "/tmp", "/tmp/.cache/libzc/auto/prog-"},
                {"", "/tmp", "/tmp/.cache/libzc/auto/prog-"},
                {NULL, "/tmp", "/tmp/.cache/libzc/auto/prog-"},
                {NULL, "/there/is/none", NULL},
                {NULL, ".", NULL},
                {NULL, "", NULL},
                {"cache", NULL, NULL},
                {NULL, NULL, NULL}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&profile, 0, sizeof(profile));
        has.cache = rows[i].cache;
        has.home = rows[i].home;
        const char *path = zc_profile_find();
        assert_ptr_equal(path, zc_profile_taught());
        if (!rows[i].at) {
            assert_null(path);
            continue;
        }
        assert_memory_equal(path, rows[i].at, strlen(rows[i].at));
        assert_string_equal(path + strlen(path) - 5, ".conf");
        assert_int_equal(strlen(path), strlen(rows[i].at) + 16 + 5);
        assert_int_equal(strspn(path + strlen(rows[i].at), "0123456789abcdef"), 16);
    }
}

/* Lessons of an earlier build of the same version are found again. */
static void the_name_of_a_profile_stays(void **state)
{
    (void)state;
    has.word = "train.py";
    has.type = S_IFREG;
    has.bus = "0000:0a:00.0";
    assert_string_equal(zc_profile_find(), "/cache/libzc/auto/prog-aa54c14f3f2b8857.conf");
}

static void each_thing_that_changes_speed_has_a_profile_of_its_own(void **state)
{
    char seen[9][64];
    unsigned n = 0;
    (void)state;
    for (; n < 9; n++) {
        has.word = n >= 1 ? "train.py" : NULL;
        has.type = n >= 2 ? S_IFREG : 0;
        has.script = n >= 3 ? "another script" : "a script";
        has.exe = n >= 4 ? "another executable" : "an executable";
        has.driver = n >= 5 ? "590" : "580";
        has.bus = n >= 6 ? "0000:0a:00.0" : NULL;
        has.model = n >= 7 ? "0x2335" : "0x2330";
        has.word = n >= 8 ? "infer.py" : has.word;
        memset(profile.path, 'x', sizeof(profile.path));
        strcpy(seen[n], zc_profile_find());
        memset(profile.path, 'x', sizeof(profile.path));
        assert_string_equal(zc_profile_find(), seen[n]);
        for (unsigned i = 0; i < n; i++)
            assert_string_not_equal(seen[i], seen[n]);
        assert_int_equal(has.found, 0);
    }
}

/* The interpreter would miss what libzc has read. */
static void a_script_that_comes_through_a_pipe_is_not_read(void **state)
{
    char named[64];
    (void)state;
    has.word = "/dev/fd/63";
    strcpy(named, zc_profile_find());
    has.type = S_IFIFO; /* fake_file() would object. */
    assert_string_equal(zc_profile_find(), named);
}

static void a_path_without_room_is_no_profile(void **state)
{
    char most[PATH_MAX];
    (void)state;
    memset(most, 'c', sizeof(most));
    most[0] = '/';
    has.cache = most;
    for (unsigned longer = 0; longer < 2; longer++) { /* "/libzc/auto/prog-", 16 digits, ".conf" */
        most[PATH_MAX - 1 - (17 + 16 + 5) + longer] = '\0';
        const char *path = zc_profile_find();
        assert_true((path != NULL) == !longer);
        assert_ptr_equal(zc_profile_taught(), path);
        if (path)
            assert_int_equal(strlen(path), PATH_MAX - 1);
        most[PATH_MAX - 1 - (17 + 16 + 5) + longer] = 'c';
    }
}

static mode_t mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(lstat(path, &s), 0);
    return s.st_mode;
}

static const char *log_in(const char *cache)
{
    has.cache = cache;
    assert_non_null(zc_profile_find());
    memset(profile.text, 'x', sizeof(profile.text));
    return zc_profile_log();
}

static void a_log_waits_beside_the_profile_in_folders_of_the_user_alone(void **state)
{
    char cache[64], want[128];
    (void)state;
    umask(0);
    snprintf(cache, sizeof(cache), "%s/a", folder);
    const char *log = log_in(cache);
    snprintf(want, sizeof(want), "%.*s.3.jsonl", (int)strlen(profile.path) - 5, profile.path);
    assert_string_equal(log, want);
    assert_int_equal(mode_of(cache), S_IFDIR | 0700);
    snprintf(want, sizeof(want), "%s/libzc/auto", cache);
    assert_int_equal(mode_of(want), S_IFDIR | 0700);
    assert_non_null(strstr(log_in(cache), ".3.jsonl")); /* The folders may be there. */
    has.pid = 48;
    assert_non_null(strstr(zc_profile_log(), ".0.jsonl"));
    fclose(fopen(zc_profile_log(), "w"));
    assert_string_equal(zc_profile_log(), "off"); /* One waits there. */
}

static void a_run_without_a_place_for_a_log_writes_none(void **state)
{
    char cache[64];
    (void)state;
    assert_string_equal(zc_profile_log(), "off");
    snprintf(cache, sizeof(cache), "%s/100%%", folder); /* A pattern that would say something. */
    assert_string_equal(log_in(cache), "off");
    snprintf(cache, sizeof(cache), "%s/b", folder);
    options.policy = "auto-frozen";
    assert_string_equal(log_in(cache), "off");
    assert_int_not_equal(access(cache, F_OK), 0);
    options.policy = "auto";
    assert_string_not_equal(log_in(cache), "off");
    snprintf(cache, sizeof(cache), "%s/b/libzc/auto", folder);
    has.closed = cache;
    assert_string_equal(zc_profile_log(), "off");
    snprintf(cache, sizeof(cache), "%s/b/libzc", folder); /* One above does not matter. */
    assert_string_not_equal(zc_profile_log(), "off");
}

static void the_preset_is_in_the_library_whole(void **state)
{
    static char text[65536];
    size_t bytes = 0;
    const char *base = zc_profile_base(&bytes);
    FILE *file = fopen("policy/presets/everyday.conf", "r");
    (void)state;
    assert_non_null(file);
    assert_int_equal(bytes, fread(text, 1, sizeof(text), file));
    fclose(file);
    assert_memory_equal(base, text, bytes);
}

#define T(f) cmocka_unit_test_setup_teardown(f, anew, gone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(only_the_two_words_ask_for_a_profile_and_one_teaches_it),
        T(a_profile_lies_in_the_cache_of_the_user),
        T(the_name_of_a_profile_stays),
        T(each_thing_that_changes_speed_has_a_profile_of_its_own),
        T(a_script_that_comes_through_a_pipe_is_not_read),
        T(a_path_without_room_is_no_profile),
        T(a_log_waits_beside_the_profile_in_folders_of_the_user_alone),
        T(a_run_without_a_place_for_a_log_writes_none),
        T(the_preset_is_in_the_library_whole),
    };
    return RUN_TESTS(tests);
}
