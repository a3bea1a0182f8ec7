/* SPDX-License-Identifier: MIT */
/*
 * Every key of policy.conf with the values that it accepts, and where they end up.
 */
#include "policy_test.h"

/* The only rule of a text that has the given lines besides its place. */
static struct parsed *rule_with(const char *place, const char *lines, const struct zc_rule **out)
{
    char text[512];

    snprintf(text, sizeof text, "[rule r]\nplace = %s\n%s\n", place, lines);
    struct parsed *parsed = parse_good(text);
    assert_int_equal(parsed->policy.rule_count, 1);
    *out = &parsed->policy.rules[0];
    return parsed;
}

static void sizes_are_powers_of_1024(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("vmm", "size = 1, 2K, 3M, 4G, 5T, 16777215T", &rule);
    static const uint64_t expected[] = {1,
                                        UINT64_C(2) << 10,
                                        UINT64_C(3) << 20,
                                        UINT64_C(4) << 30,
                                        UINT64_C(5) << 40,
                                        UINT64_C(16777215) << 40};

    assert_int_equal(rule->size.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_true(rule->size.item[i].low == expected[i]);
        assert_true(rule->size.item[i].high == expected[i]);
    }
    parsed_free(parsed);
}

static void size_ranges_may_be_open(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("vmm", "size = 64K..2G, 1M.., ..4K, 7..7", &rule);
    const struct zc_range *item = rule->size.item;

    assert_int_equal(rule->size.count, 4);
    assert_true(item[0].low == 65536 && item[0].high == UINT64_C(2) << 30);
    assert_true(item[1].low == 1 << 20 && item[1].high == UINT64_MAX);
    assert_true(item[2].low == 0 && item[2].high == 4096);
    assert_true(item[3].low == 7 && item[3].high == 7);
    parsed_free(parsed);
}

static void sites_are_hexadecimal(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("vmm", "site = 3f9a1c22, 0xDEAD, 0", &rule);

    assert_int_equal(rule->site.count, 3);
    assert_true(rule->site.item[0].low == 0x3f9a1c22);
    assert_true(rule->site.item[1].high == 0xdead);
    assert_true(rule->site.item[2].low == 0);
    parsed_free(parsed);
}

