/* SPDX-License-Identifier: MIT */
/* The summary: the sums in the log's last line, and those on stderr. */
#include "log_test.h"

#include "base/clock.h"
#include "base/options.h"
#include "base/own.h"
#include "ledger/block.h"
#include "ledger/site.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "log/refusals.h"
#include "log/summary.h"
#include "policy/policy.h"

static char told[65536];

#define H2D ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE

static void transfer(unsigned flow, enum zc_outcome outcome, uint64_t bytes, struct zc_block *dst)
{
    struct zc_transfer t = {.asked = flow,
                            .real = flow,
                            .outcome = outcome,
                            .bytes = bytes,
                            .copies = 1,
                            .ticks = 1000,
                            .dst = dst};

    zc_traffic_record(&t);
}

static struct zc_block *add_block(uint64_t base, uint32_t site, enum zc_place_id place)
{
    const struct zc_block like = {.base = base,
                                  .size = 1 << 20,
                                  .site = site,
                                  .place = (uint8_t)place,
                                  .rule = -1,
                                  .asked = ZC_KIND_DEVICE,
                                  .real = ZC_KIND_DEVICE};
    struct zc_block *b = zc_block_add(&like);

    assert_non_null(b);
    return b;
}

/* Two blocks of one site: one freed after a moved and an elided copy, one live with a CPU copy. */
static void some_traffic(void)
{
    uint32_t site = zc_site_here(__builtin_frame_address(0), __builtin_return_address(0));
    struct zc_block *freed = add_block(0x10000000, site, ZC_PLACE_DEVICE);
    struct zc_block *live = add_block(0x20000000, site, ZC_PLACE_MAPPED);

    transfer(zc_flow(H2D), ZC_MOVED, 4 << 20, freed);
    transfer(zc_flow(H2D), ZC_ELIDED, 2 << 20, freed);
    transfer(zc_flow(ZC_DIR_PREFETCH, ZC_KIND_DEVICE, ZC_KIND_DEVICE), ZC_MOVED, 7, freed);
    assert_true(zc_block_claim(freed));
    zc_log_block(freed, false);
    zc_block_remove(freed);
    zc_site_note_free(site);
    transfer(zc_flow(H2D), ZC_CPU, 8 << 20, live);
    transfer(zc_flow(ZC_DIR_MEMSET, ZC_KIND_DEVICE, ZC_KIND_DEVICE), ZC_MOVED, 100, live);
}

/* Calls zc_log_summary() with stderr in a file, whose text `told` then holds. */
static void summarize(void)
{
    int saved = dup(STDERR_FILENO);
    int fd = open("stderr", O_CREAT | O_RDWR | O_TRUNC, 0600);

    fflush(stderr);
    dup2(fd, STDERR_FILENO);
    zc_message_init();
    zc_log_summary();
    dup2(saved, STDERR_FILENO);
    zc_message_init();
    close(fd);
    close(saved);
    strncpy(told, text_of("stderr"), sizeof(told) - 1);
}

static int begin(void **state)
{
    int result = new_folder(state);

    unsetenv("ZC_SUMMARY");
    zc_options_read();
    zc_counters_reset();
    zc_own_forget();
    zc_site_path_reset();
    zc_traffic_reset();
    return result;
}

#define SUMMARY_TEST(f) cmocka_unit_test_setup_teardown(f, begin, remove_folder)

static const char *last_line(void)
{
    char *text = text_of("a.jsonl");

    json_lines(text);
    return strstr(text, "{\"type\":\"summary\"");
}

static void the_last_line_sums_copies_by_outcome(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    assert_holds(last_line(), "\"asked_calls\":3,\"asked_bytes\":14680064,\"moved_calls\":1,"
                              "\"moved_bytes\":4194304,\"cpu_copied_calls\":1,"
                              "\"cpu_copied_bytes\":8388608,\"elided_calls\":1,"
                              "\"elided_bytes\":2097152,\"blocked_ns\":");
    assert_holds(last_line(), "\"untracked\":0,\"lost_lines\":0,");
    assert_null(strstr(last_line(), "\"shared\":"));
}

static void the_last_line_has_flows_and_what_was_moved_by_real_kinds(void **state)
{
    struct zc_transfer t = {.asked = zc_flow(H2D),
                            .outcome = ZC_MOVED,
                            .bytes = 5,
                            .copies = 3,
                            .real = zc_flow(ZC_DIR_HTOH, ZC_KIND_PAGEABLE, ZC_KIND_PINNED)};

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    zc_traffic_record(&t);
    summarize();
    assert_holds(last_line(), "\"flows\":[{\"dir\":\"HtoD\",\"src_kind\":\"Pageable\","
                              "\"dst_kind\":\"Device\",\"asked_calls\":1,\"asked_bytes\":5,");
    assert_holds(last_line(), "\"moved_by_kind\":[{\"dir\":\"HtoH\",\"src_kind\":\"Pageable\","
                              "\"dst_kind\":\"Pinned\",\"calls\":3,\"bytes\":5}]");
}

