/* SPDX-License-Identifier: MIT */
/* Builds one line of the log: a JSON object that stays valid if it does not fit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "ledger/traffic.h"

/* Longest line except the summary: as much as Linux always writes to a file in one piece. */
#define ZC_LINE_MAX 4096

struct zc_line {
    struct zc_text text;   /* The text so far; its cap leaves room for closing brackets. */
    bool cut;              /* A field did not fit: it and all later ones are missing. */
    unsigned skipped;      /* Nested objects and arrays opened since then, to be closed. */
    char own[ZC_LINE_MAX]; /* The buffer of lines that zc_log_begin() starts. */
};

/* Starts {"type":TYPE,"time_ns":NOW in buf; cap is at least 256. */
void zc_line_begin(struct zc_line *line, char *buf, size_t cap, const char *type);

/*
 * Fields.  `name` is NULL inside an array.  A NULL string gives null; one that does not fit is cut
 * at a character.  The id forms write what people search for as a string: eight hex digits, or 0x
 * and the address.
 */
void zc_line_u64(struct zc_line *line, const char *name, uint64_t v);
void zc_line_id(struct zc_line *line, const char *name, uint64_t v); /* Null for 0. */
void zc_line_i64(struct zc_line *line, const char *name, int64_t v);
void zc_line_bool(struct zc_line *line, const char *name, bool v);
void zc_line_null(struct zc_line *line, const char *name);
void zc_line_str(struct zc_line *line, const char *name, const char *s);
void zc_line_hex(struct zc_line *line, const char *name, uint64_t v, unsigned digits);
void zc_line_site(struct zc_line *line, const char *name, uint32_t id);   /* Null for 0. */
void zc_line_address(struct zc_line *line, const char *name, uint64_t v); /* Null for 0. */

/* A nested object ('{') or array ('['), which ends with the block of the statement. */
struct zc_nested {
    struct zc_line *line;
    char bracket;
};
struct zc_nested zc_line_open(struct zc_line *line, const char *name, char bracket);
void zc_line_close(const struct zc_nested *nested);
#define ZC_LINE_OPEN(...) ZC_LINE_OPEN_AT(__LINE__, __VA_ARGS__)
#define ZC_LINE_OPEN_AT(n, ...) ZC_LINE_OPEN_AS(n, __VA_ARGS__)
#define ZC_LINE_OPEN_AS(n, ...)                                                                    \
    const struct zc_nested nested_##n __attribute__((cleanup(zc_line_close), unused)) =            \
        zc_line_open(__VA_ARGS__)

/* Writes the counts by outcome as the fields asked_calls, asked_bytes, moved_calls and so on, and
 * blocked_ns. */
void zc_line_counts(struct zc_line *line, const struct zc_count by[ZC_OUTCOME_COUNT],
                    uint64_t ticks);

/* Closes the object, with "truncated":true if something is missing, and appends the newline. */
void zc_line_end(struct zc_line *line);

/* The sum over the outcomes: what was requested. */
struct zc_count zc_count_asked(const struct zc_count by[ZC_OUTCOME_COUNT]);