static void places_keep_their_order(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("shared, mapped, vmm, managed, device", "", &rule);
    static const enum zc_place_id expected[] = {ZC_PLACE_SHARED, ZC_PLACE_MAPPED, ZC_PLACE_VMM,
                                                ZC_PLACE_MANAGED, ZC_PLACE_DEVICE};

    assert_int_equal(rule->place.count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(rule->place.item[i], expected[i]);
    parsed_free(parsed);
    parsed = rule_with("pinned, pageable", "", &rule);
    assert_int_equal(rule->place.item[0], ZC_PLACE_PINNED);
    assert_int_equal(rule->place.item[1], ZC_PLACE_PAGEABLE);
    parsed_free(parsed);
}

static void what_spills_to_the_host_is_mapped_next(void **state)
{
    (void)state;
    static const enum zc_place_id behind[] = {ZC_PLACE_DEVICE, ZC_PLACE_VMM, ZC_PLACE_MAPPED,
                                              ZC_PLACE_MANAGED};
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("device, vmm, managed", "spill = host", &rule);

    assert_int_equal(rule->place.count, 4);
    assert_memory_equal(rule->place.item, behind, sizeof behind);
    parsed_free(parsed);
    parsed = rule_with("vmm, managed, mapped", "spill = host", &rule);
    assert_int_equal(rule->place.count, 3);
    assert_int_equal(rule->place.item[1], ZC_PLACE_MANAGED);
    parsed_free(parsed);
    parsed = rule_with("managed, vmm", "spill = move", &rule);
    assert_int_equal(rule->place.count, 2);
    parsed_free(parsed);
}

static void a_budget_is_bytes_or_percent(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("device, mapped", "budget = 8G", &rule);

    assert_int_equal(rule->budget.kind, ZC_LIMIT_BYTES);
    assert_true(rule->budget.value == UINT64_C(8) << 30);
    parsed_free(parsed);
    parsed = rule_with("device, mapped", "budget = 75%", &rule);
    assert_int_equal(rule->budget.kind, ZC_LIMIT_PERCENT);
    assert_int_equal(rule->budget.value, 75);
    parsed_free(parsed);
    parsed_free(parse_good("[rule r]\nplace = device, mapped\nbudget = 1\n"));
    parsed_free(parse_good("[rule r]\nplace = device, mapped\nsize = 1G..\nbudget = 75%\n"));
    parsed_free(parse_good("[rule r]\nplace = device, mapped\nsize = 1G.., 2M\nbudget = 4M\n"));
    parsed_free(parse_good("[rule r]\nplace = device, mapped\nsize = 4M..\nbudget = 4M\n"));
}

static void a_chunk_is_bytes(void **state)
{
    (void)state;
    const struct zc_rule *rule;
    struct parsed *parsed = rule_with("vmm", "chunk = 32M", &rule);

    assert_true(rule->chunk == 32 << 20);
    parsed_free(parsed);
}

/* Keys whose value is one word: the text, and the number that the field must hold. */
static void single_words_reach_their_fields(void **state)
{
    (void)state;
    static const struct {
        const char *place, *line;
        size_t offset;
        unsigned value;
    } rows[] = {
        {"shared", "access = read", offsetof(struct zc_rule, access), ZC_ACCESS_READ},
        {"shared", "access = readwrite", offsetof(struct zc_rule, access), ZC_ACCESS_READWRITE},
        {"pinned", "async = staged", offsetof(struct zc_rule, async), ZC_ASYNC_STAGED},
        {"pinned", "async = overlap", offsetof(struct zc_rule, async), ZC_ASYNC_OVERLAP},
        {"managed", "prefetch = auto", offsetof(struct zc_rule, prefetch), ZC_PREFETCH_AUTO},
        {"managed", "prefetch = none", offsetof(struct zc_rule, prefetch), ZC_PREFETCH_NONE},
        {"vmm", "commit = eager", offsetof(struct zc_rule, commit), ZC_COMMIT_EAGER},
        {"vmm", "commit = lazy", offsetof(struct zc_rule, commit), ZC_COMMIT_LAZY},
        {"vmm", "grow = yes", offsetof(struct zc_rule, grow), 1},
        {"vmm", "grow = no", offsetof(struct zc_rule, grow), 0},
        {"vmm", "spill = none", offsetof(struct zc_rule, spill), ZC_SPILL_NONE},
        {"vmm", "spill = host", offsetof(struct zc_rule, spill), ZC_SPILL_HOST},
        {"vmm", "spill = move", offsetof(struct zc_rule, spill), ZC_SPILL_MOVE},
        {"vmm", "rdma = yes", offsetof(struct zc_rule, rdma), ZC_RDMA_YES},
        {"vmm", "rdma = no", offsetof(struct zc_rule, rdma), ZC_RDMA_NO},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct zc_rule *rule;
        struct parsed *parsed = rule_with(rows[i].place, rows[i].line, &rule);
        unsigned value;

        memcpy(&value, (const char *)rule + rows[i].offset, sizeof value);
        assert_int_equal(value, rows[i].value);
        parsed_free(parsed);
    }
}

static void defaults_reach_the_policy(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[defaults]\nlog = /tmp/zc.%e.%p.%h.%r.%t.100%%.jsonl\n"
                                       "log_level = events\nmax_pinned = 0\nmax_managed = 100 %\n"
                                       "max_device = 12G\npageable_copy = parallel\n"
                                       "links = idle\n");
    const struct zc_policy *policy = &parsed->policy;

    assert_string_equal(policy->log, "/tmp/zc.%e.%p.%h.%r.%t.100%%.jsonl");
    assert_int_equal(policy->log_level, ZC_LOG_LEVEL_EVENTS);
    assert_int_equal(policy->max_pinned.kind, ZC_LIMIT_BYTES);
    assert_int_equal(policy->max_pinned.value, 0);
    assert_int_equal(policy->max_managed.kind, ZC_LIMIT_PERCENT);
    assert_int_equal(policy->max_managed.value, 100);
    assert_true(policy->max_device.value == UINT64_C(12) << 30);
    assert_int_equal(policy->pageable_copy, ZC_PAGEABLE_COPY_PARALLEL);
    assert_int_equal(policy->links, ZC_LINKS_IDLE);
    parsed_free(parsed);
}

static void a_log_may_be_off(void **state)
{
    (void)state;
    struct parsed *parsed = parse_good("[defaults]\nlog = off\nlog_level = allocs\n");

    assert_string_equal(parsed->policy.log, "off");
    assert_int_equal(parsed->policy.log_level, ZC_LOG_LEVEL_ALLOCS);
    parsed_free(parsed);
}

static void log_levels_are_known_by_name(void **state)
{
    (void)state;
    enum zc_policy_log_level level = ZC_LOG_LEVEL_SUMMARY;

    assert_true(zc_log_level_from_name("events", &level));
    assert_int_equal(level, ZC_LOG_LEVEL_EVENTS);
    assert_false(zc_log_level_from_name("event", &level));
    assert_int_equal(level, ZC_LOG_LEVEL_EVENTS);
}

