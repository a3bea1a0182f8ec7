/* SPDX-License-Identifier: MIT */
/* The log's last line: each field, from counters that are made up, and when there is one. */
#include "log_said_test.h"

#include <errno.h>
#include <stdio.h>

#include "arena_mapped.h"
#include "base/clock.h"
#include "base/options.h"
#include "ledger/block.h"
#include "ledger/counters.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "log/refusals.h"
#include "log/summary.h"

#define H2D zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE)
#define D2D zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_DEVICE)
#define SET zc_flow(ZC_DIR_MEMSET, ZC_KIND_DEVICE, ZC_KIND_DEVICE)

static struct zc_counters counted;
static struct zc_totals flows;
static struct zc_summary summed; /* As it was printed, */
static bool whole, printed;      /* and how. */
static struct zc_rule big = {.name = "big", .line = 3};
static struct zc_policy policy = {.rules = &big, .rule_count = 1};
static struct {
    uint32_t sites, told;
    bool missed, logs;
    uint64_t untracked;
    struct zc_block block;
    unsigned live;
} has;
static struct zc_options options = {.summary = "1"};

static bool fake_missed(const struct zc_policy *of, struct zc_missed *out)
{
    assert_ptr_equal(of, &policy);
    *out = (struct zc_missed){.requests = 5};
    return has.missed;
}

static void fake_each(void (*visit)(struct zc_block *, void *), void *arg)
{
    if (has.block.size)
        visit(&has.block, arg);
}

static void fake_print(const struct zc_summary *s, bool all)
{
    summed = *s;
    whole = all;
    printed = true;
    errno = EIO;
}

static bool fake_new(uint32_t site)
{
    return site == 1 || site == 4;
}

static void fake_site(uint32_t site)
{
    has.told += 1 + site;
}

#define zc_counters() (&counted)
#define zc_site_count() has.sites
#define zc_site_get(i) (&counted.site[i])
#define zc_site_id(i) (0x100u + (i))
#define zc_site_rule(i) ((int)(i)-2)
#define zc_site_is_new fake_new
#define zc_log_site fake_site
#define zc_block_each fake_each
#define zc_block_untracked() has.untracked
#define zc_log_block(block, at_end) ((void)(block), has.live += (at_end))
#define zc_traffic_totals(out) (*(out) = flows)
#define zc_missed_all fake_missed
#define zc_rules() (&policy)
#define zc_refusals_line(line) zc_line_u64(line, "refused_calls", 9)
#define zc_log_lost() UINT64_C(4)
#define zc_log_level() (has.logs ? ZC_LOG_SUMMARY : ZC_LOG_OFF)
#define zc_log_write_last said_write
#define zc_options() (&options)
#define zc_summary_print fake_print
#define zc_wall_ns() UINT64_C(1000)
#define zc_ticks_to_ns(ticks) (2 * (ticks))
#include "../../shim/log/summary.c"

static int anew(void **state)
{
    (void)state;
    memset(&counted, 0, sizeof(counted));
    memset(&flows, 0, sizeof(flows));
    memset(&has, 0, sizeof(has));
    memset(&zc_log_moves, 0, sizeof(zc_log_moves));
    memset(&zc_log_unmet, 0, sizeof(zc_log_unmet));
    memset(&zc_log_pairs, 0, sizeof(zc_log_pairs));
    memset(&zc_log_unknown, 0, sizeof(zc_log_unknown));
    memset(zc_log_registered, 0, 8 * sizeof(zc_log_registered[0]));
    zc_log_kept_peak = 0;
    counted.header.start_wall_ns = 900;
    options.summary = "1";
    has.logs = true;
    has.sites = 1;
    said[0] = '\0';
    printed = false;
    return 0;
}

/* The line from this field on. */
static const char *from(const char *field)
{
    said[0] = '\0';
    errno = 17;
    zc_log_summary();
    assert_int_equal(errno, 17);
    const char *at = strstr(said, field);
    if (!at)
        fail_msg("no %s in %s", field, said);
    return at;
}

static void begins(const char *line)
{
    const char *at = from(line);
    assert_memory_equal(at, line, strlen(line));
}

static void lacks(const char *field)
{
    from("\"summary\"");
    assert_null(strstr(said, field));
}

