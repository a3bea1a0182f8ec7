/* SPDX-License-Identifier: MIT */
/*
 * Readers for the values of single keys: numbers, ranges, limits, single words.
 */
#include <limits.h>
#include <string.h>

#include "internal.h"

typedef const char *(*number_fn)(struct zc_slice text, uint64_t *out);

/* Reads one number; reports what is wrong with it. */
static bool read_number(struct zc_parser *parser, const struct zc_key *key, struct zc_slice text,
                        number_fn number, uint64_t *out)
{
    const char *complaint = number(text, out);

    return complaint == NULL || zc_fault(parser, text, "%s: %w %s", key->name, &text, complaint);
}

/* The two sides of "low..high"; false if there are no dots. */
static bool split_range(struct zc_slice text, struct zc_slice *low, struct zc_slice *high)
{
    for (size_t i = 0; i + 1 < text.n; i++) {
        if (text.at[i] == '.' && text.at[i + 1] == '.') {
            *low = zc_slice_trim((struct zc_slice){text.at, i});
            *high = zc_slice_trim((struct zc_slice){text.at + i + 2, text.n - i - 2});
            return true;
        }
    }
    return false;
}

static bool read_range(struct zc_parser *parser, const struct zc_key *key, struct zc_slice text,
                       number_fn number, struct zc_range *out)
{
    const struct zc_word *word = key->words != NULL ? zc_word_find(key->words, text) : NULL;
    struct zc_slice low, high;

    out->alternates = word != NULL;
    if (word != NULL) {
        out->low = word->value;
        out->high = UINT64_MAX;
        return true;
    }
    if (!split_range(text, &low, &high)) {
        if (!read_number(parser, key, text, number, &out->low))
            return false;
        out->high = out->low;
        return true;
    }
    if (low.n == 0 && high.n == 0)
        return zc_fault(parser, text, "%s: range %w has no ends", key->name, &text);
    out->low = 0;
    out->high = UINT64_MAX;
    if (low.n > 0 && !read_number(parser, key, low, number, &out->low))
        return false;
    if (high.n > 0 && !read_number(parser, key, high, number, &out->high))
        return false;
    if (out->low > out->high)
        return zc_fault(parser, text, "%s: range %w is reversed", key->name, &text);
    return true;
}

/* A comma list of numbers or ranges from `least` to `most`. */
static bool read_ranges(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                        number_fn number, struct zc_range bounds, struct zc_ranges *out)
{
    struct zc_slice item;
    struct zc_range *ranges =
        zc_parser_take(parser, zc_slice_item_count(value) * sizeof(struct zc_range));

    if (ranges == NULL)
        return false;
    out->item = ranges;
    while (zc_slice_next_item(&value, &item)) {
        struct zc_range *range = &ranges[out->count];

        if (item.n == 0)
            return zc_fault(parser, item, "%s: empty item in the list", key->name);
        if (!read_range(parser, key, item, number, range))
            return false;
        if (range->high < bounds.low)
            return zc_fault(parser, item, "%s: %w holds nothing: the least is %u", key->name, &item,
                            bounds.low);
        if (range->low > bounds.high || (range->high > bounds.high && range->high != UINT64_MAX))
            return zc_fault(parser, item, "%s: %w is too large", key->name, &item);
        out->count++;
    }
    return true;
}

bool zc_value_sizes(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                    void *field)
{
    return read_ranges(parser, key, value, zc_number_size, (struct zc_range){1, UINT64_MAX, false},
                       field);
}

bool zc_value_ordinals(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                       void *field)
{
    return read_ranges(parser, key, value, zc_number_decimal,
                       (struct zc_range){1, UINT64_MAX, false}, field);
}

bool zc_value_numbers(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                      void *field)
{
    return read_ranges(parser, key, value, zc_number_decimal, (struct zc_range){0, INT_MAX, false},
                       field);
}

bool zc_value_sites(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                    void *field)
{
    return read_ranges(parser, key, value, zc_number_site, (struct zc_range){0, UINT32_MAX, false},
                       field);
}

bool zc_value_word(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                   void *field)
{
    const struct zc_word *word = zc_word_find(key->words, value);

    if (word == NULL)
        return zc_fault(parser, value, "unknown value %w for '%s'%k", &value, key->name, &value,
                        key->words);
    memcpy(field, &word->value, sizeof word->value);
    return true;
}

bool zc_value_size(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                   void *field)
{
    uint64_t *size = field;

    if (!read_number(parser, key, value, zc_number_size, size))
        return false;
    return *size > 0 || zc_fault(parser, value, "%s: must be more than 0", key->name);
}

static const char *read_percentage(struct zc_slice text, uint64_t *out)
{
    text.n--;
    return zc_number_decimal(zc_slice_trim(text), out) == NULL
               ? NULL
               : "is not a percentage: digits, then %";
}

bool zc_value_limit(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                    void *field)
{
    struct zc_limit *limit = field, read = {ZC_LIMIT_BYTES, 0};

    if (value.at[value.n - 1] == '%')
        read.kind = ZC_LIMIT_PERCENT;
    if (!read_number(parser, key, value,
                     read.kind == ZC_LIMIT_PERCENT ? read_percentage : zc_number_size, &read.value))
        return false;
    if (read.kind == ZC_LIMIT_PERCENT && read.value > 100)
        return zc_fault(parser, value, "%s: %w is more than 100%%", key->name, &value);
    *limit = read;
    return true;
}

/* A rule with nothing to spend could never use its first place. */
bool zc_value_budget(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                     void *field)
{
    struct zc_limit *limit = field;

    if (!zc_value_limit(parser, key, value, field))
        return false;
    return limit->value > 0 || zc_fault(parser, value, "%s: must be more than 0", key->name);
}

bool zc_value_links(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                    void *field)
{
    unsigned *links = field;
    uint64_t n = zc_slice_is(value, "own") ? ZC_LINKS_OWN : ZC_LINKS_IDLE;

    if (!zc_slice_is(value, "own") && !zc_slice_is(value, "idle") &&
        (zc_number_decimal(value, &n) != NULL || n < 1 || n > ZC_LINKS_MAX))
        return zc_fault(parser, value, "%s: %w is neither 'own', 'idle' nor a number from 1 to 16",
                        key->name, &value);
    *links = (unsigned)n;
    return true;
}

/* The letters are those that log patterns of other tools use; an unknown one is a fault, because
 * the log would land in a file that nobody expects. */
bool zc_value_log_pattern(struct zc_parser *parser, const struct zc_key *key, struct zc_slice value,
                          void *field)
{
    const char **log = field;

    for (size_t i = 0; i < value.n; i++) {
        struct zc_slice letter = {value.at + i, i + 1 < value.n ? 2 : 1};

        if (value.at[i] != '%')
            continue;
        if (letter.n < 2 || strchr("ephrt%", letter.at[1]) == NULL)
            return zc_fault(parser, letter,
                            "%s: unknown pattern %w (known: %%e %%p %%h %%r %%t "
                            "%%%%)",
                            key->name, &letter);
        i++;
    }
    *log = zc_parser_copy(parser, value);
    return *log != NULL;
}