static void copies_between_other_kinds_than_pageable_are_told_apart(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    transfer(zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_DEVICE), ZC_MOVED, 3, NULL);
    transfer(zc_flow(ZC_DIR_HTOD, ZC_KIND_PINNED, ZC_KIND_DEVICE), ZC_MOVED, 5, NULL);
    transfer(zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PAGEABLE), ZC_MOVED, 7, NULL);
    summarize();
    assert_holds(last_line(), "\"asked_calls\":6,\"asked_bytes\":14680079,");
    assert_holds(last_line(), "\"pageable_asked_bytes\":14680071,");
    assert_holds(last_line(), "\"pageable_moved_bytes\":4194311,");
}

static void a_site_has_what_was_registered_of_its_blocks(void **state)
{
    (void)state;
    uint32_t site = zc_site_here(__builtin_frame_address(0), __builtin_return_address(0));
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    add_block(0x10000000, site, ZC_PLACE_DEVICE);
    zc_log_registered[site] = (5 << 20) + 1;
    summarize();
    assert_holds(last_line(), "\"frees\":0,\"registered_bytes\":5242881,\"rule\":");
}

static void refused_calls_are_counted_by_rule_and_told_last(void **state)
{
    const struct zc_policy policy = {.file = "p.conf"};
    struct zc_rule rules[ZC_COUNTERS_REFUSALS + 1];

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    for (unsigned i = 0; i <= ZC_COUNTERS_REFUSALS; i++) {
        rules[i] = (struct zc_rule){.name = i == 0 ? "first" : "later", .line = 100 + i};
        zc_refusal_count(&policy, &rules[i]);
    }
    zc_refusal_count(&policy, &rules[1]);
    summarize();
    assert_holds(last_line(), "\"refused_calls\":18,\"refused\":[{\"rule\":\"first\",\"line\":100,"
                              "\"calls\":1},{\"rule\":\"later\",\"line\":101,\"calls\":2},");
    assert_holds(told, "18 calls were refused, the first because of rule first (p.conf:100)\n");
    assert_null(strstr(strstr(told, "(p.conf:100)\n") + 13, "\n"));
}

static void people_are_told_how_much_freed_memory_was_kept(void **state)
{
    (void)state;
    some_traffic();
    summarize();
    assert_null(strstr(told, "freed"));
    zc_log_kept_peak = 96 << 20;
    summarize();
    assert_holds(told, "\nup to 96 MiB of freed host memory kept for later requests\n");
}

static void the_last_line_has_what_moved_was_shared_and_was_kept(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    zc_log_moves.to_host = 5;
    zc_log_pairs.pairs = 3;
    zc_log_kept_peak = 96 << 20;
    summarize();
    assert_holds(last_line(), "\"kept_peak_bytes\":100663296,");
    assert_holds(last_line(), "\"moves\":{\"to_device_bytes\":0,\"to_host_bytes\":5,");
    assert_holds(last_line(), "\"shared\":{\"pairs\":3,");
    zc_log_moves.to_host = 0;
    zc_log_pairs.pairs = 0;
}

static void a_program_that_asked_for_a_copy_alone_has_a_summary(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    transfer(zc_flow(H2D), ZC_ELIDED, 64, NULL);
    summarize();
    assert_holds(last_line(), "\"elided_calls\":1,");
    assert_holds(told, "1 transfer");
}

static void a_site_sums_freed_and_live_blocks(void **state)
{
    const char *sites;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    sites = strstr(last_line(), "\"sites\":[");
    assert_holds(sites, "\"requests\":2,\"requested_bytes\":2097152,\"frees\":1,\"rule\":null,"
                        "\"traffic\":[{\"dir\":\"HtoD\",\"asked_calls\":3,"
                        "\"asked_bytes\":14680064,");
    assert_holds(sites, "{\"dir\":\"Memset\",\"asked_calls\":1,\"asked_bytes\":100,");
    assert_holds(sites, "{\"dir\":\"Prefetch\",\"asked_calls\":1,\"asked_bytes\":7,");
}

