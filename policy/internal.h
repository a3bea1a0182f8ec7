/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the parser: pieces of text, the parser's state, messages, globs. Nothing
 * outside policy/ includes it, but for the tests of its parts.
 */
#pragma once

#include <stdarg.h>

#include "policy.h"

/* A piece of the policy's text; not terminated. */
struct zc_slice {
    const char *at; /* first byte; NULL only at the end of a list */
    size_t n;       /* bytes */
};

/* A message under construction; always terminated, cut where it does not fit. */
struct zc_note {
    char text[320]; /* one line of printable ASCII */
    size_t used;    /* bytes without the terminator */
};

/* A word and the nearest of the words offered so far. */
struct zc_nearest {
    struct zc_slice word; /* the misspelt one */
    const char *best;     /* NULL where nothing is near */
    unsigned distance;    /* of best */
};

/* The line and column of each key of a section; line 0: not given. */
struct zc_seen {
    unsigned line[ZC_KEY_COUNT];   /* of the key */
    unsigned column[ZC_KEY_COUNT]; /* of the value, in bytes from 1 */
};

enum zc_section {
    ZC_SECTION_NONE, /* before the first section */
    ZC_SECTION_DEFAULTS,
    ZC_SECTION_RULE,
    ZC_SECTION_SKIPPED, /* faulty head: the section's lines are not looked at */
};

/* The state of one zc_policy_parse(). */
struct zc_parser {
    struct zc_policy *out;             /* of the caller */
    struct zc_policy_memory *mem;      /* of the caller */
    zc_policy_report_fn report;        /* may be NULL */
    void *ctx;                         /* of report */
    int errors;                        /* so far */
    unsigned reports;                  /* faults passed to report */
    unsigned line;                     /* number of the line at hand, from 1 */
    struct zc_slice text;              /* the line at hand, for columns */
    enum zc_section section;           /* that the line at hand belongs to */
    struct zc_seen defaults;           /* keys of all [defaults] sections */
    struct zc_seen rule_keys;          /* keys of the rule at hand */
    struct zc_rule *rule;              /* the rule at hand, NULL outside of rules */
    size_t rule_capacity;              /* elements of out->rules */
    struct zc_rule_counters *counters; /* one for each element of out->rules */
    bool rule_faulty;                  /* the rule at hand will be left out */
};

/* lex.c: lines and pieces of lines */
bool zc_slice_is(struct zc_slice text, const char *word);
struct zc_slice zc_slice_of(const char *string);
struct zc_slice zc_slice_trim(struct zc_slice text);
struct zc_slice zc_slice_without_comment(struct zc_slice text);
bool zc_slice_split(struct zc_slice text, char at, struct zc_slice *left, struct zc_slice *right);
bool zc_slice_next_line(struct zc_slice *rest, struct zc_slice *line_out);
bool zc_slice_next_item(struct zc_slice *rest, struct zc_slice *item_out);
size_t zc_slice_item_count(struct zc_slice list);
bool zc_slice_has_control(struct zc_slice text, size_t *at_out);

/* note.c: %s string, %w struct zc_slice * in quotes, %u uint64_t, %x uint32_t, %% a percent
 * sign, %h a near word or NULL: " (nearest: word)" or nothing, %k struct zc_slice * and the table
 * that does not have it: the nearest word, or " (known: word, word)" */
void zc_note_set(struct zc_note *message, const char *format, ...);
void zc_note_set_list(struct zc_note *message, const char *format, va_list args);

/* nearest.c */
void zc_nearest_start(struct zc_nearest *nearest, struct zc_slice word);
void zc_nearest_offer(struct zc_nearest *nearest, const char *candidate);
const char *zc_nearest_word(struct zc_slice word, const struct zc_word *words);
unsigned zc_nearest_distance(struct zc_slice a, struct zc_slice b);

/* glob.c */
const char *zc_glob_fault(struct zc_slice pattern);
bool zc_glob_has_wildcard(struct zc_slice pattern);
bool zc_glob_match(struct zc_slice pattern, struct zc_slice text);
bool zc_glob_covers(struct zc_slice pattern, struct zc_slice other);
size_t zc_glob_shortest(struct zc_slice pattern);

/* keys.c */
const struct zc_key *zc_key_find(struct zc_slice name, unsigned scope);
const char *zc_key_nearest(struct zc_slice name, unsigned scope);
const struct zc_word *zc_word_find(const struct zc_word *words, struct zc_slice name);
extern const struct zc_word zc_place_words[], zc_access_words[], zc_async_words[],
    zc_prefetch_words[], zc_commit_words[], zc_yes_words[], zc_spill_words[], zc_rdma_words[],
    zc_pageable_copy_words[], zc_log_level_words[], zc_parity_words[];

/* names.c */
uint64_t zc_api_select(struct zc_slice pattern);
const char *zc_api_nearest(struct zc_slice name);

/* value.c, list.c: one reader for each form of value */
#define ZC_VALUE_READER(name)                                                                      \
    bool zc_value_##name(struct zc_parser *parser, const struct zc_key *key,                       \
                         struct zc_slice value, void *field)
ZC_VALUE_READER(api);
ZC_VALUE_READER(sizes);
ZC_VALUE_READER(globs);
ZC_VALUE_READER(sites);
ZC_VALUE_READER(numbers);
ZC_VALUE_READER(ordinals);
ZC_VALUE_READER(word);
ZC_VALUE_READER(places);
ZC_VALUE_READER(size);
ZC_VALUE_READER(budget);
ZC_VALUE_READER(limit);
ZC_VALUE_READER(links);
ZC_VALUE_READER(log_pattern);

/* number.c: digits to numbers; NULL, or what is wrong with the text */
const char *zc_number_decimal(struct zc_slice text, uint64_t *out);
const char *zc_number_site(struct zc_slice text, uint64_t *out);
const char *zc_number_size(struct zc_slice text, uint64_t *out);

/* parse.c: report a fault at `where`, a piece of the line at hand. An error inside a rule makes
 * the rule faulty. zc_fault() is always false, so that readers can return it. */
bool zc_fault(struct zc_parser *parser, struct zc_slice where, const char *format, ...);
void zc_fault_at(struct zc_parser *parser, enum zc_policy_severity severity, unsigned line,
                 unsigned column, const char *format, ...);

/* parse.c: memory of the policy, aligned for any type and zeroed; NULL after reporting where there
 * is none left */
void *zc_parser_take(struct zc_parser *parser, size_t size);
const char *zc_parser_copy(struct zc_parser *parser, struct zc_slice text);

/* fit.c: what a whole rule must hold; check.c: what the rules do to each other */
void zc_rule_check(struct zc_parser *parser, struct zc_rule *rule);
void zc_policy_check(struct zc_parser *parser);
bool zc_rule_covers(const struct zc_rule *earlier, const struct zc_rule *later, uint64_t *work);

/* match.c: the first key but `nth` that fails, ZC_KEY_COUNT if none */
/* Match keys that the rule gives, but for those that zc_key_fits() does not judge: `api`, `nth`. */
uint64_t zc_rule_judged(const struct zc_rule *rule);
/* Whether the request has what one match key asks for. */
bool zc_key_fits(const struct zc_rule *rule, const struct zc_match *request, enum zc_key_id key);
enum zc_key_id zc_rule_misfit(const struct zc_rule *rule, const struct zc_match *request);
/* match.c: whether a number is in a list */
bool zc_ranges_hold(const struct zc_ranges *ranges, uint64_t number);
