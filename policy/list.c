/* SPDX-License-Identifier: MIT */
/*
 * Readers for values that are comma lists of words: requests, places, globs.
 */
#include <limits.h>
#include <string.h>

#include "internal.h"

static bool fault_empty_item(struct zc_parser *parser, const struct zc_key *key,
                             struct zc_slice item)
{
    return zc_fault(parser, item, "%s: empty item in the list", key->name);
}

static bool fault_unknown_api(struct zc_parser *parser, const struct zc_key *key,
                              struct zc_slice item)
{
    const char *near = zc_api_nearest(item), *hint = "";

    if (near == NULL)
        hint = memchr(item.at, ' ', item.n) != NULL
                   ? " (a list has commas)"
                   : " (no call that requests memory, as cudaMalloc and malloc are)";
    return zc_fault(parser, item, "unknown %s %w%h%s", key->name, &item, near, hint);
}

bool zc_value_api(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                  void *field)
{
    uint64_t *apis = field;
    struct zc_slice item;

    while (zc_slice_next_item(&value, &item)) {
        const char *complaint = zc_glob_fault(item);

        if (item.n == 0)
            return fault_empty_item(parser, key, item);
        if (complaint != NULL)
            return zc_fault(parser, item, "%s: %s in %w", key->name, complaint, &item);
        uint64_t selected = zc_api_select(item);
        if (selected == 0 && zc_glob_has_wildcard(item))
            return zc_fault(parser, item, "%s: %w matches the name of no request", key->name,
                            &item);
        if (selected == 0)
            return fault_unknown_api(parser, key, item);
        *apis |= selected;
    }
    return true;
}

/* Patterns longer than a file name may be (NAME_MAX) fit nothing and would only cost time. */
bool zc_value_globs(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                    void *field)
{
    struct zc_globs *globs = field;
    struct zc_slice item;
    const char **patterns =
        zc_parser_take(parser, zc_slice_item_count(value) * sizeof(const char *));

    if (patterns == NULL)
        return false;
    globs->item = patterns;
    while (zc_slice_next_item(&value, &item)) {
        const char *complaint = zc_glob_fault(item);

        if (item.n == 0)
            return fault_empty_item(parser, key, item);
        if (item.n > NAME_MAX)
            complaint = "more bytes than a file name can have";
        if (complaint != NULL)
            return zc_fault(parser, item, "%s: %s in %w", key->name, complaint, &item);
        patterns[globs->count] = zc_parser_copy(parser, item);
        if (patterns[globs->count] == NULL)
            return false;
        globs->count++;
    }
    return true;
}

/* One word of a list; none has a blank. */
static bool read_word(struct zc_parser *parser, const struct zc_key *key, struct zc_slice item,
                      unsigned *out)
{
    if (item.n == 0)
        return fault_empty_item(parser, key, item);
    if (memchr(item.at, ' ', item.n) != NULL || memchr(item.at, '\t', item.n) != NULL)
        return zc_fault(parser, item,
                        "%s: %w is not one word: lists have commas, comments begin with '#'",
                        key->name, &item);
    return zc_value_word(parser, key, item, out);
}

bool zc_value_places(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                     void *field)
{
    struct zc_place_list *places = field;
    struct zc_slice item;
    unsigned seen = 0;

    while (zc_slice_next_item(&value, &item)) {
        unsigned place;

        if (!read_word(parser, key, item, &place))
            return false;
        if ((seen & ZC_FIT_BIT(place)) != 0)
            return zc_fault(parser, item, "%s: %w is named twice", key->name, &item);
        seen |= ZC_FIT_BIT(place);
        places->item[places->count++] = (enum zc_place_id)place;
    }
    return true;
}
