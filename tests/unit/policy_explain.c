/* SPDX-License-Identifier: MIT */
/*
 * Answers of zc_policy_explain() about each rule: the outcome, the first key that fails, its value
 * in the file and in the request.
 */
#include "policy_test.h"

/* The verdicts of one explanation, copied. */
struct verdicts {
    struct {
        enum zc_policy_outcome outcome;
        char key[32], wanted[64], got[64]; /* "-" for NULL */
    } item[8];
    unsigned count;
};

static void keep(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text != NULL ? text : "-");
}

static void collect_verdict(void *ctx, const struct zc_verdict *verdict)
{
    struct verdicts *verdicts = ctx;
    unsigned i = verdicts->count++;

    assert_true(i < 8);
    verdicts->item[i].outcome = verdict->outcome;
    keep(verdicts->item[i].key, sizeof verdicts->item[i].key,
         verdict->key != NULL ? verdict->key->name : NULL);
    keep(verdicts->item[i].wanted, sizeof verdicts->item[i].wanted, verdict->wanted);
    keep(verdicts->item[i].got, sizeof verdicts->item[i].got, verdict->got);
}

/* Explains a request to a policy of one rule that must fail it at the given key. */
static void assert_fails(const char *lines, struct zc_match request, const char *key,
                         const char *wanted, const char *got)
{
    char text[256];
    struct verdicts verdicts = {.count = 0};

    snprintf(text, sizeof text, "[rule r]\n%s\n", lines);
    struct parsed *parsed = parse_good(text);
    assert_null(zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts));
    assert_int_equal(verdicts.count, 1);
    assert_int_equal(verdicts.item[0].outcome, ZC_OUTCOME_FAILS);
    assert_string_equal(verdicts.item[0].key, key);
    assert_string_equal(verdicts.item[0].wanted, wanted);
    assert_string_equal(verdicts.item[0].got, got);
    parsed_free(parsed);
}

static void the_key_that_fails_is_named(void **state)
{
    (void)state;
    struct zc_match request = some_request(), bare = some_request();

    bare.module = NULL;
    bare.device = -1;
    assert_fails("place = vmm\nsize = 2M..", request, "size", "2M..", "1048576");
    assert_fails("place = vmm\nsite = ff", request, "site", "ff", "3f9a1c22");
    assert_fails("place = vmm\nmodule = libbar*, x", request, "module", "libbar*, x",
                 "libfoo.so.1");
    assert_fails("place = vmm\nmodule = libbar*", bare, "module", "libbar*", "-");
    assert_fails("place = vmm\nexe = b", request, "exe", "b", "app");
    assert_fails("place = vmm\nthread = main", request, "thread", "main", "worker");
    assert_fails("place = vmm\ndevice = 1..", request, "device", "1..", "0");
    assert_fails("place = vmm\ndevice = 1..", bare, "device", "1..", "-");
    assert_fails("place = vmm\nrank = 0", request, "rank", "0", "3");
    assert_fails("place = vmm\nhost = login*", request, "host", "login*", "node7");
    assert_fails("place = vmm\ngrown = yes", request, "grown", "yes", "no");
    assert_fails("place = vmm\nnth = 2", request, "nth", "2", "1");
    assert_fails("place = vmm\nnth = even", request, "nth", "even", "1");
    assert_fails("api = cudaMallocPitch\nplace = vmm", request, "api", "cudaMallocPitch",
                 "cuMemAlloc");
}

/* The glob names the request, but none of the rule's places is possible for it. */
static void a_request_that_the_places_do_not_fit_fails_at_place(void **state)
{
    (void)state;
    struct zc_match request = some_request();

    request.api = ZC_API_cuMemHostAlloc;
    assert_fails("api = cudaMalloc*\nplace = mapped, vmm", request, "place", "mapped, vmm",
                 "cuMemHostAlloc");
    assert_fails("place = mapped", request, "place", "mapped", "cuMemHostAlloc");
}

static void the_taker_and_those_behind_it_are_told_apart(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    struct verdicts verdicts = {.count = 0};
    struct parsed *parsed = parse_good("[rule a]\nsize = 2M\nplace = vmm\n"
                                       "[rule b]\nsize = 1M..\nplace = mapped\n"
                                       "[rule c]\nsize = 3M, 1\nplace = vmm\n"
                                       "[rule d]\nplace = device\n");
    const struct zc_rule *taker =
        zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts);

    assert_string_equal(taker->name, "b");
    assert_int_equal(verdicts.count, 4);
    assert_int_equal(verdicts.item[0].outcome, ZC_OUTCOME_FAILS);
    assert_int_equal(verdicts.item[1].outcome, ZC_OUTCOME_TAKES);
    assert_string_equal(verdicts.item[1].key, "-");
    assert_int_equal(verdicts.item[2].outcome, ZC_OUTCOME_FAILS);
    assert_int_equal(verdicts.item[3].outcome, ZC_OUTCOME_BEHIND);
    parsed_free(parsed);
}

static void explaining_counts_nothing(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    struct verdicts verdicts = {.count = 0};
    struct parsed *parsed = parse_good("[rule a]\nnth = 2\nplace = vmm\n");
    const struct zc_rule *rule = &parsed->policy.rules[0];

    assert_null(zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts));
    assert_null(zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts));
    assert_int_equal(rule->counters->fits, 0);
    assert_null(zc_policy_match(&parsed->policy, &request));
    assert_ptr_equal(zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts),
                     rule);
    assert_int_equal(rule->counters->fits, 1);
    parsed_free(parsed);
}

static void a_request_out_of_range_is_no_request(void **state)
{
    (void)state;
    struct zc_match request = some_request();
    struct verdicts verdicts = {.count = 0};
    struct parsed *parsed = parse_good("[rule a]\nplace = vmm\n");

    request.api = ZC_API_COUNT;
    assert_null(zc_policy_explain(&parsed->policy, &request, collect_verdict, &verdicts));
    assert_int_equal(verdicts.count, 0);
    parsed_free(parsed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_that_fails_is_named),
        cmocka_unit_test(a_request_that_the_places_do_not_fit_fails_at_place),
        cmocka_unit_test(the_taker_and_those_behind_it_are_told_apart),
        cmocka_unit_test(explaining_counts_nothing),
        cmocka_unit_test(a_request_out_of_range_is_no_request),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
