/* SPDX-License-Identifier: MIT */
/*
 * The text of a policy as a whole: line ends, marks, comments, limits, memory, what stays of a
 * faulty file.
 */
#include "policy_test.h"

static void an_empty_file_is_a_policy_without_rules(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("");

    assert_int_equal(parsed->policy.rule_count, 0);
    assert_int_equal(parsed->policy.needs, 0);
    assert_null(parsed->policy.log);
    assert_int_equal(parsed->policy.max_pinned.kind, ZC_LIMIT_PERCENT);
    assert_int_equal(parsed->policy.max_pinned.value, 50);
    assert_int_equal(parsed->policy.max_managed.kind, ZC_LIMIT_NONE);
    assert_string_equal(parsed->policy.file, "policy.conf");
    parsed_free(parsed);
}

static void crlf_line_ends_are_accepted(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule a]\r\nsize = 1M..\r\nplace = mapped\r\n");

    assert_int_equal(parsed->policy.rule_count, 1);
    assert_string_equal(parsed->policy.rules[0].wanted[ZC_KEY_SIZE], "1M..");
    parsed_free(parsed);
}

static void a_byte_order_mark_is_accepted(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("\xef\xbb\xbf[rule a]\nplace = mapped, device");

    assert_int_equal(parsed->policy.rules[0].place.count, 2);
    parsed_free(parsed);
}

static void the_last_line_needs_no_line_end(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule a]\nplace = mapped, device");

    assert_int_equal(parsed->policy.rules[0].place.count, 2);
    parsed_free(parsed);
}

static void blanks_do_not_matter(void **state)
{
    (void)state;
    struct parsed *parsed =
        parse_good("\n \t\n\t[ rule\ta ]  \n  place=vmm ,\tdevice\t\n\tsize  =  1M .. 2M\n");

    assert_int_equal(parsed->policy.rule_count, 1);
    assert_string_equal(parsed->policy.rules[0].name, "a");
    assert_int_equal(parsed->policy.rules[0].place.count, 2);
    assert_int_equal(parsed->policy.rules[0].size.item[0].high, 2 << 20);
    parsed_free(parsed);
}

static void a_comment_begins_at_the_line_or_after_a_blank(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("# one\n  # two\n[rule a] # three\n"
                                       "module = lib#1.so, b # four # five\nplace = vmm\t#six\n");

    assert_int_equal(parsed->policy.rules[0].module.count, 2);
    assert_string_equal(parsed->policy.rules[0].module.item[0], "lib#1.so");
    assert_string_equal(parsed->policy.rules[0].module.item[1], "b");
    parsed_free(parsed);
}

static void a_faulty_rule_is_left_out_and_the_others_stay(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[rule a]\nplace = mapped\nsize = 1K\n"
                                       "[rule b]\nplace = maped\nsize = 2K\n"
                                       "[rule c]\nplace = vmm\nsize = 3K\n");

    assert_int_equal(parsed->errors, 1);
    assert_int_equal(parsed->policy.rule_count, 2);
    assert_string_equal(parsed->policy.rules[0].name, "a");
    assert_string_equal(parsed->policy.rules[1].name, "c");
    assert_int_equal(parsed->policy.rules[1].line, 7);
    assert_int_equal(parsed->policy.rules[1].size.item[0].low, 3072);
    parsed_free(parsed);
}

static void all_faults_of_a_rule_are_reported(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[rule a/b]\nsize = x\nplcae = vmm\nnth = 0\n");

    assert_int_equal(parsed->errors, 4);
    assert_int_equal(parsed->fault[3].line, 4);
    assert_int_equal(parsed->policy.rule_count, 0);
    parsed_free(parsed);
}

static void a_faulty_default_is_left_out_alone(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[defaults]\nlog = zc.log\nlog_level = loud\n"
                                       "max_managed = 1G\n[rule a]\nplace = vmm\n");

    assert_int_equal(parsed->errors, 1);
    assert_string_equal(parsed->policy.log, "zc.log");
    assert_int_equal(parsed->policy.log_level, ZC_LOG_LEVEL_SUMMARY);
    assert_int_equal(parsed->policy.max_managed.value, 1 << 30);
    assert_true((parsed->policy.given & ZC_KEY_BIT(ZC_KEY_LOG)) != 0);
    assert_true((parsed->policy.given & ZC_KEY_BIT(ZC_KEY_LOG_LEVEL)) == 0);
    assert_int_equal(parsed->policy.rule_count, 1);
    parsed_free(parsed);
}

static void a_nul_byte_is_a_fault(void **state)
{
    (void)state;
    static const char text[] = "[rule a]\nplace = vmm\nexe = a\0b\n[rule b]\nplace = vmm";
    struct parsed *parsed = parse_bytes(text, sizeof text - 1);

    assert_int_equal(parsed->errors, 1);
    assert_string_equal(parsed->fault[0].message,
                        "control byte '\\x00'; a policy is text in ASCII or UTF-8");
    assert_int_equal(parsed->fault[0].column, 8);
    assert_int_equal(parsed->policy.rule_count, 1);
    parsed_free(parsed);
}

