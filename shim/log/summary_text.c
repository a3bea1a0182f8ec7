/* SPDX-License-Identifier: MIT */
/* The summary for people, on stderr: sums, and what `zc report` has no place for. */
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

static void title_lines(struct zc_text *t, const struct zc_summary *s)
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
        zc_text_fmt(t,
                    "moves: %B to the device (%B beside kernels), %B to the host; launches waited "
                    "%t, and %t for the GPU\n",
                    zc_log_moves.to_device, zc_log_moves.hidden, zc_log_moves.to_host,
                    zc_ticks_to_ns(zc_log_moves.blocked), zc_ticks_to_ns(zc_log_moves.waited));
    if (zc_log_unmet.requests > 0)
        zc_text_fmt(t,
                    "the device had no memory for %U request%s of up to %B, and lacked %B: zc run "
                    "-p @larger-than-gpu lets host memory take what has no room\n",
                    zc_log_unmet.requests, zc_log_unmet.requests == 1 ? "" : "s",
                    zc_log_unmet.largest_bytes, zc_log_unmet.lacking_bytes);
    if (zc_log_kept_peak > 0)
        zc_text_fmt(t, "up to %B of freed host memory kept for later requests\n", zc_log_kept_peak);
    if (zc_block_untracked() > 0)
        zc_text_fmt(t, "%U requests were not recorded\n", zc_block_untracked());
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
    zc_text_str(t, "; zc report shows it\n");
}

void zc_summary_print(const struct zc_summary *summary, bool whole)
{
    char buf[BYTES];
    struct zc_text t = zc_text_on(buf, sizeof(buf));
    if (whole) {
        if (summary->all_missed)
            missed_lines(&t, summary);
        title_lines(&t, summary);
        last_lines(&t, summary);
    }
    zc_refusals_text(&t);
    zc_message_raw(buf, t.len);
}
