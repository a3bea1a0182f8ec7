/* SPDX-License-Identifier: MIT */
/* The summary for people: about twenty lines of at most 80 columns on stderr. */
#include "base/clock.h"
#include "base/message.h"
#include "base/path.h"
#include "base/text.h"
#include "ledger/profile.h"
#include "ledger/rules.h"
#include "log/log.h"
#include "log/lines.h"
#include "log/refusals.h"
#include "log/summary.h"

#include <string.h>
#include <unistd.h>

#define BYTES (4096 + 2 * PATH_MAX)
#define FLOW_ROWS 8

static void table_title(struct zc_text *t, const struct zc_summary *s)
{
    struct zc_count asked = zc_count_asked(s->copies);
    char name[97], text[1024];
    struct zc_text program = zc_text_on(name, sizeof(name));
    const char *script = zc_log_script(text, sizeof(text));
    if (script && !strpbrk(script, " \n")) /* Code has blanks. */
        zc_text_fmt(&program, "%s (%s)", basename(script), zc_log_program());
    else
        zc_text_fmt(&program, "%s", zc_log_program());
    zc_text_disarm(&program, 0);
    zc_text_fmt(t, "libzc: %s (pid %d) %B asked in %U %s:\n", zc_text_cstr(&program), (int)getpid(),
                asked.bytes, asked.calls, asked.calls == 1 ? "transfer" : "transfers");
    zc_text_fmt(t, "       %B moved, %B copied by the CPU, %B elided, %t blocked\n",
                s->copies[ZC_MOVED].bytes, s->copies[ZC_CPU].bytes, s->copies[ZC_ELIDED].bytes,
                zc_ticks_to_ns(s->copy_ticks));
}

static void missed_lines(struct zc_text *t, const struct zc_summary *s)
{
    const struct zc_missed *m = &s->missed;
    size_t start = t->len;
    if (!m->rule) {
        zc_text_fmt(t, "libzc: %s took nothing: no request was of the kind and size of its rules",
                    zc_rules_path());
    } else {
        zc_text_fmt(t, "libzc: %s took none of %U request%s", zc_rules_path(), m->requests,
                    m->requests == 1 ? "" : "s");
        if (s->pageable_moved < s->pageable_asked)
            zc_text_fmt(t, ", only pageable_copy did %B", s->pageable_asked - s->pageable_moved);
        zc_text_disarm(t, start);
        start = t->len + 1;
        zc_text_fmt(t, "\n       nearest: %s of %B, not of rule %s (line %u): %s",
                    zc_api_name(m->api), (uint64_t)m->size, m->rule->name, m->rule->line,
                    m->misfit);
    }
    zc_text_disarm(t, start);
    zc_text_str(t, "\n");
}

static void flow_row(struct zc_text *t, unsigned flow, const struct zc_totals *totals)
{
    bool copy = zc_flow_dir(flow) < ZC_DIR_MEMSET;
    const struct zc_count *by = totals->asked[flow];
    struct zc_count asked = zc_count_asked(by);
    zc_text_fmt(t, "%-10s%-9s%-9s%7N%9B%9B%9B%9B%9t\n", zc_dir_name(zc_flow_dir(flow)),
                copy ? zc_kind_name(zc_flow_src(flow)) : "", zc_kind_name(zc_flow_dst(flow)),
                asked.calls, asked.bytes, by[ZC_MOVED].bytes, by[ZC_CPU].bytes, by[ZC_ELIDED].bytes,
                zc_ticks_to_ns(totals->ticks[flow]));
}

/* Rows in the order of the directions; where there are too many, the last line counts the rest. */
static void flow_table(struct zc_text *t, const struct zc_totals *totals)
{
    unsigned rows = 0;
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++) {
        if (zc_count_asked(totals->asked[flow]).calls == 0)
            continue;
        if (rows == 0)
            zc_text_fmt(t, "%-10s%-9s%-9s%7s%9s%9s%9s%9s%9s\n", "Operation", "From", "To", "Count",
                        "Asked", "Moved", "CPU", "Elided", "Blocked");
        if (++rows <= FLOW_ROWS)
            flow_row(t, flow, totals);
    }
    if (rows > FLOW_ROWS)
        zc_text_fmt(t, "and %u more kinds of operation\n", rows - FLOW_ROWS);
}

