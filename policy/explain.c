/* SPDX-License-Identifier: MIT */
/*
 * Why each rule does or does not take a request, for people who write policies.
 */
#include <string.h>

#include "internal.h"

static const char *number_or_nothing(int64_t number, struct zc_note *buffer)
{
    if (number < 0)
        return NULL;
    zc_note_set(buffer, "%u", (uint64_t)number);
    return buffer->text;
}

/* The value of the request that the key compares. */
static const char *got_text(const struct zc_rule *rule, const struct zc_match *request,
                            enum zc_key_id key, struct zc_note *buffer)
{
    switch (key) {
    case ZC_KEY_API:
    case ZC_KEY_PLACE:
        return zc_api_name(request->api);
    case ZC_KEY_SIZE:
        zc_note_set(buffer, "%u", (uint64_t)request->size);
        return buffer->text;
    case ZC_KEY_SITE:
        zc_note_set(buffer, "%x", request->site);
        return buffer->text;
    case ZC_KEY_DEVICE:
        return number_or_nothing(request->device, buffer);
    case ZC_KEY_RANK:
        return number_or_nothing(request->rank, buffer);
    case ZC_KEY_LOCAL_RANK:
        return number_or_nothing(request->local_rank, buffer);
    case ZC_KEY_HOST:
        return request->host;
    case ZC_KEY_GROWN:
        return request->grown ? "yes" : "no";
    case ZC_KEY_NTH:
        zc_note_set(buffer, "%u",
                    atomic_load_explicit(&rule->counters->fits, memory_order_relaxed) + 1);
        return buffer->text;
    case ZC_KEY_MODULE:
        return request->module;
    case ZC_KEY_EXE:
        return request->exe;
    case ZC_KEY_THREAD:
        return request->thread;
    default:
        return NULL;
    }
}

/* The first key that fails, ZC_KEY_COUNT if none. A request that `api` names, or that no `api`
 * excludes, and that the rule does not take all the same, can be given none of its places. */
static enum zc_key_id first_misfit(const struct zc_rule *rule, const struct zc_match *request)
{
    enum zc_key_id key = zc_rule_misfit(rule, request);

    if (key == ZC_KEY_API && ((rule->given & ZC_KEY_BIT(ZC_KEY_API)) == 0 ||
                              (rule->apis_named >> request->api & 1) != 0))
        return ZC_KEY_PLACE;
    if (key == ZC_KEY_COUNT && rule->nth.count > 0 &&
        !zc_ranges_hold(&rule->nth,
                        atomic_load_explicit(&rule->counters->fits, memory_order_relaxed) + 1))
        return ZC_KEY_NTH;
    return key;
}

/* The value of the key as the file has it. */
static const char *wanted_text(const struct zc_rule *rule, enum zc_key_id key,
                               struct zc_note *buffer)
{
    struct zc_note before;

    if (key < ZC_MATCH_KEY_COUNT)
        return rule->wanted[key];
    zc_note_set(buffer, "%s", "");
    for (unsigned i = 0; i < rule->place.count; i++) {
        before = *buffer;
        zc_note_set(buffer, "%s%s%s", before.text, i > 0 ? ", " : "",
                    zc_place_name(rule->place.item[i]));
    }
    return buffer->text;
}

unsigned zc_rule_misfits(const struct zc_rule *rule, const struct zc_match *request, char *text,
                         size_t n)
{
    enum zc_key_id first = first_misfit(rule, request);
    unsigned misfits = (rule->apis >> request->api & 1) == 0;
    struct zc_note wanted, line;

    for (uint64_t keys = zc_rule_judged(rule); keys != 0; keys &= keys - 1)
        misfits += !zc_key_fits(rule, request, (enum zc_key_id)__builtin_ctzll(keys));
    if (first == ZC_KEY_COUNT && rule->nth.count > 0)
        first = ZC_KEY_NTH;
    if (n > 0) {
        zc_note_set(&line, "%s", "");
        if (first != ZC_KEY_COUNT)
            zc_note_set(&line, "%s = %s", zc_policy_keys()[first].name,
                        wanted_text(rule, first, &wanted));
        n = n - 1 < line.used ? n - 1 : line.used;
        memcpy(text, line.text, n);
        text[n] = '\0';
    }
    return misfits;
}

const struct zc_rule *zc_policy_explain(const struct zc_policy *policy,
                                        const struct zc_match *request, zc_policy_emit_fn emit,
                                        void *ctx)
{
    const struct zc_rule *taker = NULL;

    if ((unsigned)request->api >= ZC_API_COUNT)
        return NULL;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct zc_rule *rule = &policy->rules[i];
        enum zc_key_id key = first_misfit(rule, request);
        struct zc_verdict verdict = {.rule = rule};
        struct zc_note got, wanted;

        if (key != ZC_KEY_COUNT) {
            verdict.outcome = ZC_OUTCOME_FAILS;
            verdict.key = &zc_policy_keys()[key];
            verdict.wanted = wanted_text(rule, key, &wanted);
            verdict.got = got_text(rule, request, key, &got);
        } else if (taker != NULL) {
            verdict.outcome = ZC_OUTCOME_BEHIND;
        } else {
            verdict.outcome = ZC_OUTCOME_TAKES;
            taker = rule;
        }
        emit(ctx, &verdict);
    }
    return taker;
}