static void limits_resolve_to_bytes(void **state)
{
    (void)state;
    assert_true(zc_limit_bytes((struct zc_limit){ZC_LIMIT_NONE, 0}, 100) == UINT64_MAX);
    assert_true(zc_limit_bytes((struct zc_limit){ZC_LIMIT_BYTES, 7}, 100) == 7);
    assert_true(zc_limit_bytes((struct zc_limit){ZC_LIMIT_PERCENT, 50}, 201) == 100);
    assert_true(zc_limit_bytes((struct zc_limit){ZC_LIMIT_PERCENT, 100}, UINT64_MAX) == UINT64_MAX);
}

static void sizes_are_read_from_text(void **state)
{
    (void)state;
    uint64_t size = 5;

    assert_true(zc_size_from_text("64M, more", 3, &size));
    assert_true(size == 64 << 20);
    assert_false(zc_size_from_text("64M, more", 4, &size));
    assert_true(size == 64 << 20);
}

static void every_key_has_a_form_and_a_help_line(void **state)
{
    (void)state;
    const struct zc_key *keys = zc_policy_keys();

    for (size_t i = 0; i < ZC_KEY_COUNT; i++) {
        assert_true(keys[i].name != NULL && keys[i].name[0] != '\0');
        assert_true(keys[i].values[0] != '\0' && keys[i].help[0] != '\0');
        assert_non_null(keys[i].parse);
        assert_int_equal((keys[i].scope & ZC_SCOPE_MATCH) != 0, i < ZC_MATCH_KEY_COUNT);
        for (size_t j = 0; j < i; j++)
            assert_false(strcmp(keys[i].name, keys[j].name) == 0 &&
                         (keys[i].scope & keys[j].scope) != 0);
    }
}

static void names_of_places_and_streams_are_the_words_of_the_file(void **state)
{
    (void)state;
    static const char *const places[] = {"device", "mapped",   "managed", "vmm",
                                         "shared", "pageable", "pinned"};

    for (unsigned i = 0; i < ZC_PLACE_COUNT; i++)
        assert_string_equal(zc_place_name((enum zc_place_id)i), places[i]);
    assert_string_equal(zc_place_name(ZC_PLACE_COUNT), "?");
    assert_string_equal(zc_stream_name(ZC_STREAM_PER_THREAD), "per-thread");
    assert_string_equal(zc_stream_name((enum zc_stream_kind)99), "?");
}

/* The first fault of a text, which is an error in its last line, and takes the rule along. */
static void expect_told(const char *text, const char *word)
{
    struct parsed *parsed = parse_text(text);
    const struct fault *fault = &parsed->fault[0];
    unsigned lines = 0;

    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    if (parsed->faults == 0 || fault->severity != ZC_SEVERITY_ERROR || fault->line != lines ||
        fault->column == 0 || strstr(fault->message, word) == NULL || parsed->policy.rule_count)
        fail_msg("%s%u faults, line %u: %s", text, parsed->faults, fault->line, fault->message);
    parsed_free(parsed);
}

/* As by a slip of the hand. */
static void every_key_tells_what_it_does_not_understand(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZC_KEY_COUNT; i++) {
        const struct zc_key *key = &zc_policy_keys()[i];
        const char *head = key->scope & ZC_SCOPE_DEFAULTS ? "[defaults]\n"
                           : i == ZC_KEY_PLACE            ? "[rule r]\n"
                                                          : "[rule r]\nplace = vmm\n";
        char text[256];

        snprintf(text, sizeof text, "%s%s =\n", head, key->name);
        expect_told(text, key->name);
        if (i == ZC_KEY_LOG) /* Any text is a path. */
            continue;
        snprintf(text, sizeof text, "%s%s = [\n", head, key->name);
        expect_told(text, "[");
        snprintf(text, sizeof text, "%s%s = 7, [\n", head, key->name); /* In a list, too. */
        expect_told(text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_tells_what_it_does_not_understand),
        cmocka_unit_test(sizes_are_powers_of_1024),
        cmocka_unit_test(size_ranges_may_be_open),
        cmocka_unit_test(sites_are_hexadecimal),
        cmocka_unit_test(places_keep_their_order),
        cmocka_unit_test(what_spills_to_the_host_is_mapped_next),
        cmocka_unit_test(a_budget_is_bytes_or_percent),
        cmocka_unit_test(a_chunk_is_bytes),
        cmocka_unit_test(single_words_reach_their_fields),
        cmocka_unit_test(defaults_reach_the_policy),
        cmocka_unit_test(a_log_may_be_off),
        cmocka_unit_test(log_levels_are_known_by_name),
        cmocka_unit_test(limits_resolve_to_bytes),
        cmocka_unit_test(sizes_are_read_from_text),
        cmocka_unit_test(every_key_has_a_form_and_a_help_line),
        cmocka_unit_test(names_of_places_and_streams_are_the_words_of_the_file),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