static void place_table(struct zc_text *t, const struct zc_summary *s)
{
    bool first = true;
    for (unsigned i = 0; i < ZC_PLACE_COUNT; i++) {
        if (s->place[i].peak_bytes == 0)
            continue;
        if (first)
            zc_text_fmt(t, "%-28s%7s%9s%9s\n", "Place", "Blocks", "Bytes", "Peak");
        first = false;
        zc_text_fmt(t, "%-28s%7N%9B%9B\n", zc_place_name((enum zc_place_id)i), s->place[i].blocks,
                    s->place[i].bytes, s->place[i].peak_bytes);
    }
}

static void last_lines(struct zc_text *t, const struct zc_summary *s)
{
    if (s->pageable_asked > 0)
        zc_text_fmt(t, "%B from or to pageable memory, of which %B moved as such\n",
                    s->pageable_asked, s->pageable_moved);
    if (zc_log_pairs.pairs > 0)
        zc_text_fmt(t, "shared: %U device blocks, %U copies and %B elided; %B copied by the CPU\n",
                    zc_log_pairs.pairs, zc_log_pairs.elided_copies, zc_log_pairs.elided_bytes,
                    zc_log_pairs.copied_bytes);
    if (zc_log_moves.to_device + zc_log_moves.to_host > 0)
        zc_text_fmt(
            t, "moves: %B to the device, %B to the host; launches waited %t, and %t for the GPU\n",
            zc_log_moves.to_device, zc_log_moves.to_host, zc_ticks_to_ns(zc_log_moves.blocked),
            zc_ticks_to_ns(zc_log_moves.waited));
    if (zc_log_unmet.requests > 0)
        zc_text_fmt(t,
                    "the device had no memory for %U request%s, of up to %B: zc run -p "
                    "@larger-than-gpu lets host memory take what has no room\n",
                    zc_log_unmet.requests, zc_log_unmet.requests == 1 ? "" : "s",
                    zc_log_unmet.largest_bytes);
    if (zc_log_kept_peak > 0)
        zc_text_fmt(t, "up to %B of freed host memory kept for later requests\n", zc_log_kept_peak);
    if (s->untracked > 0)
        zc_text_fmt(t, "%U requests were not recorded\n", s->untracked);
    if (zc_log_unknown.calls > 0)
        zc_text_fmt(t, "%U calls of %U functions that libzc does not know\n", zc_log_unknown.calls,
                    zc_log_unknown.functions);
    if (zc_log_decisions > 0)
        zc_text_fmt(t, "auto: %U decision%s within this run\n", zc_log_decisions,
                    zc_log_decisions == 1 ? "" : "s");
    if (zc_profile_asked())
        zc_text_fmt(t, "auto: %s; zc auto --show\n", zc_rules_path());
    if (zc_log_path() == NULL)
        return;
    size_t start = t->len;
    zc_text_fmt(t, "log: %s", zc_log_path());
    zc_text_disarm(t, start);
    if (zc_log_error() != 0)
        zc_text_fmt(t, " (not whole: %e)", zc_log_error());
    zc_text_str(t, "\n");
}

void zc_summary_print(const struct zc_summary *summary, bool table)
{
    char buf[BYTES];
    struct zc_text t = zc_text_on(buf, sizeof(buf));
    if (table) {
        if (summary->all_missed)
            missed_lines(&t, summary);
        table_title(&t, summary);
        flow_table(&t, &summary->totals);
        place_table(&t, summary);
        last_lines(&t, summary);
    }
    zc_refusals_text(&t);
    zc_message_raw(buf, t.len);
}
