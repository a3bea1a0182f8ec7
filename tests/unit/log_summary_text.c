/* SPDX-License-Identifier: MIT */
/* The summary for people: which lines it has, and what they say. */
#include "base_test.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/path.h"
#include "base/text.h"
#include "ledger/profile.h"
#include "ledger/rules.h"
#include "log/lines.h"
#include "log/log.h"
#include "log/refusals.h"
#include "log/summary.h"

#define MIB ((uint64_t)1 << 20)
#define TITLE                                                                                      \
    "libzc: prog (pid 77) 0 B asked in 0 transfers:\n"                                             \
    "       0 B moved, 0 B copied by the CPU, 0 B elided, 0 ns blocked\n"

static struct {
    const char *script, *rules, *log;
    struct zc_log_moves moves;
    struct zc_log_unmet unmet;
    struct zc_pair_counts pairs;
    struct zc_unknown_calls unknown;
    uint64_t kept, untracked, decisions;
    bool profile;
    int error;
    char said[8192];
} has;
static struct zc_summary sum;

static const char *fake_script(char *text, size_t size)
{
    assert_int_equal(size, 1024);
    return has.script ? strcpy(text, has.script) : NULL;
}

static void fake_raw(const char *text, size_t n)
{
    memcpy(has.said, text, n);
    has.said[n] = '\0';
}

#define zc_log_script fake_script
#define zc_log_program() "prog"
#define getpid() 77
#define zc_ticks_to_ns(ticks) (2 * (ticks))
#define zc_rules_path() has.rules
#define zc_log_path() has.log
#define zc_log_error() has.error
#define zc_block_untracked() has.untracked
#define zc_profile_asked() has.profile
#define zc_log_moves has.moves
#define zc_log_unmet has.unmet
#define zc_log_pairs has.pairs
#define zc_log_unknown has.unknown
#define zc_log_kept_peak has.kept
#define zc_log_decisions has.decisions
#define zc_refusals_text(t) zc_text_str(t, "[refusals]")
#define zc_message_raw fake_raw
#include "../../shim/log/summary_text.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&sum, 0, sizeof(sum));
    has.rules = "./policy.conf";
    return 0;
}

static void says(const char *before, const char *title, const char *behind)
{
    char want[4096] = "";
    strcat(strcat(strcat(strcat(want, before), title), behind), "[refusals]");
    zc_summary_print(&sum, true);
    assert_string_equal(has.said, want);
}

static void sums_of_all_copies_come_first(void **state)
{
    (void)state;
    says("", TITLE, "");
    sum.copies[ZC_MOVED] = (struct zc_count){.calls = 1, .bytes = 4 * MIB};
    sum.copy_ticks = 1500;
    says("",
         "libzc: prog (pid 77) 4 MiB asked in 1 transfer:\n"
         "       4 MiB moved, 0 B copied by the CPU, 0 B elided, 3.0 us blocked\n",
         "");
    sum.copies[ZC_CPU] = (struct zc_count){.calls = 1, .bytes = 2 * MIB};
    sum.copies[ZC_ELIDED] = (struct zc_count){.calls = 1, .bytes = MIB};
    says("",
         "libzc: prog (pid 77) 7 MiB asked in 3 transfers:\n"
         "       4 MiB moved, 2 MiB copied by the CPU, 1 MiB elided, 3.0 us blocked\n",
         "");
    zc_summary_print(&sum, false); /* Refusals are told all the same. */
    assert_string_equal(has.said, "[refusals]");
}

static void a_program_is_named_by_its_script(void **state)
{
    static const struct {
        const char *script, *named;
    } rows[] = {{"/srv/train.py", "train.py (prog)"},
                {"train.py", "train.py (prog)"},
                {"import torch", "prog"},
                {"import\ntorch", "prog"},
                {"a\033b.py", "a?b.py (prog)"}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char title[400] = "libzc: ";
        has.script = rows[i].script;
        strcat(strcat(title, rows[i].named), strchr(TITLE, '(') - 1);
        says("", title, "");
    }
}

