/* SPDX-License-Identifier: MIT */
/* Reading the policy: by whom, in what pieces, what is said of a file that is refused or at fault,
 * and what a request is given to be matched. */
#include "base_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/job.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/message.h"
#include "base/module.h"
#include "base/options.h"
#include "base/path.h"
#include "ledger/missed.h"
#include "ledger/profile.h"
#include "ledger/rules.h"
#include "ledger/site.h"

#define MOST ZC_POLICY_MAX_BYTES
#define FD 99

/* The kernel, the parser and the neighbours. */
static struct {
    char said[600], text[64];
    size_t bytes, file, piece, at; /* Of the file: its bytes, and at most so many by one read. */
    size_t mapped[4];
    unsigned maps, fails_map, unmaps, closes, parses, hosts, opens;
    ssize_t read_fails;
    enum zc_policy_find_result found, own;
    int errors;
    size_t rules;
    unsigned needs;
    bool profile, secure, no_prctl, matches, in_use, locked, cancel;
    const char *own_path;
    struct zc_match seen;
    char thread[20];
    uint32_t missed_site;
    bool missed_taken;
    unsigned missed;
    struct zc_job job;
} has;
static struct zc_options options = {.policy = "given.conf"};

static void *fake_fresh(size_t n, int rights)
{
    assert_int_equal(rights, PROT_READ | PROT_WRITE);
    has.mapped[has.maps] = n;
    return ++has.maps == has.fails_map ? NULL : zc_memory_fresh(n, rights);
}

static int fake_unmap(void *at, size_t n)
{
    assert_int_equal(n, MOST + 1);
    has.unmaps++;
    return munmap(at, n);
}

static ssize_t fake_read(int fd, void *to, size_t room)
{
    assert_int_equal(fd, FD);
    assert_int_equal(room, MOST + 1 - has.at);
    if (has.read_fails && has.at)
        return -1;
    size_t n = has.file - has.at < has.piece ? has.file - has.at : has.piece;
    n = n < room ? n : room;
    memset(to, 'a' + (int)(has.at % 26), n);
    has.at += n;
    return (ssize_t)n;
}

static int fake_close(int fd)
{
    assert_int_equal(fd, FD);
    has.closes++;
    return 0;
}

static void has_lock(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    has.cancel |= state == PTHREAD_CANCEL_ENABLE;
    has.locked |= zc_lock_held();
    has.in_use = zc_rules_in_use();
    errno = EIO;
}

static enum zc_policy_find_result fake_open(const char *given, int *fd, char *path, size_t cap,
                                            char *why, size_t why_cap)
{
    assert_string_equal(given, "given.conf");
    assert_true(cap == 4096 && why_cap == 256);
    has_lock();
    *fd = FD;
    has.opens++;
    strcpy(path, has.found == ZC_POLICY_NONE ? "" : "./policy.conf");
    strcpy(why, has.found == ZC_POLICY_REFUSED ? "it belongs to another" : "");
    return has.found;
}

static enum zc_policy_find_result fake_open_own(const char *path, int *fd, char *why,
                                                size_t why_cap)
{
    assert_string_equal(path, "/cache/profile");
    assert_int_equal(why_cap, 256);
    has_lock();
    *fd = FD;
    has.opens++;
    strcpy(why, has.own == ZC_POLICY_REFUSED ? "others may write it" : "");
    return has.own;
}

static int fake_parse(const char *file, const char *text, size_t bytes,
                      struct zc_policy_memory *memory, zc_policy_report_fn report, void *ctx,
                      struct zc_policy *out)
{
    assert_true(memory->base && memory->size == bytes + 4096 && !ctx);
    has.parses++;
    has.bytes = bytes;
    snprintf(has.text, sizeof(has.text), "%.*s", (int)(bytes < 40 ? bytes : 40), text);
    out->file = file;
    out->rule_count = has.rules;
    out->needs = has.needs;
    int errors = strcmp(file, "@everyday") ? has.errors : 0;
    if (errors && report)
        report(ctx, ZC_SEVERITY_ERROR, 3, 7, "no such key");
    if (errors > 1 && report)
        report(ctx, ZC_SEVERITY_WARNING, 4, 1, "in vain");
    return errors;
}

