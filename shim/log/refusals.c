/* SPDX-License-Identifier: MIT */
/* Counts refused calls by rule, in the counters file. */
#include "log/refusals.h"

#include "ledger/counters.h"

static const char *policy_file; /* Policy file of the counted rules.  Atomic. */

/* The entry of a rule; a new rule takes a free one by its line.  NULL if all belong to others. */
static struct zc_refusal *entry_of(struct zc_refusals *r, const struct zc_rule *rule)
{
    for (unsigned i = 0; i < ZC_COUNTERS_REFUSALS; i++) {
        struct zc_refusal *e = &r->by_rule[i];
        uint32_t line = 0;
        if (__atomic_compare_exchange_n(&e->line, &line, rule->line, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            struct zc_text name = zc_text_on(e->rule, sizeof(e->rule));
            zc_text_str(&name, rule->name);
            zc_text_cstr(&name);
            return e;
        }
        if (line == rule->line)
            return e;
    }
    return NULL;
}

void zc_refusal_count(const struct zc_policy *policy, const struct zc_rule *rule)
{
    struct zc_refusals *r = &zc_counters()->refusals;
    struct zc_refusal *e = entry_of(r, rule);
    __atomic_store_n(&policy_file, policy->file, __ATOMIC_RELAXED);
    if (e != NULL)
        __atomic_fetch_add(&e->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&r->calls, 1, __ATOMIC_RELEASE);
}

static uint64_t refused_calls(void)
{
    return __atomic_load_n(&zc_counters()->refusals.calls, __ATOMIC_ACQUIRE);
}

void zc_refusals_line(struct zc_line *line)
{
    const struct zc_refusals *r = &zc_counters()->refusals;
    zc_line_u64(line, "refused_calls", refused_calls());
    ZC_LINE_OPEN(line, "refused", '[');
    for (unsigned i = 0; i < ZC_COUNTERS_REFUSALS && r->by_rule[i].line != 0; i++) {
        ZC_LINE_OPEN(line, NULL, '{');
        zc_line_str(line, "rule", r->by_rule[i].rule);
        zc_line_u64(line, "line", r->by_rule[i].line);
        zc_line_u64(line, "calls", r->by_rule[i].calls);
    }
}

void zc_refusals_text(struct zc_text *text)
{
    const struct zc_refusal *first = &zc_counters()->refusals.by_rule[0];
    uint64_t calls = refused_calls();
    size_t start = text->len;
    if (calls == 0)
        return;
    zc_text_fmt(text,
                "libzc: do not trust the results: %U %s refused, the first because of rule %s "
                "(%s:%u)",
                calls, calls == 1 ? "call was" : "calls were", first->rule,
                __atomic_load_n(&policy_file, __ATOMIC_RELAXED), first->line);
    zc_text_disarm(text, start);
    zc_text_str(text, "\n");
}