#define NO_COUNTS                                                                                  \
    "\"asked_calls\":0,\"asked_bytes\":0,\"moved_calls\":0,\"moved_bytes\":0,"                     \
    "\"cpu_copied_calls\":0,\"cpu_copied_bytes\":0,\"elided_calls\":0,\"elided_bytes\":0,"         \
    "\"blocked_ns\":0,"
#define ENDS "\"flows\":[],\"moved_by_kind\":[],\"pageable\":[],\"sites\":[],\"calls\":[]}\n"

static void a_run_without_anything_has_every_list(void **state)
{
    (void)state;
    counted.start_ticks = 11;
    zc_log_kept_peak = 6;
    has.untracked = 7;
    zc_log_unknown.calls = 8;
    zc_log_status = 3;
    assert_string_equal(
        from("\"wall_ns\""),
        "\"wall_ns\":100,\"driver_start_ns\":22,\"exit_status\":3," NO_COUNTS
        "\"pageable_asked_bytes\":0,\"pageable_moved_bytes\":0,\"kept_peak_bytes\":6,"
        "\"untracked\":7,\"lost_lines\":4,\"unknown_calls\":8,\"refused_calls\":9,"
        "\"places\":[]," ENDS);
}

static void copies_are_summed_and_other_flows_are_not(void **state)
{
    (void)state;
    flows.asked[H2D][ZC_MOVED] = (struct zc_count){2, 20};
    flows.asked[H2D][ZC_ELIDED] = (struct zc_count){1, 10};
    flows.asked[D2D][ZC_CPU] = (struct zc_count){4, 400};
    flows.asked[SET][ZC_MOVED] = (struct zc_count){8, 8000};
    flows.moved[H2D] = (struct zc_count){2, 19};
    flows.moved[D2D] = (struct zc_count){3, 5};
    flows.ticks[H2D] = 7;
    flows.ticks[D2D] = 30;
    flows.ticks[SET] = 500;
    begins("\"asked_calls\":7,\"asked_bytes\":430,\"moved_calls\":2,\"moved_bytes\":20,"
           "\"cpu_copied_calls\":4,\"cpu_copied_bytes\":400,\"elided_calls\":1,"
           "\"elided_bytes\":10,");
    begins("\"pageable_asked_bytes\":30,\"pageable_moved_bytes\":19,");
    assert_int_equal(summed.copy_ticks, 37);
    begins("\"flows\":[{\"dir\":\"HtoD\",\"src_kind\":\"Pageable\",\"dst_kind\":\"Device\","
           "\"asked_calls\":3,");
    begins("}],\"moved_by_kind\":[{\"dir\":\"HtoD\",\"src_kind\":\"Pageable\",\"dst_kind\":"
           "\"Device\",\"calls\":2,\"bytes\":19},{\"dir\":\"DtoD\",\"src_kind\":\"Device\","
           "\"dst_kind\":\"Device\",\"calls\":3,\"bytes\":5}],");
}

static void pageable_memory_is_told_by_its_source_and_side(void **state)
{
    char want[600];
    (void)state;
    counted.source[0].from.asked = (struct zc_count){1, 90};
    counted.source[0].from.moved_bytes = 80;
    counted.source[0].from.ticks = 4;
    counted.from_sizes[0].bytes[0] = 70;
    counted.from_sizes[0].bytes[ZC_SOURCE_SIZES - 1] = 20;
    counted.source[ZC_SOURCE_COUNT - 2].to.asked = (struct zc_count){2, 6};
    counted.source[1].to.asked = (struct zc_count){0, 6}; /* No call. */
    snprintf(want, sizeof(want),
             "\"pageable\":[{\"memory\":\"%s\",\"side\":\"src\",\"asked_calls\":1,"
             "\"asked_bytes\":90,\"moved_bytes\":80,\"blocked_ns\":8,\"sizes\":["
             "{\"least_bytes\":%llu,\"bytes\":70},{\"least_bytes\":%llu,\"bytes\":20}]},"
             "{\"memory\":\"%s\",\"side\":\"dst\",\"asked_calls\":2,\"asked_bytes\":6,"
             "\"moved_bytes\":0,\"blocked_ns\":0,\"sizes\":[]}],\"sites\"",
             zc_source_name((enum zc_source)1), 1ull << ZC_SOURCE_SIZE_LEAST,
             1ull << (ZC_SOURCE_SIZE_LEAST + ZC_SOURCE_SIZES - 1),
             zc_source_name((enum zc_source)(ZC_SOURCE_COUNT - 1)));
    begins(want);
}