static void bytes_past_ascii_are_accepted_in_values(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[rule a]\nexe = pr\xc3\xbc"
                                       "fung\xff*\nplace = vmm\n");

    assert_string_equal(parsed->policy.rules[0].exe.item[0], "pr\xc3\xbc"
                                                             "fung\xff*");
    parsed_free(parsed);
}

static void a_line_past_the_limit_is_a_fault_and_loses_its_rule(void **state)
{
    (void)state;
    char text[ZC_POLICY_MAX_LINE + 64];
    int head = sprintf(text, "[rule a]\nplace = vmm\nexe = ");

    memset(text + head, 'x', ZC_POLICY_MAX_LINE - 5);
    text[head + ZC_POLICY_MAX_LINE - 5] = '\0';
    struct parsed *parsed = parse_text(text);
    assert_int_equal(parsed->errors, 1);
    assert_string_equal(parsed->fault[0].message, "line of 4097 bytes; the limit is 4096");
    assert_int_equal(parsed->fault[0].line, 3);
    assert_int_equal(parsed->policy.rule_count, 0);
    parsed_free(parsed);
}

static void a_pattern_longer_than_a_file_name_is_a_fault(void **state)
{
    (void)state;
    char text[400];
    int head = sprintf(text, "[rule a]\nplace = vmm\nexe = ");

    memset(text + head, 'x', 256);
    text[head + 256] = '\0';
    struct parsed *parsed = parse_text(text);
    assert_int_equal(parsed->errors, 1);
    assert_non_null(strstr(parsed->fault[0].message, "more bytes than a file name can have"));
    parsed_free(parsed);
}

static void a_file_past_the_limit_is_refused_whole(void **state)
{
    (void)state;
    size_t n = ZC_POLICY_MAX_BYTES + 1;
    char *text = malloc(n);

    assert_non_null(text);
    memset(text, '\n', n);
    memcpy(text, "[rule a]\nplace = vmm\n", 21);
    struct parsed *parsed = parse_bytes(text, n);
    assert_int_equal(parsed->errors, 1);
    assert_string_equal(parsed->fault[0].message, "file of 1048577 bytes; the limit is 1048576");
    assert_int_equal(parsed->policy.rule_count, 0);
    parsed_free(parsed);
    parsed = parse_bytes(text, n - 1);
    assert_int_equal(parsed->errors, 0);
    assert_int_equal(parsed->policy.rule_count, 1);
    parsed_free(parsed);
    free(text);
}

static void more_rules_than_the_limit_are_a_fault(void **state)
{
    (void)state;
    const unsigned rules = ZC_POLICY_MAX_RULES + 1;
    char *text = malloc((size_t)rules * 48), *at = text;

    assert_non_null(text);
    for (unsigned i = 1; i <= rules; i++)
        at += sprintf(at, "[rule r%u]\nsize = %u\nplace = vmm\n", i, i);
    struct parsed *parsed = parse_text(text);
    assert_int_equal(parsed->errors, 1);
    assert_string_equal(parsed->fault[0].message, "no room for more than 1024 rules");
    assert_int_equal(parsed->policy.rule_count, ZC_POLICY_MAX_RULES);
    assert_string_equal(parsed->policy.rules[1023].name, "r1024");
    parsed_free(parsed);
    free(text);
}

static void reports_end_at_the_limit_and_errors_are_counted_on(void **state)
{
    (void)state;
    char text[3 * 300 + 1];

    for (unsigned i = 0; i < 300; i++)
        memcpy(text + 3 * i, "x\n\n", 4);
    struct parsed *parsed = parse_text(text);
    assert_int_equal(parsed->errors, 300);
    assert_int_equal(parsed->faults, ZC_POLICY_MAX_REPORTS + 1);
    assert_string_equal(parsed->fault[ZC_POLICY_MAX_REPORTS].message,
                        "more faults follow; the first 100 are listed");
    parsed_free(parsed);
}

static void a_caller_may_ignore_reports(void **state)
{
    (void)state;
    static char memory[65536];
    struct zc_policy_memory mem = {memory, sizeof memory, 0};
    struct zc_policy policy;

    assert_int_equal(zc_policy_parse(NULL, "x\ny\n", 4, &mem, NULL, NULL, &policy), 2);
    assert_null(policy.file);
}

/* Whatever the memory, the parser stays within it, and says so when it is too little. */
static void too_little_memory_is_a_fault_and_never_a_crash(void **state)
{
    (void)state;
    static const char text[] = "[defaults]\nlog = zc.%p.jsonl\n[rule abc]\nsize = 1,2,3..4\n"
                               "module = a, b, c\nplace = vmm\n[rule d]\nexe = x\nplace = vmm\n";
    size_t enough = zc_policy_memory_for(sizeof text - 1);
    bool complete = false;

    for (size_t size = 0; size <= enough; size++) {
        char *memory = malloc(size + 1);
        struct zc_policy_memory mem = {memory, size, 0};
        struct zc_policy policy;
        int errors = zc_policy_parse(NULL, text, sizeof text - 1, &mem, NULL, NULL, &policy);

        assert_true(mem.used <= size);
        assert_true(errors > 0 || policy.rule_count == 2);
        assert_false(complete && errors > 0);
        complete = errors == 0;
        free(memory);
    }
    assert_true(complete);
}

