/* SPDX-License-Identifier: MIT */
/*
 * Whether the keys of one rule fit together: its places and the requests that it names, keys that
 * have no effect, keys that contradict each other.
 */
#include "internal.h"

/* pthread_setname_np(3): a thread's name has at most 15 bytes. */
#define THREAD_NAME_MAX 15

#define HOST_ONLY (ZC_FIT(PAGEABLE) | ZC_FIT(PINNED))

#define API_BIT(id) (UINT64_C(1) << ZC_API_##id)

/* The last rows of api.def are libc's. */
static const uint64_t libc_requests = ~(API_BIT(malloc) - 1);

static bool has(const struct zc_rule *rule, enum zc_key_id key)
{
    return (rule->given & ZC_KEY_BIT(key)) != 0;
}

static unsigned places_of(const struct zc_rule *rule)
{
    unsigned places = 0;

    for (unsigned i = 0; i < rule->place.count; i++)
        places |= ZC_FIT_BIT(rule->place.item[i]);
    return places;
}

/* All places that some request of the set can be given. */
static unsigned places_for(uint64_t apis)
{
    unsigned places = 0;

    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        if ((apis >> api & 1) != 0)
            places |= zc_api_places((enum zc_api)api);
    }
    return places;
}

/* The requests whose places are exactly these. */
static uint64_t apis_with(unsigned places)
{
    uint64_t apis = 0;

    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        if (zc_api_places((enum zc_api)api) == places)
            apis |= UINT64_C(1) << api;
    }
    return apis;
}

/* The requests of the set that can be given one of the places. */
static uint64_t apis_that_fit(uint64_t apis, unsigned places)
{
    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        if ((zc_api_places((enum zc_api)api) & places) == 0)
            apis &= ~(UINT64_C(1) << api);
    }
    return apis;
}

/* "mapped, managed": the places of a mask, for a message. */
static void list_places(struct zc_note *list, unsigned places)
{
    struct zc_note before = {.used = 0};

    list->used = 0;
    list->text[0] = '\0';
    for (unsigned place = 0; place < ZC_PLACE_COUNT; place++) {
        if ((places & ZC_FIT_BIT(place)) == 0)
            continue;
        before = *list;
        zc_note_set(list, "%s%s%s", before.text, before.used > 0 ? ", " : "",
                    zc_place_name((enum zc_place_id)place));
    }
}

static void complain(struct zc_parser *parser, enum zc_policy_severity severity, enum zc_key_id key,
                     const char *what, const char *list)
{
    zc_fault_at(parser, severity, parser->rule_keys.line[key], parser->rule_keys.column[key],
                "%s: %s%s", zc_policy_keys()[key].name, what, list);
}

/* Requirements of host memory, which the driver gives or knows, that leave few places possible. */
static const char *reason_for(uint64_t apis)
{
    if (apis == API_BIT(cuMemHostAlloc))
        return ": its memory has a device address";
    return apis == API_BIT(cuMemHostRegister) ? ": the pages are the program's own" : "";
}

/* Says that no place of the rule is possible for the request, and what is. */
static void refuse_request(struct zc_parser *parser, const struct zc_slice *item, uint64_t apis)
{
    unsigned line = parser->rule_keys.line[ZC_KEY_PLACE],
             column = parser->rule_keys.column[ZC_KEY_PLACE];
    struct zc_note possible;

    if (apis == API_BIT(cuMemAllocManaged)) {
        zc_fault_at(parser, ZC_SEVERITY_ERROR, line, column,
                    "no place of the rule is possible for %w: managed memory stays where the "
                    "program put it, so the rule can be left out",
                    item);
        return;
    }
    list_places(&possible, places_for(apis));
    zc_fault_at(parser, ZC_SEVERITY_ERROR, line, column,
                "no place of the rule is possible for %w (possible: %s)%s", item, possible.text,
                reason_for(apis));
}