static void sites_that_asked_have_what_became_of_it(void **state)
{
    struct zc_cell cell = {.dir = ZC_DIR_HTOD, .by = {[ZC_MOVED] = {1, 50}}};
    (void)state;
    has.sites = 4;
    counted.site[0].requests = 1; /* Requests without a site. */
    counted.site[2] = (struct zc_site){.requests = 2, .requested_bytes = 9, .frees = 1};
    counted.site[2].total[ZC_DIR_HTOD].by[ZC_MOVED] = (struct zc_count){3, 30};
    counted.site[3].requests = 1;
    counted.site[4].requests = 1; /* Not in use yet. */
    counted.site[4].total[0].by[ZC_CPU].calls = 1;
    zc_log_registered[3] = 5;
    has.block = (struct zc_block){.size = 1, .site = 2, .cell = {[ZC_DIR_HTOD] = &cell}};
    policy.rules = (struct zc_rule[]){big, {.name = "next"}};
    begins("\"sites\":[{\"site\":\"00000100\",\"requests\":1,\"requested_bytes\":0,\"frees\":0,"
           "\"rule\":null,\"traffic\":[]},"
           "{\"site\":\"00000102\",\"requests\":2,\"requested_bytes\":9,\"frees\":1,"
           "\"rule\":\"big\",\"traffic\":[{\"dir\":\"HtoD\",\"asked_calls\":4,"
           "\"asked_bytes\":80,\"moved_calls\":4,\"moved_bytes\":80,");
    begins("{\"site\":\"00000103\",\"requests\":1,\"requested_bytes\":0,\"frees\":0,"
           "\"registered_bytes\":5,\"rule\":\"next\",\"traffic\":[]}],");
    assert_int_equal(has.live, 2);          /* Once in each of two summaries. */
    has.block.flags = ZC_BLOCK_QUARANTINED; /* The program has freed it. */
    from("\"sites\"");
    assert_int_equal(has.live, 2);
    assert_int_equal(has.told, 3 * (1 + 1)); /* A site that no line has told, each time. */
    zc_log_registered[3] = 0;
    policy.rules = &big;
    counted.site[3].requests = counted.site[4].requests = 0;
    lacks("registered_bytes");
    has.sites = ZC_COUNTERS_SITES + 5; /* Of a counters file that somebody has damaged. */
    from("\"sites\"");
    assert_int_equal(summed.sites, ZC_COUNTERS_SITES);
}

static void calls_are_told_by_their_sites(void **state)
{
    (void)state;
    has.sites = 3;
    counted.call[0][0].by[ZC_MOVED] = (struct zc_count){1, 1}; /* Calls without a site. */
    counted.call[1][ZC_DIR_DTOH].by[ZC_MOVED] = (struct zc_count){1, 8};
    counted.call[2][0].by[ZC_CPU] = (struct zc_count){1, 1};
    counted.call[3][0].by[ZC_CPU] = (struct zc_count){1, 1}; /* Not in use yet. */
    begins("\"calls\":[{\"site\":\"00000101\",\"traffic\":[{\"dir\":\"DtoH\",\"asked_calls\":1,"
           "\"asked_bytes\":8,");
    assert_non_null(strstr(strstr(said, "\"calls\":["), "00000102"));
    assert_null(strstr(said, "00000103"));
}

static void places_have_what_lives_there_and_the_peak(void **state)
{
    char want[300];
    (void)state;
    counted.place[0] = (struct zc_block_gauge){.peak_bytes = 1};
    counted.place[ZC_PLACE_COUNT].peak_bytes = 1; /* There is no such place. */
    counted.place[ZC_PLACE_COUNT - 1] =
        (struct zc_block_gauge){.blocks = 2, .bytes = 3, .peak_bytes = 4};
    snprintf(want, sizeof(want),
             "\"places\":[{\"place\":\"%s\",\"blocks\":0,\"bytes\":0,\"peak_bytes\":1},"
             "{\"place\":\"%s\",\"blocks\":2,\"bytes\":3,\"peak_bytes\":4}],\"flows\"",
             zc_place_name(0), zc_place_name((enum zc_place_id)(ZC_PLACE_COUNT - 1)));
    begins(want);
}

