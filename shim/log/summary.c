/* SPDX-License-Identifier: MIT */
/* The summary: collects the counters, and writes the log's last line. */
#include "log/summary.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/errno.h"
#include "base/module.h"
#include "base/options.h"
#include "base/own.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/log.h"
#include "log/lines.h"
#include "log/refusals.h"

/* Room for every site in every direction, as one that allocates and as one that copies; unused
 * pages cost nothing. */
#define LINE_BYTES ((size_t)8 << 20)

ZC_OWN struct zc_unknown_calls zc_log_unknown;
ZC_OWN uint64_t zc_log_kept_peak;
ZC_OWN uint64_t zc_log_decisions;
int zc_log_status = -1;

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_live_block(struct zc_block *block, void *arg)
{
    struct zc_summary *s = arg;
    zc_cell_sum_all(s->site[block->site], block->cell);
    if (!(block->flags & ZC_BLOCK_QUARANTINED))
        zc_log_block(block, true);
}

static void add_copies(struct zc_summary *s)
{
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++) {
        if (zc_flow_dir(flow) >= ZC_DIR_MEMSET)
            continue;
        if (zc_flow_src(flow) == ZC_KIND_PAGEABLE || zc_flow_dst(flow) == ZC_KIND_PAGEABLE) {
            s->pageable_asked += zc_count_asked(s->totals.asked[flow]).bytes;
            s->pageable_moved += s->totals.moved[flow].bytes;
        }
        for (int i = 0; i < ZC_OUTCOME_COUNT; i++) {
            s->copies[i].calls += s->totals.asked[flow][i].calls;
            s->copies[i].bytes += s->totals.asked[flow][i].bytes;
        }
        s->copy_ticks += s->totals.ticks[flow];
    }
}

static void summary_collect(struct zc_summary *s)
{
    s->sites = zc_site_count();
    if (s->sites > ZC_COUNTERS_SITES)
        s->sites = ZC_COUNTERS_SITES;
    for (uint32_t i = 0; i < s->sites; i++)
        for (int dir = 0; dir < ZC_DIR_COUNT; dir++)
            zc_cell_sum(&s->site[i][dir], &zc_site_get(i)->total[dir]);
    zc_block_each(add_live_block, s);
    zc_traffic_totals(&s->totals);
    add_copies(s);
    s->all_missed = zc_missed_all(zc_rules(), &s->missed);
}