/* A request that is named in full must be able to go somewhere; a glob may name more than fits. */
static void check_named_requests(struct zc_parser *parser, const struct zc_rule *rule,
                                 unsigned places)
{
    struct zc_slice list = zc_slice_of(rule->wanted[ZC_KEY_API]), item;

    while (zc_slice_next_item(&list, &item)) {
        uint64_t apis = zc_api_select(item);

        if (zc_glob_has_wildcard(item) || apis_that_fit(apis, places) != 0)
            continue;
        refuse_request(parser, &item, apis);
    }
}

/* A place that none of the requests can be given is a mistake, even behind others in the list. */
static void check_named_places(struct zc_parser *parser, const struct zc_rule *rule, uint64_t apis)
{
    for (unsigned i = 0; i < rule->place.count; i++) {
        enum zc_place_id place = rule->place.item[i];
        struct zc_slice name = zc_slice_of(zc_place_name(place));
        bool host = (ZC_FIT_BIT(place) & HOST_ONLY) != 0;

        if ((places_for(apis) & ZC_FIT_BIT(place)) == 0)
            zc_fault_at(parser, ZC_SEVERITY_ERROR, parser->rule_keys.line[ZC_KEY_PLACE],
                        parser->rule_keys.column[ZC_KEY_PLACE],
                        "place %w is not possible for the requests of the rule%s", &name,
                        host ? ": it is for host requests such as malloc"
                             : ": it is for device requests such as cudaMalloc");
    }
}

static bool names(const struct zc_rule *rule, uint64_t api)
{
    struct zc_slice list = zc_slice_of(rule->wanted[ZC_KEY_API]), item;

    while (zc_slice_next_item(&list, &item)) {
        if (!zc_glob_has_wildcard(item) && (zc_api_select(item) & api) != 0)
            return true;
    }
    return false;
}

/* Requests that a rule names and that no place gets; a glob may match some beside others. */
static void check_conversions(struct zc_parser *parser, const struct zc_rule *rule)
{
    uint64_t later = apis_that_fit(rule->apis, ZC_FIT_LATER), high = 0;
    struct zc_slice name = zc_slice_of(rule->name);

    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        uint64_t bit = UINT64_C(1) << api;

        if ((later & bit) != 0 && (later == rule->apis || names(rule, bit)))
            zc_fault_at(parser, ZC_SEVERITY_WARNING, rule->line, 1,
                        "rule %w: requests by %s are not placed by this version; they stay where "
                        "the program put them",
                        &name, zc_api_name((enum zc_api)api));
    }
    for (size_t i = 0; i < rule->size.count; i++)
        high = rule->size.item[i].high > high ? rule->size.item[i].high : high;
    if (rule->size.count > 0 && high < ZC_HOST_MIN && rule->apis != 0 &&
        (rule->apis & ~(libc_requests | API_BIT(cuMemHostAlloc))) == 0)
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_SIZE,
                 "host requests below 64 KiB are never converted", "");
    if (has(rule, ZC_KEY_BUDGET) && (rule->apis & libc_requests) != 0)
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_BUDGET, "does not count requests of libc", "");
}

/* Settles which requests the rule takes. */
static void fit_requests(struct zc_parser *parser, struct zc_rule *rule)
{
    unsigned places = places_of(rule);
    uint64_t apis = rule->apis_named;

    if (has(rule, ZC_KEY_API))
        check_named_requests(parser, rule, places);
    else if ((places & ~HOST_ONLY) != 0)
        apis = apis_with(ZC_FIT_DEVICE_REQUEST);
    else
        apis = apis_with(ZC_FIT_HOST_REQUEST) | apis_with(ZC_FIT_PINNED_REQUEST);
    rule->apis = apis_that_fit(apis, places);
    if (!parser->rule_faulty)
        check_named_places(parser, rule, apis);
}

/* A key of a place that the rule does not name changes nothing, and hints at a mistake. */
static void check_place_keys(struct zc_parser *parser, const struct zc_rule *rule)
{
    const struct zc_key *keys = zc_policy_keys();
    struct zc_note fitting;

    for (unsigned id = 0; id < ZC_KEY_COUNT; id++) {
        if (!has(rule, (enum zc_key_id)id) || keys[id].places == 0 ||
            (keys[id].places & places_of(rule)) != 0)
            continue;
        list_places(&fitting, keys[id].places);
        complain(parser, ZC_SEVERITY_WARNING, (enum zc_key_id)id,
                 "has no effect, it goes with place ", fitting.text);
    }
}