static void a_policy_that_took_nothing_is_told_with_the_nearest_request(void **state)
{
    struct zc_rule rule = {.name = "tables", .line = 12};
    (void)state;
    sum.all_missed = true;
    says("libzc: ./policy.conf took nothing: no request was of the kind and size of its rules\n",
         TITLE, "");
    has.rules = "./a\nb";
    says("libzc: ./a?b took nothing: no request was of the kind and size of its rules\n", TITLE,
         "");
    sum.missed = (struct zc_missed){
        .rule = &rule, .requests = 1, .api = ZC_API_cuMemAlloc, .size = MIB, .misfit = "s\nize"};
    says("libzc: ./a?b took none of 1 request\n"
         "       nearest: cuMemAlloc of 1 MiB, not of rule tables (line 12): s?ize\n",
         TITLE, "");
    has.rules = "./policy.conf";
    sum.missed.requests = 2;
    strcpy(sum.missed.misfit, "size");
    says("libzc: ./policy.conf took none of 2 requests\n"
         "       nearest: cuMemAlloc of 1 MiB, not of rule tables (line 12): size\n",
         TITLE, "");
    sum.pageable_asked = 5 * MIB;
    sum.pageable_moved = 3 * MIB;
    says("libzc: ./policy.conf took none of 2 requests, only pageable_copy did 2 MiB\n"
         "       nearest: cuMemAlloc of 1 MiB, not of rule tables (line 12): size\n",
         TITLE, "5 MiB from or to pageable memory, of which 3 MiB moved as such\n");
}

static void each_further_line_is_there_where_it_has_something_to_say(void **state)
{
    (void)state;
    sum.pageable_asked = 1;
    says("", TITLE, "1 B from or to pageable memory, of which 0 B moved as such\n");
    anew(NULL);
    has.pairs = (struct zc_pair_counts){
        .pairs = 1, .elided_copies = 3, .elided_bytes = 2 * MIB, .copied_bytes = MIB};
    says("", TITLE,
         "shared: 1 device blocks, 3 copies and 2 MiB elided; 1 MiB copied by the CPU\n");
    anew(NULL);
    has.kept = 1;
    says("", TITLE, "up to 1 B of freed host memory kept for later requests\n");
    anew(NULL);
    has.untracked = 1;
    says("", TITLE, "1 requests were not recorded\n");
    anew(NULL);
    has.unknown = (struct zc_unknown_calls){.calls = 1, .functions = 1};
    says("", TITLE, "1 calls of 1 functions that libzc does not know\n");
    for (unsigned n = 1; n <= 2; n++) {
        anew(NULL);
        has.decisions = n;
        says("", TITLE,
             n == 1 ? "auto: 1 decision within this run\n" : "auto: 2 decisions within this run\n");
    }
    anew(NULL);
    has.profile = true;
    has.rules = "@everyday";
    says("", TITLE, "auto: @everyday; zc auto --show\n");
}

static void moves_are_told_in_either_direction(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        char want[200] = "moves: ";
        anew(NULL);
        has.moves.to_device = i & 1;
        has.moves.to_host = i / 2;
        has.moves.hidden = MIB;
        has.moves.blocked = 500;
        has.moves.waited = 1000;
        strcat(strcat(want, i & 1 ? "1" : "0"), " B to the device (1 MiB beside kernels), ");
        strcat(strcat(want, i / 2 ? "1" : "0"),
               " B to the host; launches waited 1.0 us, and 2.0 us "
               "for the GPU\n");
        says("", TITLE, want);
    }
}

static void memory_that_the_device_did_not_have_is_told_with_a_way_out(void **state)
{
    (void)state;
    has.unmet.requests = 1;
    has.unmet.largest_bytes = 3 * MIB;
    has.unmet.lacking_bytes = MIB;
    says("", TITLE,
         "the device had no memory for 1 request of up to 3 MiB, and lacked 1 MiB: zc run -p "
         "@larger-than-gpu lets host memory take what has no room\n");
    has.unmet.requests = 2;
    says("", TITLE,
         "the device had no memory for 2 requests of up to 3 MiB, and lacked 1 MiB: zc run -p "
         "@larger-than-gpu lets host memory take what has no room\n");
}

static void the_log_comes_last(void **state)
{
    (void)state;
    has.log = "/tmp/a\tb.jsonl";
    says("", TITLE, "log: /tmp/a?b.jsonl; zc report shows it\n");
    has.error = ENOSPC;
    says("", TITLE,
         "log: /tmp/a?b.jsonl (not whole: No space left on device); zc report shows it\n");
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(sums_of_all_copies_come_first),
        T(a_program_is_named_by_its_script),
        T(a_policy_that_took_nothing_is_told_with_the_nearest_request),
        T(each_further_line_is_there_where_it_has_something_to_say),
        T(moves_are_told_in_either_direction),
        T(memory_that_the_device_did_not_have_is_told_with_a_way_out),
        T(the_log_comes_last),
    };
    return RUN_TESTS(tests);
}
