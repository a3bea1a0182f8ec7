/* SPDX-License-Identifier: MIT */
/*
 * Which rule takes a request. Runs in every caught allocation: no lock, no allocation, no call
 * that could be one of the program's.
 */
#include "internal.h"

bool zc_ranges_hold(const struct zc_ranges *ranges, uint64_t number)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const struct zc_range *range = &ranges->item[i];

        if (number >= range->low && number <= range->high &&
            (!range->alternates || (number - range->low) % 2 == 0))
            return true;
    }
    return false;
}

static bool globs_match(const struct zc_globs *globs, const char *text)
{
    if (text == NULL)
        return false;
    for (size_t i = 0; i < globs->count; i++) {
        if (zc_glob_match(zc_slice_of(globs->item[i]), zc_slice_of(text)))
            return true;
    }
    return false;
}

bool zc_key_fits(const struct zc_rule *rule, const struct zc_match *request, enum zc_key_id key)
{
    switch (key) {
    case ZC_KEY_SIZE:
        return zc_ranges_hold(&rule->size, request->size);
    case ZC_KEY_SITE:
        return zc_ranges_hold(&rule->site, request->site);
    case ZC_KEY_DEVICE:
        return request->device >= 0 && zc_ranges_hold(&rule->device, (uint64_t)request->device);
    case ZC_KEY_RANK:
        return request->rank >= 0 && zc_ranges_hold(&rule->rank, (uint64_t)request->rank);
    case ZC_KEY_LOCAL_RANK:
        return request->local_rank >= 0 &&
               zc_ranges_hold(&rule->local_rank, (uint64_t)request->local_rank);
    case ZC_KEY_HOST:
        return globs_match(&rule->host, request->host);
    case ZC_KEY_GROWN:
        return !rule->grown || request->grown;
    case ZC_KEY_MODULE:
        return globs_match(&rule->module, request->module);
    case ZC_KEY_EXE:
        return globs_match(&rule->exe, request->exe);
    case ZC_KEY_THREAD:
        return globs_match(&rule->thread, request->thread);
    default:
        return true;
    }
}

uint64_t zc_rule_judged(const struct zc_rule *rule)
{
    const uint64_t judged_elsewhere = ZC_KEY_BIT(ZC_KEY_API) | ZC_KEY_BIT(ZC_KEY_NTH);
    const uint64_t match_keys = (UINT64_C(1) << ZC_MATCH_KEY_COUNT) - 1;

    return rule->given & match_keys & ~judged_elsewhere;
}

enum zc_key_id zc_rule_misfit(const struct zc_rule *rule, const struct zc_match *request)
{
    uint64_t keys = zc_rule_judged(rule);

    if ((rule->apis >> request->api & 1) == 0)
        return ZC_KEY_API;
    for (; keys != 0; keys &= keys - 1) {
        enum zc_key_id key = (enum zc_key_id)__builtin_ctzll(keys);

        if (!zc_key_fits(rule, request, key))
            return key;
    }
    return ZC_KEY_COUNT;
}

/* Counters are statistics and ordinals: no other memory is published with them, so relaxed order
 * is enough. */
static bool nth_fits(const struct zc_rule *rule)
{
    if (rule->nth.count == 0)
        return true;
    uint64_t before = atomic_fetch_add_explicit(&rule->counters->fits, 1, memory_order_relaxed);
    return zc_ranges_hold(&rule->nth, before + 1);
}

const struct zc_rule *zc_policy_match(const struct zc_policy *policy,
                                      const struct zc_match *request)
{
    if ((unsigned)request->api >= ZC_API_COUNT || (policy->apis >> request->api & 1) == 0)
        return NULL;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct zc_rule *rule = &policy->rules[i];

        if (zc_rule_misfit(rule, request) == ZC_KEY_COUNT && nth_fits(rule))
            return rule;
    }
    return NULL;
}
