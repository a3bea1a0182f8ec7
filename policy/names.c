/* SPDX-License-Identifier: MIT */
/*
 * The requests of api.def by name: every spelling of runtime, driver and libc.
 */
#include "internal.h"

_Static_assert(ZC_API_COUNT <= 64, "zc_rule.apis has a bit for each request");

#define ZC_API(id, places, ...) static const char *const names_of_##id[] = {__VA_ARGS__, NULL};
#include "api.def"
#undef ZC_API

static const struct {
    const char *const *names; /* NULL at the end, the canonical one first */
    unsigned places;          /* ZC_FIT_* */
} apis[ZC_API_COUNT] = {
#define ZC_API(id, places, ...) [ZC_API_##id] = {names_of_##id, places},
#include "api.def"
#undef ZC_API
};

static const char *const no_names[] = {NULL};

const char *const *zc_api_names(enum zc_api api)
{
    return (unsigned)api < ZC_API_COUNT ? apis[api].names : no_names;
}

const char *zc_api_name(enum zc_api api)
{
    return (unsigned)api < ZC_API_COUNT ? apis[api].names[0] : "?";
}

unsigned zc_api_places(enum zc_api api)
{
    return (unsigned)api < ZC_API_COUNT ? apis[api].places : 0;
}

static bool ends_with(struct zc_slice name, const char *suffix)
{
    struct zc_slice end = zc_slice_of(suffix);

    if (name.n <= end.n)
        return false;
    name.at += name.n - end.n;
    name.n = end.n;
    return zc_slice_is(name, suffix);
}

/* Takes off what cuda.h appends to a function's name for its ABI version (_v2) and its default
 * stream (_ptsz, _ptds). */
static struct zc_slice without_suffix(struct zc_slice name)
{
    if (ends_with(name, "_ptsz") || ends_with(name, "_ptds"))
        name.n -= 5;
    if (name.n > 3 && name.at[name.n - 3] == '_' && name.at[name.n - 2] == 'v' &&
        name.at[name.n - 1] >= '0' && name.at[name.n - 1] <= '9')
        name.n -= 3;
    return name;
}

/* The requests that a name or a glob stands for: bits 1 << enum zc_api. */
uint64_t zc_api_select(struct zc_slice pattern)
{
    uint64_t selected = 0;

    pattern = without_suffix(pattern);
    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        for (const char *const *name = apis[api].names; *name != NULL; name++) {
            if (zc_glob_match(pattern, zc_slice_of(*name)))
                selected |= UINT64_C(1) << api;
        }
    }
    return selected;
}

const char *zc_api_nearest(struct zc_slice name)
{
    struct zc_nearest nearest;

    zc_nearest_start(&nearest, without_suffix(name));
    for (unsigned api = 0; api < ZC_API_COUNT; api++) {
        for (const char *const *known = apis[api].names; *known != NULL; known++)
            zc_nearest_offer(&nearest, *known);
    }
    return nearest.best;
}

bool zc_api_from_name(const char *name, enum zc_api *out)
{
    struct zc_slice text = zc_slice_of(name);
    uint64_t selected = zc_glob_has_wildcard(text) ? 0 : zc_api_select(text);

    /* Of the rows that share a spelling the first one is where libzc sees the request. */
    if (selected != 0)
        *out = (enum zc_api)__builtin_ctzll(selected);
    return selected != 0;
}