/* Items as short as they can be need the most memory for each byte of text. */
static void the_memory_that_is_asked_for_is_enough_for_dense_texts(void **state)
{
    (void)state;
    static const char *const lines[] = {"size=1", "nth=1", "site=1", "exe=a", "thread=a"};
    size_t n = 0;
    char *text = malloc(ZC_POLICY_MAX_BYTES);

    assert_non_null(text);
    while (n + 5 * ZC_POLICY_MAX_LINE < ZC_POLICY_MAX_BYTES) {
        n += (size_t)sprintf(text + n, "[rule a]\nplace=vmm\n");
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
            size_t head = (size_t)sprintf(text + n, "%s", lines[i]);

            for (size_t at = head; at + 2 <= ZC_POLICY_MAX_LINE - 2; at += 2)
                memcpy(text + n + at, ",1", 2);
            n += ZC_POLICY_MAX_LINE - 2 - (ZC_POLICY_MAX_LINE - 2 - head) % 2;
            text[n++] = '\n';
        }
    }
    struct parsed *parsed = parse_bytes(text, n);
    assert_int_equal(parsed->errors, 0);
    assert_true(parsed->policy.rule_count > 40);
    parsed_free(parsed);
    free(text);
}

static void the_shortest_text_has_room_for_its_rule(void **state)
{
    (void)state;
    struct parsed *parsed = parse_text("[rule a]");

    assert_int_equal(parsed->faults, 1);
    assert_string_equal(parsed->fault[0].message, "rule 'a' has no place");
    parsed_free(parsed);
}

static void what_a_policy_holds_is_aligned(void **state)
{
    (void)state;
    for (size_t n = 1; n <= 16; n++) {
        char text[80];

        snprintf(text, sizeof text, "[rule %.*s]\nplace = vmm\nsize = 1M, 2M\nsite = 1\n", (int)n,
                 "abcdefghijklmnop");
        struct parsed *parsed = parse_good(text);
        const struct zc_rule *rule = &parsed->policy.rules[0];

        assert_int_equal((uintptr_t)rule->size.item % _Alignof(struct zc_range), 0);
        assert_int_equal((uintptr_t)rule->site.item % _Alignof(struct zc_range), 0);
        parsed_free(parsed);
    }
}

static void the_hash_is_fnv_1a_of_the_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {{"", UINT64_C(0xcbf29ce484222325)},
                 {"a", UINT64_C(0xaf63dc4c8601ec8c)},
                 {"foobar", UINT64_C(0x85944171f73967e8)}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct parsed *parsed = parse_text(known[i].text);

        assert_true(parsed->policy.hash == known[i].hash);
        parsed_free(parsed);
    }
}

static void binary_garbage_is_judged_and_never_a_crash(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    char garbage[4096];

    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof garbage; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            garbage[i] = (char)seed;
        }
        struct parsed *parsed = parse_bytes(garbage, sizeof garbage);
        assert_true(parsed->errors > 0);
        for (unsigned i = 0; i < parsed->faults && i < 100; i++) {
            for (const char *c = parsed->fault[i].message; *c != '\0'; c++)
                assert_in_range(*c, 0x20, 0x7e);
        }
        parsed_free(parsed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_a_policy_without_rules),
        cmocka_unit_test(crlf_line_ends_are_accepted),
        cmocka_unit_test(a_byte_order_mark_is_accepted),
        cmocka_unit_test(the_last_line_needs_no_line_end),
        cmocka_unit_test(blanks_do_not_matter),
        cmocka_unit_test(a_comment_begins_at_the_line_or_after_a_blank),
        cmocka_unit_test(a_faulty_rule_is_left_out_and_the_others_stay),
        cmocka_unit_test(all_faults_of_a_rule_are_reported),
        cmocka_unit_test(a_faulty_default_is_left_out_alone),
        cmocka_unit_test(a_nul_byte_is_a_fault),
        cmocka_unit_test(bytes_past_ascii_are_accepted_in_values),
        cmocka_unit_test(a_line_past_the_limit_is_a_fault_and_loses_its_rule),
        cmocka_unit_test(a_pattern_longer_than_a_file_name_is_a_fault),
        cmocka_unit_test(a_file_past_the_limit_is_refused_whole),
        cmocka_unit_test(more_rules_than_the_limit_are_a_fault),
        cmocka_unit_test(reports_end_at_the_limit_and_errors_are_counted_on),
        cmocka_unit_test(a_caller_may_ignore_reports),
        cmocka_unit_test(too_little_memory_is_a_fault_and_never_a_crash),
        cmocka_unit_test(the_memory_that_is_asked_for_is_enough_for_dense_texts),
        cmocka_unit_test(the_shortest_text_has_room_for_its_rule),
        cmocka_unit_test(what_a_policy_holds_is_aligned),
        cmocka_unit_test(the_hash_is_fnv_1a_of_the_bytes),
        cmocka_unit_test(binary_garbage_is_judged_and_never_a_crash),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