static void fake_message(enum zc_severity severity, const char *code, const char *fmt, ...)
{
    char text[300], plain[160];
    va_list args;
    snprintf(plain, sizeof(plain), "%s", fmt);
    char *count = strstr(plain, "%U");
    if (count)
        memmove(count + 3, count + 2, strlen(count + 2) + 1), memcpy(count, "%lu", 3);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), plain, args);
    va_end(args);
    size_t n = strlen(has.said);
    snprintf(has.said + n, sizeof(has.said) - n, "%d %s %s\n", (int)severity, code, text);
}

static const char *fake_host(void)
{
    has.hosts++;
    return "here";
}

static int fake_prctl(int what, char *name)
{
    assert_int_equal(what, PR_GET_NAME);
    strcpy(name, "a thread of 15b");
    return has.no_prctl ? -1 : 0;
}

static struct zc_rule *fake_match(const struct zc_policy *policy, const struct zc_match *request)
{
    static struct zc_rule rule;
    assert_ptr_equal(policy, &zc_rules_read);
    has.seen = *request;
    snprintf(has.thread, sizeof(has.thread), "%s", request->thread ? request->thread : "none");
    return has.matches ? &rule : NULL;
}

static void fake_missed(const struct zc_policy *policy, const struct zc_match *request,
                        uint32_t site, bool taken)
{
    assert_ptr_equal(policy, &zc_rules_read);
    assert_true(!has.needs || request->thread == has.seen.thread);
    has.missed++;
    has.missed_site = site;
    has.missed_taken = taken;
}

#define zc_memory_fresh fake_fresh
#define zc_memory_unmap fake_unmap
#define read fake_read
#define close fake_close
#define zc_policy_open fake_open
#define zc_policy_open_own fake_open_own
#define zc_policy_memory_for(bytes) ((bytes) + 4096)
#define zc_policy_parse fake_parse
#define zc_policy_match fake_match
#define zc_message fake_message
#define zc_log_host fake_host
#define zc_log_program() "prog"
#define prctl fake_prctl
#define zc_missed_note fake_missed
#define zc_options() (&options)
#define zc_options_read() (&options)
#define zc_profile_asked() has.profile
#define zc_profile_find() has.own_path
#define zc_profile_base(bytes) (*(bytes) = 6, "[base]")
#define zc_site_native(site) ((site) + 100)
#define zc_site_module(site) ((site) == 5 ? "lib.so" : "other")
#define zc_job() (&has.job)
#include "../../shim/ledger/rules.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&rules, 0, sizeof(rules));
    memset(&zc_rules_read, 0, sizeof(zc_rules_read));
    grown = false;
    options.strict = "0";
    options.secure = false;
    has.found = ZC_POLICY_FOUND;
    has.file = 10;
    has.piece = 4;
    has.rules = 2;
    has.own_path = "/cache/profile";
    return 0;
}

static void load(void)
{
    errno = 17;
    assert_false(zc_rules_in_use());
    assert_true(zc_rules_load());
    assert_int_equal(errno, 17);
    assert_false(zc_lock_held());
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    assert_int_equal(state, PTHREAD_CANCEL_ENABLE);
    assert_int_equal(rules.state, READ);
}

static void a_file_is_read_whole_once_and_under_the_lock(void **state)
{
    (void)state;
    load();
    assert_true(has.parses == 1 && has.bytes == 10 && has.closes == 1 && has.unmaps == 1);
    assert_string_equal(has.text, "aaaaeeeeii");
    assert_string_equal(zc_rules_path(), "./policy.conf");
    assert_true(zc_rules_in_use() && has.in_use && has.locked && !has.cancel);
    assert_true(zc_rules_load());
    assert_true(has.opens == 1 && has.maps == 2);
    assert_true(has.mapped[0] == MOST + 1 && has.mapped[1] == 10 + 4096);
    assert_string_equal(has.said, "");
    assert_int_equal(has.hosts, 0);
    anew(NULL);
    has.rules = 1;
    load();
    assert_true(zc_rules_in_use());
    anew(NULL);
    has.rules = 0;
    load();
    assert_false(zc_rules_in_use());
}

static void a_handler_in_the_midst_of_reading_has_no_rules_yet(void **state)
{
    (void)state;
    assert_true(zc_lock_take(&rules_lock));
    errno = 17;
    assert_false(zc_rules_load());
    assert_true(errno == 17 && has.opens == 0 && rules.state == UNREAD);
    zc_lock_drop(&rules_lock);
    load();
}

