/* SPDX-License-Identifier: MIT */
/* Formatting into a fixed buffer: no malloc, no locale, no stdio. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_text {
    char *buf;      /* Caller's buffer.  Not terminated until zc_text_cstr(). */
    size_t cap;     /* Bytes of buf, at least 1. */
    size_t len;     /* Bytes written. */
    bool truncated; /* Something did not fit.  Nothing is appended after that.  Numbers and JSON
                     * characters are whole or missing; plain text is cut. */
};

struct zc_text zc_text_on(char *buf, size_t cap);
const char *zc_text_cstr(struct zc_text *t); /* Terminates and returns buf. */

void zc_text_raw(struct zc_text *t, const char *s, size_t n);
void zc_text_str(struct zc_text *t, const char *s); /* NULL prints "(null)". */
void zc_text_u64(struct zc_text *t, uint64_t v);
void zc_text_i64(struct zc_text *t, int64_t v);
void zc_text_hex(struct zc_text *t, uint64_t v, unsigned digits); /* digits 0: no leading zeroes. */
/*
 * A size as in policy.conf and reports: 512 B, 4 KiB, 1.5 GiB, 123 MiB; at most 8 columns.  Below
 * 100 units it has one decimal unless it is a whole number ("1.0 MiB" is nearly one); above, it is
 * rounded to a whole number.
 */
void zc_text_bytes(struct zc_text *t, uint64_t bytes);
/* Appends s for use inside a JSON string: escapes quotes, backslashes and control bytes, and
 * replaces bytes that are not UTF-8 by U+FFFD. */
void zc_text_json(struct zc_text *t, const char *s);
/* Appends a character in UTF-8. */
void zc_text_utf8(struct zc_text *t, uint32_t c);

/* Replaces control characters from `start` on by '?': escapes and line ends in a file's name must
 * not reach the terminal. */
void zc_text_disarm(struct zc_text *t, size_t start);

/* A small printf: %s %u (unsigned) %d (int) %U (uint64_t) %x (uint64_t, hex) %X (uint32_t, eight
 * hex digits) %p (pointer) %B (uint64_t, as a readable size) %t (uint64_t, nanoseconds as a
 * readable time) %e (int, an errno value as text) %%. */
void zc_text_fmt(struct zc_text *t, const char *fmt, ...);
void zc_text_vfmt(struct zc_text *t, const char *fmt, __builtin_va_list ap);
