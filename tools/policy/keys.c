/* SPDX-License-Identifier: MIT */
/*
 * zc-policy keys: the table of keys, a line each: name, where it stands (`match` and `place` are
 * both in a rule, `defaults`), the places that it has a meaning for (none: any, or no matter of
 * places), the accepted form, what it means.
 * zc-policy apis: every name that the key `api` knows, a line each.
 */
#include <stdio.h>

#include "tools/policy/policy_tool.h"

static const char *scope_name(unsigned scope)
{
    return scope & ZC_SCOPE_MATCH ? "match" : scope & ZC_SCOPE_PLACE ? "place" : "defaults";
}

int tool_keys(int argc, char **argv)
{
    const struct zc_key *keys = zc_policy_keys();

    (void)argv;
    if (argc != 0) {
        fputs("zc: keys takes no argument\n", stderr);
        return TOOL_USAGE;
    }
    for (size_t i = 0; i < ZC_KEY_COUNT; i++) {
        const char *comma = "";

        printf("%s%c%s%c", keys[i].name, FIELD_END, scope_name(keys[i].scope), FIELD_END);
        for (unsigned place = 0; place < ZC_PLACE_COUNT; place++) {
            if ((keys[i].places >> place & 1) != 0) {
                printf("%s%s", comma, zc_place_name((enum zc_place_id)place));
                comma = ", ";
            }
        }
        printf("%c%s%c%s\n", FIELD_END, keys[i].values, FIELD_END, keys[i].help);
    }
    return TOOL_OK;
}

int tool_apis(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fputs("zc: apis takes no argument\n", stderr);
        return TOOL_USAGE;
    }
    for (unsigned api = 0; api < ZC_API_COUNT; api++)
        for (const char *const *name = zc_api_names((enum zc_api)api); *name; name++)
            puts(*name);
    return TOOL_OK;
}
