/* SPDX-License-Identifier: MIT */
/*
 * Rules that can never match because of an earlier one, rules of one name, and a rule that needs
 * another.
 */
#include "policy_test.h"

/* Whether of two rules with the given match keys the later one is called hidden. */
static bool hidden(const char *earlier, const char *later)
{
    char text[512];

    snprintf(text, sizeof text, "[rule early]\nplace = vmm\n%s\n[rule late]\nplace = vmm\n%s\n",
             earlier, later);
    static const char message[] =
        "rule 'late' never matches: rule 'early' in line 1 takes all its requests";
    struct parsed *parsed = parse_text(text);
    bool told = false;

    assert_int_equal(parsed->errors, 0);
    for (unsigned i = 0; i < parsed->faults; i++) {
        assert_int_equal(parsed->fault[i].severity, ZC_SEVERITY_WARNING);
        told |= strcmp(parsed->fault[i].message, message) == 0;
    }
    parsed_free(parsed);
    return told;
}

static void a_rule_that_takes_more_hides_a_later_one(void **state)
{
    (void)state;
    assert_true(hidden("", ""));
    assert_true(hidden("", "size = 1M"));
    assert_true(hidden("size = 1M..", "size = 2M, 4M..8M"));
    assert_true(hidden("size = 0..", ""));
    assert_true(hidden("size = 1K, 1M..", "size = 1K"));
    assert_true(hidden("module = lib*", "module = libfoo*, libbar"));
    assert_true(hidden("module = lib*\nsize = 1M..", "module = liba\nsize = 1G\nexe = x"));
    assert_true(hidden("site = 1, 2", "site = 2"));
    assert_true(hidden("device = 0..", "device = 3"));
    assert_true(hidden("nth = 1..", "nth = 2"));
    assert_true(hidden("nth = even, 1..", "nth = odd"));
    assert_true(hidden("exe = a?", "exe = a[bc]\nthread = x"));
    assert_true(hidden("rank = 0..3\nhost = n*", "rank = 1\nhost = n1\nlocal_rank = 0"));
    assert_false(hidden("local_rank = 0", "rank = 0"));
    assert_true(hidden("api = cudaMalloc*", "api = cudaMallocPitch"));
    assert_true(hidden("grown = no", "grown = yes"));
    assert_true(hidden("grown = yes", "grown = yes"));
}

static void a_rule_that_leaves_something_hides_nothing(void **state)
{
    (void)state;
    assert_false(hidden("size = 1M..", ""));
    assert_false(hidden("size = 1M..2M", "size = 1M..3M"));
    assert_false(hidden("size = 1M", "size = 1M, 2M"));
    assert_false(hidden("module = *", ""));
    assert_false(hidden("module = libfoo*", "module = lib*"));
    assert_false(hidden("module = a, b", "module = a, c"));
    assert_false(hidden("site = 1", "site = 2"));
    assert_false(hidden("nth = 1", "size = 1M"));
    assert_false(hidden("nth = 2..", "nth = 2.."));
    assert_false(hidden("nth = odd", "nth = 1"));
    assert_false(hidden("api = cudaMalloc", ""));
    assert_false(hidden("grown = yes", "size = 1"));
    assert_false(hidden("thread = x", "exe = x"));
}

static void a_hidden_rule_is_warned_of_at_its_own_line(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[rule a]\nplace = vmm\n\n[rule b]\nplace = mapped\n");

    assert_int_equal(parsed->faults, 1);
    assert_int_equal(parsed->fault[0].line, 4);
    assert_int_equal(parsed->fault[0].column, 1);
    assert_int_equal(parsed->policy.rule_count, 2);
    parsed_free(parsed);
}

static void a_faulty_rule_hides_nothing(void **state)
{
    (void)state;
    struct parsed *parsed =
        parse_text("[rule a]\nplace = vmm\nfoo = 1\n[rule b]\nplace = mapped\n");

    assert_int_equal(parsed->faults, 1);
    assert_int_equal(parsed->errors, 1);
    assert_int_equal(parsed->policy.rule_count, 1);
    parsed_free(parsed);
}

static void two_rules_of_one_name_are_warned_of(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[rule a]\nsize = 1\nplace = vmm\n"
                                       "[rule a]\nsize = 2\nplace = vmm\n");

    assert_int_equal(parsed->faults, 1);
    assert_int_equal(parsed->errors, 0);
    assert_int_equal(parsed->fault[0].line, 4);
    assert_string_equal(parsed->fault[0].message, "another rule is named 'a', in line 1");
    assert_int_equal(parsed->policy.rule_count, 2);
    parsed_free(parsed);
}