/* Whether no pattern of the list can match a text of at most `longest` bytes without slash. */
static bool globs_match_nothing(const struct zc_globs *globs, size_t longest, bool slash)
{
    for (size_t i = 0; i < globs->count; i++) {
        struct zc_slice pattern = zc_slice_of(globs->item[i]);
        bool folders = false;

        for (size_t at = 0; !slash && at < pattern.n; at++)
            folders |= pattern.at[at] == '/';
        if (!folders && zc_glob_shortest(pattern) <= longest)
            return false;
    }
    return globs->count > 0;
}

/* A budget without its unit or percent sign is the usual reason. */
static bool budget_is_vain(const struct zc_rule *rule)
{
    if (rule->budget.kind != ZC_LIMIT_BYTES)
        return false;
    for (size_t i = 0; i < rule->size.count; i++) {
        if (rule->size.item[i].low <= rule->budget.value)
            return false;
    }
    return rule->size.count > 0;
}

/* Keys that no request can meet at once, or of which one makes the other void. */
static void check_contradictions(struct zc_parser *parser, const struct zc_rule *rule)
{
    if (has(rule, ZC_KEY_DEVICE) && (rule->apis & ~libc_requests) == 0)
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_DEVICE,
                 "the rule never matches: ", "requests of libc have no device");
    if (rule->grow && has(rule, ZC_KEY_COMMIT) && rule->commit == ZC_COMMIT_EAGER)
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_COMMIT,
                 "'eager' has no effect beside 'grow = yes', which implies 'lazy'", "");
    if (rule->grow && rule->spill >= ZC_SPILL_MOVE)
        complain(parser, ZC_SEVERITY_ERROR, ZC_KEY_SPILL,
                 "'move' and 'fetch' are not possible beside 'grow = yes': ",
                 "an array that grows hands on the device's memory");
    if (budget_is_vain(rule))
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_BUDGET,
                 "no request of the rule is so small: ", "none goes to its first place");
    if (globs_match_nothing(&rule->module, SIZE_MAX, false))
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_MODULE,
                 "the rule never matches: ", "file names are compared without folders");
    if (globs_match_nothing(&rule->exe, SIZE_MAX, false))
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_EXE,
                 "the rule never matches: ", "file names are compared without folders");
    if (globs_match_nothing(&rule->thread, THREAD_NAME_MAX, true))
        complain(parser, ZC_SEVERITY_WARNING, ZC_KEY_THREAD,
                 "the rule never matches: ", "thread names have at most 15 bytes");
}

/* `spill = host` is another word for `mapped` behind `vmm`. */
static void spill_to_host(struct zc_place_list *places)
{
    unsigned last = places->count;

    for (; places->item[last - 1] != ZC_PLACE_VMM; last--)
        places->item[last] = places->item[last - 1];
    places->item[last] = ZC_PLACE_MAPPED;
    places->count++;
}

/* Judges a rule whose keys were all read without fault; errors make it faulty. */
void zc_rule_check(struct zc_parser *parser, struct zc_rule *rule)
{
    struct zc_slice name = zc_slice_of(rule->name);

    if (!has(rule, ZC_KEY_PLACE)) {
        zc_fault_at(parser, ZC_SEVERITY_ERROR, rule->line, 1, "rule %w has no place", &name);
        return;
    }
    fit_requests(parser, rule);
    if (parser->rule_faulty)
        return;
    check_place_keys(parser, rule);
    check_conversions(parser, rule);
    check_contradictions(parser, rule);
    if (rule->spill == ZC_SPILL_HOST && zc_rule_has_place(rule, ZC_PLACE_VMM) &&
        !zc_rule_has_place(rule, ZC_PLACE_MAPPED))
        spill_to_host(&rule->place);
    rule->apis &= ~apis_that_fit(rule->apis, ZC_FIT_LATER);
}
