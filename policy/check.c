/* SPDX-License-Identifier: MIT */
/*
 * How the rules of a policy affect each other: a rule that an earlier one hides, two rules of one
 * name, a rule that needs another and has none. Only warnings: the policy works, but hardly as
 * meant.
 */
#include <string.h>

#include "internal.h"

/* Comparisons of numbers or bytes that may be spent on one policy. A file that a person wrote needs
 * far less; a hostile one must not delay the program's start. */
#define WORK_MAX 20000000

static const struct zc_range all_numbers = {0, UINT64_MAX, false};

static bool spend(uint64_t *work, uint64_t amount)
{
    if (*work < amount) {
        *work = 0;
        return false;
    }
    *work -= amount;
    return true;
}

/* Whether the numbers of `later` are all in `earlier`; an empty list holds all numbers from
 * `least` on. */
static bool ranges_cover(const struct zc_ranges *earlier, const struct zc_ranges *later,
                         uint64_t least, uint64_t *work)
{
    const struct zc_range rest = {least, all_numbers.high, false};
    const struct zc_range *item = later->count > 0 ? later->item : &rest;
    size_t count = later->count > 0 ? later->count : 1;

    if (earlier->count == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        bool covered = false;

        for (size_t j = 0; !covered && j < earlier->count; j++) {
            if (!spend(work, 1))
                return false;
            covered = earlier->item[j].low <= item[i].low &&
                      earlier->item[j].high >= item[i].high && !earlier->item[j].alternates;
        }
        if (!covered)
            return false;
    }
    return true;
}

/* Whether all that the patterns of `later` match is matched by `earlier`. A request whose name is
 * not known fits no pattern, so that a list is covered by none but no list. */
static bool globs_cover(const struct zc_globs *earlier, const struct zc_globs *later,
                        uint64_t *work)
{
    if (earlier->count == 0)
        return true;
    for (size_t i = 0; i < later->count; i++) {
        struct zc_slice pattern = zc_slice_of(later->item[i]);
        bool covered = false;

        for (size_t j = 0; !covered && j < earlier->count; j++) {
            struct zc_slice other = zc_slice_of(earlier->item[j]);

            if (!spend(work, (uint64_t)pattern.n * other.n))
                return false;
            covered = zc_glob_covers(other, pattern);
        }
        if (!covered)
            return false;
    }
    return later->count > 0;
}

/* Whether `earlier` takes every request that `later` could take. Takes what it costs from *work;
 * with nothing left the answer is no. */
bool zc_rule_covers(const struct zc_rule *earlier, const struct zc_rule *later, uint64_t *work)
{
    const struct zc_ranges every = {NULL, 0};

    /* `nth` of the later rule does not matter: it counts only what the earlier one leaves. */
    return (later->apis & ~earlier->apis) == 0 && earlier->grown <= later->grown &&
           ranges_cover(&earlier->size, &later->size, 0, work) &&
           ranges_cover(&earlier->site, &later->site, 0, work) &&
           ranges_cover(&earlier->device, &later->device, 0, work) &&
           ranges_cover(&earlier->rank, &later->rank, 0, work) &&
           ranges_cover(&earlier->local_rank, &later->local_rank, 0, work) &&
           globs_cover(&earlier->host, &later->host, work) &&
           ranges_cover(&earlier->nth, &every, 1, work) &&
           globs_cover(&earlier->module, &later->module, work) &&
           globs_cover(&earlier->exe, &later->exe, work) &&
           globs_cover(&earlier->thread, &later->thread, work);
}

static void check_rule(struct zc_parser *parser, size_t index, uint64_t *work)
{
    const struct zc_rule *rules = parser->out->rules, *rule = &rules[index];
    struct zc_slice name = zc_slice_of(rule->name);
    const struct zc_rule *hiding = NULL, *namesake = NULL;

    for (size_t i = 0; i < index; i++) {
        if (namesake == NULL && strcmp(rules[i].name, rule->name) == 0)
            namesake = &rules[i];
        if (hiding == NULL && zc_rule_covers(&rules[i], rule, work))
            hiding = &rules[i];
    }
    if (namesake != NULL)
        zc_fault_at(parser, ZC_SEVERITY_WARNING, rule->line, 1,
                    "another rule is named %w, in line %u", &name, (uint64_t)namesake->line);
    if (hiding != NULL) {
        struct zc_slice other = zc_slice_of(hiding->name);

        zc_fault_at(parser, ZC_SEVERITY_WARNING, rule->line, 1,
                    "rule %w never matches: rule %w in line %u takes all its requests", &name,
                    &other, (uint64_t)hiding->line);
    }
}

/* Whether the rule takes requests that can be given all of these places (ZC_FIT_*). */
static bool takes(const struct zc_rule *rule, unsigned places)
{
    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        if ((rule->apis >> api & 1) != 0 && (~zc_api_places((enum zc_api)api) & places) == 0)
            return true;
    }
    return false;
}

/* Whether the rule gives `shared` to requests that can have all of these places. */
static bool shares(const struct zc_rule *rule, unsigned places)
{
    return zc_rule_has_place(rule, ZC_PLACE_SHARED) && takes(rule, places | ZC_FIT(SHARED));
}

/* A device block in `shared` becomes one with a host block that some rule makes, if its own rule
 * says what kernels do to it. Else it is device memory, and only the log would say so. */
static void check_partners(struct zc_parser *parser)
{
    const struct zc_policy *out = parser->out;
    bool partners = false;

    for (size_t i = 0; i < out->rule_count; i++)
        partners |= shares(&out->rules[i], ZC_FIT(PAGEABLE));
    for (size_t i = 0; i < out->rule_count; i++) {
        const struct zc_rule *rule = &out->rules[i];
        struct zc_slice name = zc_slice_of(rule->name);
        const char *missing = rule->access == ZC_ACCESS_READWRITE
                                  ? "it does not say 'access = read'"
                              : partners ? NULL
                                         : "no rule gives requests of malloc 'shared'";

        if (missing != NULL && shares(rule, ZC_FIT(DEVICE)))
            zc_fault_at(parser, ZC_SEVERITY_WARNING, rule->line, 1,
                        "rule %w shares nothing, and its blocks are device memory: %s", &name,
                        missing);
    }
}

void zc_policy_check(struct zc_parser *parser)
{
    uint64_t work = WORK_MAX;

    for (size_t i = 0; i < parser->out->rule_count; i++)
        check_rule(parser, i, &work);
    check_partners(parser);
}