/* Whether a rule of cudaMalloc in `shared` with `keys`, beside another rule, is told that it shares
 * nothing, because of `why`. */
static bool told(const char *keys, const char *other, const char *why)
{
    char text[512], expected[256];
    bool found = false;

    snprintf(text, sizeof text, "[rule d]\napi = cudaMalloc\nplace = shared\n%s%s", keys, other);
    snprintf(expected, sizeof expected,
             "rule 'd' shares nothing, and its blocks are device memory: %s", why);
    struct parsed *parsed = parse_text(text);
    for (unsigned i = 0; i < parsed->faults; i++) {
        if (strstr(parsed->fault[i].message, "shares nothing") == NULL)
            continue;
        assert_int_equal(parsed->fault[i].severity, ZC_SEVERITY_WARNING);
        assert_int_equal(parsed->fault[i].line, 1);
        assert_int_equal(parsed->fault[i].column, 1);
        assert_string_equal(parsed->fault[i].message, expected);
        found = true;
    }
    parsed_free(parsed);
    return found;
}

static bool lonely(const char *other)
{
    return told("access = read\n", other, "no rule gives requests of malloc 'shared'");
}

static void each_shared_rule_without_one_for_host_blocks_is_told(void **state)
{
    (void)state;
    struct parsed *parsed =
        parse_text("[rule c]\napi = cudaMalloc\nsize = 1M\nplace = shared\naccess = read\n"
                   "[rule d]\napi = cudaMalloc\nsize = 2M\nplace = shared\naccess = read\n");
    unsigned lines = 0;
    for (unsigned i = 0; i < parsed->faults; i++)
        if (strstr(parsed->fault[i].message, "shares nothing"))
            lines += parsed->fault[i].line;
    assert_int_equal(lines, 1 + 6);
    parsed_free(parsed);
}

static void a_shared_rule_needs_one_for_host_blocks(void **state)
{
    (void)state;
    assert_true(lonely(""));
    assert_true(lonely("[rule h]\napi = malloc\nplace = pageable\n"));
    assert_true(lonely("[rule h]\napi = cudaHostAlloc\nplace = pinned\n"));
    assert_true(lonely("[rule faulty]\napi = malloc\nplace = shared\nsize = x\n"));
    assert_true(lonely("[rule h]\nplace = pinned\n"));
    assert_false(lonely("[rule h]\napi = malloc\nplace = shared, pageable\n"));
}

static void a_shared_rule_needs_a_word_about_kernels(void **state)
{
    (void)state;
    const char *other = "[rule h]\napi = malloc\nplace = shared\n";
    const char *why = "it does not say 'access = read'";

    assert_true(told("", other, why));
    assert_true(told("access = readwrite\n", other, why));
    assert_false(told("access = read\n", other, why));
}

/* The check gives up rather than spend seconds on a file that no person wrote. */

static void a_hostile_file_costs_bounded_work(void **state)
{
    (void)state;
    const size_t patterns = 16, rules = 240;
    char *text = malloc(ZC_POLICY_MAX_BYTES), *at = text;

    assert_non_null(text);
    for (size_t i = 0; i < rules; i++) {
        at += sprintf(at, "[rule r%zu]\nplace = vmm\nexe = ", i);
        for (size_t j = 0; j < patterns; j++) {
            memset(at, '*', 240);
            for (size_t k = 1; k < 240; k += 2)
                at[k] = 'a';
            at += 240;
            at += sprintf(at, "%zu,", i);
        }
        at[-1] = '\n';
    }
    struct parsed *parsed = parse_bytes(text, (size_t)(at - text));
    assert_int_equal(parsed->errors, 0);
    assert_int_equal(parsed->policy.rule_count, rules);
    parsed_free(parsed);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_takes_more_hides_a_later_one),
        cmocka_unit_test(a_rule_that_leaves_something_hides_nothing),
        cmocka_unit_test(a_hidden_rule_is_warned_of_at_its_own_line),
        cmocka_unit_test(a_faulty_rule_hides_nothing),
        cmocka_unit_test(two_rules_of_one_name_are_warned_of),
        cmocka_unit_test(a_shared_rule_needs_one_for_host_blocks),
        cmocka_unit_test(each_shared_rule_without_one_for_host_blocks_is_told),
        cmocka_unit_test(a_shared_rule_needs_a_word_about_kernels),
        cmocka_unit_test(a_hostile_file_costs_bounded_work),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
