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
#include "policy/policy.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define BYTES (4096 + 2 * PATH_MAX)
#define FLOW_ROWS 8

/* Widths of columns, the space between them included; together at most 80. */
#define OPERATION 10
#define NAME 9
#define COUNT 7
#define SIZE 9

static void column_left(struct zc_text *t, const char *s, size_t width)
{
    size_t start = t->len;
    zc_text_str(t, s);
    zc_text_pad(t, start, width);
}

static void column_right(struct zc_text *t, const struct zc_text *s, size_t width)
{
    size_t start = t->len;
    zc_text_pad(t, start, s->len < width ? width - s->len : 1);
    zc_text_raw(t, s->buf, s->len);
}

/* Text of at most 31 bytes, on the right: a heading or a value. */
static void column_text(struct zc_text *t, size_t width, const char *fmt, ...)
{
    char buf[32];
    struct zc_text text = zc_text_on(buf, sizeof(buf));
    va_list ap;
    va_start(ap, fmt);
    zc_text_vfmt(&text, fmt, ap);
    va_end(ap);
    column_right(t, &text, width);
}

static void column_size(struct zc_text *t, uint64_t bytes)
{
    column_text(t, SIZE, "%B", bytes);
}

/* A number of at most six columns: above 999,999 in thousands, millions and so on. */
static void put_count(struct zc_text *t, uint64_t v)
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T", "P"};
    unsigned i = 0;
    while (v >= (i == 0 ? 1000000u : 100000u) && i < 5) {
        v = (v + 500) / 1000;
        i++;
    }
    column_text(t, COUNT, "%U%s", v, suffixes[i]);
}

/* A time of at most eight columns. */
static void append_time(struct zc_text *t, uint64_t ns)
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    uint64_t unit = 1;
    unsigned i = 0;
    while (i < 3 && ns / unit >= 1000) {
        unit *= 1000;
        i++;
    }
    zc_text_u64(t, ns / unit);
    if (i > 0 && ns / unit < 100)
        zc_text_fmt(t, ".%U", ns % unit * 10 / unit);
    zc_text_fmt(t, " %s", names[i]);
}

static void column_time(struct zc_text *t, uint64_t ticks)
{
    char buf[32];
    struct zc_text text = zc_text_on(buf, sizeof(buf));
    append_time(&text, zc_ticks_to_ns(ticks));
    column_right(t, &text, SIZE);
}

static void table_title(struct zc_text *t, const struct zc_summary *s)
{
    struct zc_count asked = zc_count_asked(s->copies);
    char name[33];
    struct zc_text program = zc_text_on(name, sizeof(name));
    zc_text_str(&program, zc_log_program());
    zc_text_disarm(&program, 0);
    zc_text_fmt(t, "libzc: %s (pid %d) %B asked in %U %s:\n", zc_text_cstr(&program), (int)getpid(),
                asked.bytes, asked.calls, asked.calls == 1 ? "transfer" : "transfers");
    zc_text_fmt(t, "       %B moved, %B copied by the CPU, %B elided, ", s->copies[ZC_MOVED].bytes,
                s->copies[ZC_CPU].bytes, s->copies[ZC_ELIDED].bytes);
    append_time(t, zc_ticks_to_ns(s->copy_ticks));
    zc_text_str(t, " blocked\n");
}

static void missed_lines(struct zc_text *t, const struct zc_missed *m)
{
    size_t start = t->len;
    if (!m->rule) {
        zc_text_fmt(t, "libzc: %s took nothing: no request was of the kind and size of its rules",
                    zc_rules_path());
    } else {
        zc_text_fmt(t, "libzc: %s took none of %U request%s", zc_rules_path(), m->requests,
                    m->requests == 1 ? "" : "s");
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
    column_left(t, zc_dir_name(zc_flow_dir(flow)), OPERATION);
    column_left(t, copy ? zc_kind_name(zc_flow_src(flow)) : "", NAME);
    column_left(t, zc_kind_name(zc_flow_dst(flow)), NAME);
    put_count(t, zc_count_asked(totals->asked[flow]).calls);
    column_size(t, zc_count_asked(totals->asked[flow]).bytes);
    for (int i = 0; i < ZC_OUTCOME_COUNT; i++)
        column_size(t, totals->asked[flow][i].bytes);
    column_time(t, totals->ticks[flow]);
    zc_text_str(t, "\n");
}

/* Rows in the order of the directions; where there are too many, the last line counts the rest. */
static void flow_table(struct zc_text *t, const struct zc_totals *totals)
{
    unsigned rows = 0;
    for (unsigned flow = 0; flow < ZC_FLOWS; flow++) {
        if (zc_count_asked(totals->asked[flow]).calls == 0)
            continue;
        if (rows == 0) {
            column_left(t, "Operation", OPERATION);
            column_left(t, "From", NAME);
            column_left(t, "To", NAME);
            column_text(t, COUNT, "Count");
            column_text(t, SIZE, "Asked");
            column_text(t, SIZE, "Moved");
            column_text(t, SIZE, "CPU");
            column_text(t, SIZE, "Elided");
            column_text(t, SIZE, "Blocked");
            zc_text_str(t, "\n");
        }
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
        if (first) {
            column_left(t, "Place", OPERATION + 2 * NAME);
            column_text(t, COUNT, "Blocks");
            column_text(t, SIZE, "Bytes");
            column_text(t, SIZE, "Peak");
            zc_text_str(t, "\n");
        }
        first = false;
        column_left(t, zc_place_name((enum zc_place_id)i), OPERATION + 2 * NAME);
        put_count(t, s->place[i].blocks);
        column_size(t, s->place[i].bytes);
        column_size(t, s->place[i].peak_bytes);
        zc_text_str(t, "\n");
    }
}

static void pairs_line(struct zc_text *t, const struct zc_pair_counts *c)
{
    zc_text_fmt(t, "shared: %U device blocks, %U copies and %B elided; ", c->pairs,
                c->elided_copies, c->elided_bytes);
    zc_text_fmt(t, "%B copied by the CPU\n", c->copied_bytes);
}

static void last_lines(struct zc_text *t, const struct zc_summary *s)
{
    if (s->pageable_asked > 0)
        zc_text_fmt(t, "%B from or to pageable memory, of which %B moved as such\n",
                    s->pageable_asked, s->pageable_moved);
    if (zc_log_pairs.pairs > 0)
        pairs_line(t, &zc_log_pairs);
    if (zc_log_kept_peak > 0)
        zc_text_fmt(t, "up to %B of freed host memory kept for later requests\n", zc_log_kept_peak);
    if (s->untracked > 0)
        zc_text_fmt(t, "%U requests were not recorded\n", s->untracked);
    if (zc_log_unknown.calls > 0)
        zc_text_fmt(t, "%U calls of %U functions that libzc does not know\n", zc_log_unknown.calls,
                    zc_log_unknown.functions);
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
            missed_lines(&t, &summary->missed);
        table_title(&t, summary);
        flow_table(&t, &summary->totals);
        place_table(&t, summary);
        last_lines(&t, summary);
    }
    zc_refusals_text(&t);
    zc_message_raw(buf, t.len);
}