static void nothing_is_read_where_the_environment_is_not_trusted(void **state)
{
    (void)state;
    options.secure = true;
    load();
    assert_true(has.opens == 0 && !zc_rules_path() && !zc_rules_in_use());
}

static void a_file_may_have_so_many_bytes_and_the_parser_sees_one_more(void **state)
{
    static const struct {
        size_t file, piece, bytes;
    } rows[] = {{0, 100, 0},
                {MOST, MOST, MOST},
                {MOST + 1, MOST, MOST + 1},
                {MOST + 5, 2 * MOST, MOST + 1},
                {MOST - 1, 70000, MOST - 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.file = rows[i].file;
        has.piece = rows[i].piece;
        load();
        assert_true(has.bytes == rows[i].bytes && has.closes == 1 && has.unmaps == 1);
    }
    anew(NULL);
    has.read_fails = 1; /* The bytes before are parsed. */
    load();
    assert_true(has.bytes == 4 && has.closes == 1 && has.unmaps == 1);
}

static void without_memory_there_are_no_rules(void **state)
{
    (void)state;
    for (unsigned fails = 1; fails <= 2; fails++) {
        anew(NULL);
        has.fails_map = fails;
        load();
        assert_true(has.parses == 0 && has.closes == 1 && !zc_rules_in_use());
        assert_int_equal(has.unmaps, fails - 1);
    }
}

static void a_policy_that_is_not_there_or_refused(void **state)
{
    (void)state;
    has.found = ZC_POLICY_NONE;
    load();
    assert_true(!zc_rules_path() && has.parses == 0 && has.closes == 0);
    assert_string_equal(has.said, "");
    anew(NULL);
    has.found = ZC_POLICY_REFUSED;
    load();
    assert_true(!zc_rules_path() && has.parses == 0 && has.closes == 0);
    assert_string_equal(has.said, "2 rules ./policy.conf: it belongs to another; going on without "
                                  "a policy\n");
}

static void what_is_at_fault_is_told_and_the_rest_is_used(void **state)
{
    static const struct {
        int errors;
        size_t rules;
        const char *strict, *said;
    } rows[] = {
        {1, 2, "0",
         "2 rules ./policy.conf: going on without what is at fault: 2 rules of the file "
         "are used\n"},
        {1, 1, "0",
         "2 rules ./policy.conf: going on without what is at fault: 1 rule of the file "
         "is used\n"},
        {1, 0, "0",
         "2 rules ./policy.conf: going on without what is at fault: 0 rules of the file "
         "are used\n"},
        {1, 2, "1", "2 rules ./policy.conf: refused whole because of 1 error (ZC_STRICT)\n"},
        {2, 2, "on", "2 rules ./policy.conf: refused whole because of 2 errors (ZC_STRICT)\n"},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[400] = "2 policy ./policy.conf:3:7: no such key\n";
        anew(NULL);
        has.errors = rows[i].errors;
        has.rules = rows[i].rules;
        options.strict = rows[i].strict;
        load();
        if (rows[i].errors > 1)
            strcat(want, "1 policy ./policy.conf:4:1: in vain\n");
        assert_string_equal(has.said, strcat(want, rows[i].said));
        assert_int_equal(zc_rules()->rule_count, i < 3 ? rows[i].rules : 0);
        assert_string_equal(zc_rules_path(), "./policy.conf");
    }
    anew(NULL);
    options.strict = "1"; /* There is nothing to refuse. */
    load();
    assert_string_equal(has.said, "");
    assert_int_equal(zc_rules()->rule_count, 2);
}

static void a_profile_is_used_whole_or_the_preset_is(void **state)
{
    static const struct {
        const char *path;
        enum zc_policy_find_result own;
        int errors;
        const char *uses, *said;
        unsigned parses;
    } rows[] = {
        {"/cache/profile", ZC_POLICY_FOUND, 0, "/cache/profile", "", 1},
        {"/cache/profile", ZC_POLICY_FOUND, 2, "@everyday",
         "2 rules /cache/profile: it is damaged; going on with @everyday\n", 2},
        {"/cache/profile", ZC_POLICY_REFUSED, 0, "@everyday",
         "2 rules /cache/profile: others may write it; going on with @everyday\n", 1},
        {"/cache/profile", ZC_POLICY_NONE, 0, "@everyday", "", 1},
        {NULL, ZC_POLICY_FOUND, 0, "@everyday", "", 1},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.profile = true;
        has.own_path = rows[i].path;
        has.own = rows[i].own;
        has.errors = rows[i].errors;
        load();
        assert_string_equal(has.said, rows[i].said);
        assert_string_equal(zc_rules_path(), rows[i].uses);
        assert_int_equal(has.parses, rows[i].parses);
        assert_string_equal(has.text, i ? "[base]" : "aaaaeeeeii");
        assert_int_equal(has.closes, i < 2);
        assert_int_equal(rules.errors, 0);
    }
}

static void a_request_is_given_what_the_rules_need_and_no_more(void **state)
{
    (void)state;
    load();
    struct zc_match request = {.size = 7, .rank = -1, .local_rank = -1};
    assert_null(zc_rules_match(&request, 5));
    assert_true(!has.seen.site && !has.seen.module && !has.seen.exe && !has.seen.thread);
    assert_true(has.seen.size == 7 && !has.seen.host && has.seen.rank == -1 && !has.seen.grown);
    assert_true(has.missed == 1 && has.missed_site == 5 && !has.missed_taken);
    zc_rules_grown();
    has.matches = true;
    has.job = (struct zc_job){.launcher = "srun", .rank = 3, .local_rank = 1};
    const unsigned needs[] = {ZC_NEED_SITE, ZC_NEED_MODULE, ZC_NEED_EXE, ZC_NEED_THREAD,
                              ZC_NEED_JOB};
    for (unsigned i = 0; i < 5; i++) {
        request = (struct zc_match){.rank = -1, .local_rank = -1};
        has.needs = zc_rules_read.needs = needs[i];
        assert_non_null(zc_rules_match(&request, 5));
        assert_true(has.missed_taken && has.seen.grown && !request.thread);
        assert_int_equal(has.seen.site, i == 0 ? 105 : 0);
        assert_true((has.seen.module != NULL) == (i == 1) && (has.seen.exe != NULL) == (i == 2));
        assert_string_equal(has.thread, i == 3 ? "a thread of 15b" : "none");
        assert_true((has.seen.host != NULL) == (i == 4));
        assert_true(has.seen.rank == (i == 4 ? 3 : -1) && has.seen.local_rank == (i == 4 ? 1 : -1));
    }
    has.job.launcher = NULL; /* It is rank 0 of its own job. */
    request = (struct zc_match){.rank = -1, .local_rank = -1};
    zc_rules_match(&request, 5);
    assert_true(has.seen.rank == 0 && has.seen.local_rank == 0);
    assert_string_equal(has.seen.host, "here");
    zc_rules_read.needs = ZC_NEED_THREAD;
    has.no_prctl = true;
    zc_rules_match(&request, 5);
    assert_string_equal(has.thread, "none");
}

static void the_host_is_found_out_before_threads_ask_for_it(void **state)
{
    (void)state;
    has.needs = ZC_NEED_JOB;
    load();
    assert_int_equal(has.hosts, 1);
}

static void a_child_counts_anew_and_reads_what_its_parent_had_not_read(void **state)
{
    static struct zc_rule two[2];
    static __typeof__(*two[0].counters) counters[2];
    (void)state;
    load();
    for (unsigned i = 0; i < 2; i++) {
        two[i].counters = &counters[i];
        counters[i].fits = 5;
    }
    zc_rules_read.rules = two;
    zc_module_rules.child();
    assert_true(rules.state == READ && counters[0].fits == 0 && counters[1].fits == 0);
    assert_non_null(zc_rules_path());
    rules.state = READING;
    zc_module_rules.child();
    assert_true(rules.state == UNREAD && !zc_rules_path());
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_is_read_whole_once_and_under_the_lock),
        TEST(a_handler_in_the_midst_of_reading_has_no_rules_yet),
        TEST(nothing_is_read_where_the_environment_is_not_trusted),
        TEST(a_file_may_have_so_many_bytes_and_the_parser_sees_one_more),
        TEST(without_memory_there_are_no_rules),
        TEST(a_policy_that_is_not_there_or_refused),
        TEST(what_is_at_fault_is_told_and_the_rest_is_used),
        TEST(a_profile_is_used_whole_or_the_preset_is),
        TEST(a_request_is_given_what_the_rules_need_and_no_more),
        TEST(the_host_is_found_out_before_threads_ask_for_it),
        TEST(a_child_counts_anew_and_reads_what_its_parent_had_not_read),
    };
    return RUN_TESTS(tests);
}