static void what_is_special_about_a_run_has_a_field_of_its_own(void **state)
{
    (void)state;
    lacks("\"missed\"");
    has.missed = true;
    begins("\"refused_calls\":9,\"missed\":{\"requests\":5},\"places\"");
    lacks("\"shared\"");
    zc_log_pairs = (struct zc_pair_counts){
        .pairs = 1, .elided_copies = 2, .elided_bytes = 3, .copied_bytes = 4};
    begins("\"places\":[],\"shared\":{\"pairs\":1,\"elided_copies\":2,\"elided_bytes\":3,"
           "\"copied_bytes\":4},\"flows\"");
    lacks("\"moves\"");
    for (unsigned i = 1; i <= 3; i++) {
        char want[200];
        zc_log_moves = (struct zc_log_moves){i & 1, i / 2, 6, 7, 8};
        snprintf(want, sizeof(want),
                 "\"moves\":{\"to_device_bytes\":%u,\"to_host_bytes\":%u,\"hidden_bytes\":6,"
                 "\"blocked_ns\":14,\"waited_ns\":16},\"flows\"",
                 i & 1, i / 2);
        begins(want);
    }
    lacks("\"unmet\"");
    zc_log_unmet = (struct zc_log_unmet){1, 2, 3};
    begins("\"unmet\":{\"requests\":1,\"largest_bytes\":2,\"lacking_bytes\":3},\"flows\"");
}

/* A program that only looked for a GPU is not told anything. */
static void people_are_told_where_anything_was_done(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 64; i++) { /* Two things of eight, the first of which is nothing. */
        unsigned bits = 1u << i % 8 | 1u << i / 8;
        anew(NULL);
        has.untracked = bits >> 1 & 1;
        zc_log_unknown.calls = bits >> 2 & 1;
        zc_log_unmet.requests = bits >> 3 & 1;
        flows.asked[D2D][ZC_CPU].calls = bits >> 4 & 1;
        counted.place[ZC_COUNTERS_PLACES - 1].peak_bytes = bits >> 5 & 1;
        flows.asked[SET][ZC_MOVED].calls = bits >> 6 & 1;
        counted.place[0].peak_bytes = bits >> 7 & 1;
        zc_log_summary();
        assert_true(printed && whole == (i > 0));
        options.summary = "0";
        zc_log_summary();
        assert_false(whole);
    }
    size_t mapped = arena_mapped();
    for (unsigned i = 0; i < 20; i++)
        zc_log_summary();
    assert_int_equal(arena_mapped(), mapped);
    anew(NULL);
    has.logs = false;
    has.sites = 3;
    zc_log_summary();
    says("");
    assert_true(printed && has.told == 0);
}

static void a_nearest_request_is_told_with_its_rule(void **state)
{
    struct zc_missed m = {.rule = &big,
                          .requests = 2,
                          .api = ZC_API_cuMemAlloc,
                          .size = 7,
                          .site = 1,
                          .misfit = "size = 8.."};
    struct zc_line line;
    (void)state;
    said_begin(&line, ZC_LOG_SUMMARY, "x");
    missed_field(&line, &m);
    said_write(&line);
    says("{\"type\":\"x\",\"missed\":{\"requests\":2,\"api\":\"cuMemAlloc\",\"size_bytes\":7,"
         "\"site\":\"00000101\",\"rule\":\"big\",\"line\":3,\"misfit\":\"size = 8..\"}}\n");
}

#define T(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_run_without_anything_has_every_list),
        T(copies_are_summed_and_other_flows_are_not),
        T(pageable_memory_is_told_by_its_source_and_side),
        T(sites_that_asked_have_what_became_of_it),
        T(calls_are_told_by_their_sites),
        T(places_have_what_lives_there_and_the_peak),
        T(what_is_special_about_a_run_has_a_field_of_its_own),
        T(people_are_told_where_anything_was_done),
        T(a_nearest_request_is_told_with_its_rule),
    };
    return RUN_TESTS(tests);
}
