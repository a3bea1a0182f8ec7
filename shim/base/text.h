/* SPDX-License-Identifier: MIT */
/* Formatting into a fixed buffer: no malloc, no locale, no stdio. */
#ifndef ZC_BASE_TEXT_H
#define ZC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zc_text {
    char *buf;      /* Caller's buffer.  Not terminated until zc_text_cstr(). */
    size_t cap;     /* Bytes of buf, at least 1. */
    size_t len;     /* Bytes written. */
    bool truncated; /* Something did not fit.  Nothing is appended after that; numbers and JSON
                     * characters are there whole or not at all, plain text is cut. */
};

struct zc_text zc_text_on(char *buf, size_t cap);
const char *zc_text_cstr(struct zc_text *t); /* Terminates and returns buf. */

void zc_text_raw(struct zc_text *t, const char *s, size_t n);
void zc_text_str(struct zc_text *t, const char *s); /* NULL prints "(null)". */
void zc_text_u64(struct zc_text *t, uint64_t v);
void zc_text_i64(struct zc_text *t, int64_t v);
void zc_text_hex(struct zc_text *t, uint64_t v, unsigned digits); /* digits 0: as many as needed. */
/*
 * A size as people write it in policy.conf and read it in reports: 512 B, 4 KiB, 1.5 GiB, 123 MiB;
 * at most 8 columns.  One decimal below 100 where the size is not a whole number of units ("1.0
 * MiB" is nearly one), rounded to a whole number from there on.
 */
void zc_text_bytes(struct zc_text *t, uint64_t bytes);
/* Appends s as the inside of a JSON string: quotes, backslashes, control bytes escaped; bytes that
 * are not UTF-8 become U+FFFD. */
void zc_text_json(struct zc_text *t, const char *s);
/* Pads with blanks up to column `width` counted from `start`; used by the summary's tables. */
void zc_text_pad(struct zc_text *t, size_t start, size_t width);

/* Makes '?' of control characters from `start` on: terminal escapes and line ends in a name from a
 * file must not reach the terminal. */
void zc_text_disarm(struct zc_text *t, size_t start);

/* printf's small brother: %s %u (unsigned) %d (int) %U (uint64_t) %D (int64_t) %x (uint64_t, hex)
 * %X (uint32_t, eight hex digits) %p (pointer) %B (uint64_t as bytes for people) %e (int, an errno
 * value in words) %c %%.  No flags, no widths. */
void zc_text_fmt(struct zc_text *t, const char *fmt, ...);
void zc_text_vfmt(struct zc_text *t, const char *fmt, __builtin_va_list ap);

/* The words of an errno value, without strerror(3): that one reads the locale and may allocate.
 * NULL for a value that libzc does not meet; %e prints its number then. */
const char *zc_error_text(int error);

#endif