static void source_side(struct zc_line *line, unsigned source, const char *side,
                        const struct zc_source_count *count, const struct zc_source_sizes *sizes)
{
    uint64_t calls = load(&count->asked.calls);
    if (calls == 0)
        return;
    ZC_LINE_OPEN(line, NULL, '{');
    zc_line_str(line, "memory", zc_source_name((enum zc_source)source));
    zc_line_str(line, "side", side);
    zc_line_u64(line, "asked_calls", calls);
    zc_line_u64(line, "asked_bytes", load(&count->asked.bytes));
    zc_line_u64(line, "moved_bytes", load(&count->moved_bytes));
    zc_line_u64(line, "blocked_ns", zc_ticks_to_ns(load(&count->ticks)));
    ZC_LINE_OPEN(line, "sizes", '[');
    for (unsigned i = 0; i < ZC_SOURCE_SIZES; i++) {
        uint64_t bytes = load(&sizes->bytes[i]);
        if (bytes == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_u64(line, "least_bytes", 1ull << (ZC_SOURCE_SIZE_LEAST + i));
        zc_line_u64(line, "bytes", bytes);
    }
}

static void pageable_field(struct zc_line *line)
{
    ZC_LINE_OPEN(line, "pageable", '[');
    for (unsigned i = 1; i < ZC_SOURCE_COUNT; i++) {
        const struct zc_counters *counters = zc_counters();
        const struct zc_source_counts *counts = &counters->source[i - 1];
        source_side(line, i, "src", &counts->from, &counters->from_sizes[i - 1]);
        source_side(line, i, "dst", &counts->to, &counters->to_sizes[i - 1]);
    }
}

static void flows_field(struct zc_line *line, const struct zc_totals *totals)
{
    ZC_LINE_OPEN(line, "flows", '[');
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++) {
        if (zc_count_asked(totals->asked[flow]).calls == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_flow(line, &zc_flow_asked, flow);
        zc_line_counts(line, totals->asked[flow], totals->ticks[flow]);
    }
}

static void moved_field(struct zc_line *line, const struct zc_totals *totals)
{
    ZC_LINE_OPEN(line, "moved_by_kind", '[');
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++) {
        if (totals->moved[flow].calls == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_flow(line, &zc_flow_asked, flow);
        zc_line_u64(line, "calls", totals->moved[flow].calls);
        zc_line_u64(line, "bytes", totals->moved[flow].bytes);
    }
}

static void sites_field(struct zc_line *line, const struct zc_summary *s)
{
    ZC_LINE_OPEN(line, "sites", '[');
    for (uint32_t i = 0; i < s->sites; i++) {
        const struct zc_site *site = zc_site_get(i);
        if (site->requests == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_hex(line, "site", zc_site_id(i), 8);
        zc_line_u64(line, "requests", site->requests);
        zc_line_u64(line, "requested_bytes", site->requested_bytes);
        zc_line_u64(line, "frees", site->frees);
        if (zc_log_registered[i])
            zc_line_u64(line, "registered_bytes", zc_log_registered[i]);
        int rule = zc_site_rule(i);
        zc_line_str(line, "rule", rule < 0 ? NULL : zc_rules()->rules[rule].name);
        zc_line_traffic(line, s->site[i]);
    }
}

/* The traffic of each site whose calls copied or set memory. */
static void calls_field(struct zc_line *line, uint32_t sites)
{
    ZC_LINE_OPEN(line, "calls", '[');
    for (uint32_t i = 1; i < sites; i++) {
        struct zc_cell sum[ZC_DIR_COUNT] = {0};
        uint64_t calls = 0;
        for (int dir = 0; dir < ZC_DIR_COUNT; dir++) {
            zc_cell_sum(&sum[dir], &zc_counters()->call[i][dir]);
            calls += zc_count_asked(sum[dir].by).calls;
        }
        if (calls == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_hex(line, "site", zc_site_id(i), 8);
        zc_line_traffic(line, sum);
    }
}

static void places_field(struct zc_line *line)
{
    ZC_LINE_OPEN(line, "places", '[');
    for (unsigned i = 0; i < ZC_PLACE_COUNT; i++) {
        const struct zc_block_gauge *g = &zc_counters()->place[i];
        if (load(&g->peak_bytes) == 0)
            continue;
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_str(line, "place", zc_place_name((enum zc_place_id)i));
        zc_line_u64(line, "blocks", load(&g->blocks));
        zc_line_u64(line, "bytes", load(&g->bytes));
        zc_line_u64(line, "peak_bytes", load(&g->peak_bytes));
    }
}

/* The request that came nearest to a rule of a policy that took nothing. */
static void missed_field(struct zc_line *line, const struct zc_missed *m)
{
    ZC_LINE_OPEN(line, "missed", '{');
    zc_line_u64(line, "requests", m->requests);
    if (m->rule) {
        zc_line_str(line, "api", zc_api_name(m->api));
        zc_line_u64(line, "size_bytes", m->size);
        zc_line_hex(line, "site", zc_site_id(m->site), 8);
        zc_line_str(line, "rule", m->rule->name);
        zc_line_u64(line, "line", m->rule->line);
        zc_line_str(line, "misfit", m->misfit);
    }
}

static void moves_field(struct zc_line *line)
{
    const struct zc_log_moves *m = &zc_log_moves;
    if (!m->to_device && !m->to_host)
        return;
    ZC_LINE_OPEN(line, "moves", '{');
    zc_line_u64(line, "to_device_bytes", m->to_device);
    zc_line_u64(line, "to_host_bytes", m->to_host);
    zc_line_u64(line, "hidden_bytes", m->hidden);
    zc_line_u64(line, "blocked_ns", zc_ticks_to_ns(m->blocked));
    zc_line_u64(line, "waited_ns", zc_ticks_to_ns(m->waited));
}

static void unmet_field(struct zc_line *line)
{
    if (!zc_log_unmet.requests)
        return;
    ZC_LINE_OPEN(line, "unmet", '{');
    zc_line_u64(line, "requests", zc_log_unmet.requests);
    zc_line_u64(line, "largest_bytes", zc_log_unmet.largest_bytes);
    zc_line_u64(line, "lacking_bytes", zc_log_unmet.lacking_bytes);
}

static void summary_write(const struct zc_summary *s)
{
    char *large = zc_arena_get(LINE_BYTES);
    struct zc_line line;
    zc_line_begin(&line, large ? large : line.own, large ? LINE_BYTES : ZC_LINE_MAX, "summary");
    zc_line_u64(&line, "wall_ns", zc_wall_ns() - zc_counters()->header.start_wall_ns);
    zc_line_u64(&line, "driver_start_ns", zc_ticks_to_ns(load(&zc_counters()->start_ticks)));
    zc_line_i64(&line, "exit_status", zc_log_status);
    zc_line_counts(&line, s->copies, s->copy_ticks);
    zc_line_u64(&line, "pageable_asked_bytes", s->pageable_asked);
    zc_line_u64(&line, "pageable_moved_bytes", s->pageable_moved);
    zc_line_u64(&line, "kept_peak_bytes", load(&zc_log_kept_peak));
    zc_line_u64(&line, "untracked", zc_block_untracked());
    zc_line_u64(&line, "lost_lines", zc_log_lost());
    zc_line_u64(&line, "unknown_calls", zc_log_unknown.calls);
    zc_refusals_line(&line);
    if (s->all_missed)
        missed_field(&line, &s->missed);
    places_field(&line);
    if (zc_log_pairs.pairs > 0) {
        ZC_LINE_OPEN(&line, "shared", '{');
        zc_line_u64(&line, "pairs", zc_log_pairs.pairs);
        zc_line_pair_counts(&line, &zc_log_pairs);
    }
    moves_field(&line);
    unmet_field(&line);
    flows_field(&line, &s->totals);
    moved_field(&line, &s->totals);
    pageable_field(&line);
    sites_field(&line, s);
    calls_field(&line, s->sites);
    zc_log_write_last(&line);
    zc_arena_put(large, LINE_BYTES);
}

/* A program that only checked for a GPU has nothing to report. */
static bool has_content(const struct zc_summary *s)
{
    uint64_t seen = zc_block_untracked() + zc_log_unknown.calls + zc_log_unmet.requests;
    for (int outcome = 0; outcome < ZC_OUTCOME_COUNT; outcome++)
        seen += s->copies[outcome].calls;
    for (unsigned place = 0; place < ZC_COUNTERS_PLACES; place++)
        seen += load(&zc_counters()->place[place].peak_bytes);
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++)
        seen += s->totals.asked[flow][ZC_MOVED].calls;
    return seen != 0;
}

/* At the level `summary` no request has logged its site. */
static void log_sites(const struct zc_summary *s)
{
    for (uint32_t i = 0; i < s->sites; i++)
        if (zc_site_is_new(i))
            zc_log_site(i);
}

void zc_log_summary(void)
{
    struct zc_summary *s = zc_arena_get(sizeof(*s));
    ZC_KEEPS_ERRNO;
    if (s == NULL)
        return;
    summary_collect(s);
    if (zc_log_level() != ZC_LOG_OFF) {
        log_sites(s);
        summary_write(s);
    }
    zc_summary_print(s, zc_option_on(zc_options()->summary) && has_content(s));
    zc_arena_put(s, sizeof(*s));
}

const struct zc_module zc_module_summary = {.finish = zc_log_summary};