static void places_tell_what_lives_and_the_peak(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    assert_holds(last_line(), "\"places\":[{\"place\":\"device\",\"blocks\":0,\"bytes\":0,"
                              "\"peak_bytes\":1048576},{\"place\":\"mapped\",\"blocks\":1,"
                              "\"bytes\":1048576,\"peak_bytes\":1048576}]");
}

static void live_blocks_have_their_lines_before_the_last(void **state)
{
    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_ALLOCS);
    some_traffic();
    summarize();
    assert_true(json_lines(text_of("a.jsonl")) >= 3);
    assert_holds(text_of("a.jsonl"), "{\"type\":\"free\"");
    assert_holds(text_of("a.jsonl"), "\"live\":true,\"traffic\":[{\"dir\":\"HtoD\","
                                     "\"asked_calls\":1,\"asked_bytes\":8388608,");
}

static void sites_that_no_line_told_come_before_the_last(void **state)
{
    const char *text;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    text = text_of("a.jsonl");
    assert_true(json_lines(text) >= 3);
    assert_holds(text, "{\"type\":\"module\"");
    assert_holds(strstr(text, "{\"type\":\"site\""), "{\"type\":\"summary\"");
}

static void people_are_told_the_sums_and_where_the_rest_is(void **state)
{
    int lines = 0;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    assert_holds(told, "log_summary");
    assert_holds(told, " 14 MiB asked in 3 transfers:\n"
                       "       4 MiB moved, 8 MiB copied by the CPU, 2 MiB elided, ");
    assert_holds(told, "\n14 MiB from or to pageable memory, of which 4 MiB moved as such\n");
    assert_holds(told, "\nlog: a.jsonl; zc report shows it\n");
    for (char *line = strtok(told, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        assert_true(strlen(line) <= 80);
        lines++;
    }
    assert_int_equal(lines, 4);
}

static void people_are_told_of_no_log_where_there_is_none(void **state)
{
    (void)state;
    zc_log_open("off", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    assert_holds(told, "14 MiB asked in 3 transfers:\n");
    assert_null(strstr(told, "log:"));
}

static void people_need_not_be_told(void **state)
{
    (void)state;
    setenv("ZC_SUMMARY", "0", 1);
    zc_options_read();
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    some_traffic();
    summarize();
    assert_string_equal(told, "");
    assert_non_null(last_line());
}

static void sites_beyond_a_short_line_are_all_there(void **state)
{
    struct zc_counters *c;
    int found = 0;

    (void)state;
    zc_log_open("a.jsonl", ZC_LOG_SUMMARY);
    c = zc_counters();
    c->next_site = ZC_COUNTERS_SITES;
    for (uint32_t i = 0; i < ZC_COUNTERS_SITES; i++) {
        c->site[i].requests = 1;
        for (int dir = 0; dir < ZC_DIR_COUNT; dir++)
            c->site[i].total[dir].by[ZC_MOVED] = (struct zc_count){UINT64_MAX / 4, UINT64_MAX / 4};
    }
    summarize();
    for (const char *p = last_line(); (p = strstr(p, "\"requests\":1,")) != NULL; p++)
        found++;
    assert_int_equal(found, ZC_COUNTERS_SITES);
    assert_null(strstr(last_line(), "truncated"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SUMMARY_TEST(the_last_line_sums_copies_by_outcome),
        SUMMARY_TEST(the_last_line_has_flows_and_what_was_moved_by_real_kinds),
        SUMMARY_TEST(copies_between_other_kinds_than_pageable_are_told_apart),
        SUMMARY_TEST(a_site_has_what_was_registered_of_its_blocks),
        SUMMARY_TEST(refused_calls_are_counted_by_rule_and_told_last),
        SUMMARY_TEST(people_are_told_how_much_freed_memory_was_kept),
        SUMMARY_TEST(the_last_line_has_what_moved_was_shared_and_was_kept),
        SUMMARY_TEST(a_program_that_asked_for_a_copy_alone_has_a_summary),
        SUMMARY_TEST(a_site_sums_freed_and_live_blocks),
        SUMMARY_TEST(places_tell_what_lives_and_the_peak),
        SUMMARY_TEST(live_blocks_have_their_lines_before_the_last),
        SUMMARY_TEST(sites_that_no_line_told_come_before_the_last),
        SUMMARY_TEST(people_are_told_the_sums_and_where_the_rest_is),
        SUMMARY_TEST(people_are_told_of_no_log_where_there_is_none),
        SUMMARY_TEST(people_need_not_be_told),
        SUMMARY_TEST(sites_beyond_a_short_line_are_all_there),
    };

    zc_clock_calibrate();
    return RUN_TESTS(tests);
}
