/* SPDX-License-Identifier: MIT */
/* Appends JSON fields to a line, whole or not at all. */
#include "log/line.h"

#include "base/clock.h"

#include <string.h>

/* For the brackets of four levels, "truncated":true and the newline. */
#define RESERVE 64

/* Writes what comes before a value: a comma if needed, and the name.  Returns the start of the
 * field, for removing it if it does not fit. */
static size_t begin_field(struct zc_line *line, const char *name)
{
    struct zc_text *t = &line->text;
    size_t start = t->len, n = name != NULL ? strlen(name) : 0;
    char before = start > 0 ? t->buf[start - 1] : '{';
    bool comma = before != '{' && before != '[';
    char *p = t->buf + start;
    if (start + comma + (name != NULL ? n + strlen("\"\":") : 0) >= t->cap) {
        t->truncated = true;
        return start;
    }
    if (comma)
        *p++ = ',';
    if (name != NULL) {
        *p++ = '"';
        memcpy(p, name, n);
        memcpy(p + n, "\":", 2);
        p += n + 2;
    }
    t->len = (size_t)(p - t->buf);
    return start;
}

static void end_field(struct zc_line *line, size_t start)
{
    struct zc_text *t = &line->text;
    if (!t->truncated)
        return;
    t->len = start;
    line->cut = true;
}

void zc_line_begin(struct zc_line *line, char *buf, size_t cap, const char *type)
{
    line->text = zc_text_on(buf, cap - RESERVE);
    line->cut = false;
    line->skipped = 0;
    zc_text_raw(&line->text, "{", 1);
    zc_line_str(line, "type", type);
    zc_line_u64(line, "time_ns", zc_wall_ns());
}

/* One field whose value is whole or missing; `write` is the statement that writes it. */
#define FIELD(line, name, write)                                                                   \
    do {                                                                                           \
        if (!(line)->cut) {                                                                        \
            size_t start = begin_field(line, name);                                                \
                                                                                                   \
            write;                                                                                 \
            end_field(line, start);                                                                \
        }                                                                                          \
    } while (0)

void zc_line_u64(struct zc_line *line, const char *name, uint64_t v)
{
    FIELD(line, name, zc_text_u64(&line->text, v));
}

void zc_line_i64(struct zc_line *line, const char *name, int64_t v)
{
    FIELD(line, name, zc_text_i64(&line->text, v));
}

void zc_line_bool(struct zc_line *line, const char *name, bool v)
{
    FIELD(line, name, zc_text_str(&line->text, v ? "true" : "false"));
}

void zc_line_null(struct zc_line *line, const char *name)
{
    FIELD(line, name, zc_text_str(&line->text, "null"));
}

void zc_line_id(struct zc_line *line, const char *name, uint64_t v)
{
    if (v != 0)
        zc_line_u64(line, name, v);
    else
        zc_line_null(line, name);
}

static void quoted_hex(struct zc_text *t, const char *prefix, uint64_t v, unsigned digits)
{
    zc_text_raw(t, "\"", 1);
    zc_text_str(t, prefix);
    zc_text_hex(t, v, digits);
    zc_text_raw(t, "\"", 1);
}

void zc_line_hex(struct zc_line *line, const char *name, uint64_t v, unsigned digits)
{
    FIELD(line, name, quoted_hex(&line->text, "", v, digits));
}

void zc_line_site(struct zc_line *line, const char *name, uint32_t id)
{
    if (id == 0)
        zc_line_null(line, name);
    else
        zc_line_hex(line, name, id, 8);
}

void zc_line_address(struct zc_line *line, const char *name, uint64_t v)
{
    if (v == 0)
        zc_line_null(line, name);
    else
        FIELD(line, name, quoted_hex(&line->text, "0x", v, 0));
}

/* Closing brackets and quotes always fit: room is reserved for them. */
static void close_with(struct zc_line *line, const char *s)
{
    size_t n = strlen(s);
    memcpy(line->text.buf + line->text.len, s, n);
    line->text.len += n;
}

void zc_line_str(struct zc_line *line, const char *name, const char *s)
{
    if (s == NULL) {
        zc_line_null(line, name);
        return;
    }
    FIELD(line, name, zc_text_raw(&line->text, "\"", 1));
    if (line->cut)
        return;
    zc_text_json(&line->text, s);
    line->cut = line->text.truncated;
    close_with(line, "\"");
}

struct zc_nested zc_line_open(struct zc_line *line, const char *name, char bracket)
{
    FIELD(line, name, zc_text_raw(&line->text, &bracket, 1));
    line->skipped += line->cut;
    return (struct zc_nested){line, bracket};
}

/* In ASCII a bracket's end is the next but one. */
void zc_line_close(const struct zc_nested *nested)
{
    if (nested->line->skipped > 0)
        nested->line->skipped--;
    else
        close_with(nested->line, (const char[]){(char)(nested->bracket + 2), 0});
}

struct zc_count zc_count_asked(const struct zc_count by[ZC_OUTCOME_COUNT])
{
    struct zc_count sum = {0, 0};
    for (int i = 0; i < ZC_OUTCOME_COUNT; i++) {
        sum.calls += by[i].calls;
        sum.bytes += by[i].bytes;
    }
    return sum;
}

static void count_fields(struct zc_line *line, const char *calls, const char *bytes,
                         struct zc_count count)
{
    zc_line_u64(line, calls, count.calls);
    zc_line_u64(line, bytes, count.bytes);
}

void zc_line_counts(struct zc_line *line, const struct zc_count by[ZC_OUTCOME_COUNT],
                    uint64_t ticks)
{
    count_fields(line, "asked_calls", "asked_bytes", zc_count_asked(by));
    count_fields(line, "moved_calls", "moved_bytes", by[ZC_MOVED]);
    count_fields(line, "cpu_copied_calls", "cpu_copied_bytes", by[ZC_CPU]);
    count_fields(line, "elided_calls", "elided_bytes", by[ZC_ELIDED]);
    zc_line_u64(line, "blocked_ns", zc_ticks_to_ns(ticks));
}

void zc_line_end(struct zc_line *line)
{
    if (line->cut)
        close_with(line, ",\"truncated\":true");
    close_with(line, "}\n");
}
