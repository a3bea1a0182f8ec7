/* SPDX-License-Identifier: MIT */
/* Numbers, sizes and formatted text in a fixed buffer. */
#include "base/text.h"

#include <stdarg.h>
#include <string.h>
#include <errno.h>

struct zc_text zc_text_on(char *buf, size_t cap)
{
    return (struct zc_text){.buf = buf, .cap = cap};
}

const char *zc_text_cstr(struct zc_text *t)
{
    t->buf[t->len] = 0;
    return t->buf;
}

/* One byte stays free for the terminator. */
static size_t text_room(const struct zc_text *t)
{
    return t->truncated || t->len + 1 >= t->cap ? 0 : t->cap - 1 - t->len;
}

void zc_text_raw(struct zc_text *t, const char *s, size_t n)
{
    size_t fits = text_room(t);
    if (n <= fits)
        fits = n;
    memcpy(t->buf + t->len, s, fits);
    t->len += fits;
    if (fits < n)
        t->truncated = true;
}

/* Appends text that must not be cut: half a number would be wrong. */
static void text_whole(struct zc_text *t, const char *s, size_t n)
{
    if (n <= text_room(t))
        zc_text_raw(t, s, n);
    else
        t->truncated = true;
}

void zc_text_str(struct zc_text *t, const char *s)
{
    if (s == NULL)
        s = "(null)";
    zc_text_raw(t, s, strlen(s));
}

/* The numbers 00 to 99: one division for two digits. */
static const char two_digits[] = "00010203040506070809101112131415161718192021222324"
                                 "25262728293031323334353637383940414243444546474849"
                                 "50515253545556575859606162636465666768697071727374"
                                 "75767778798081828384858687888990919293949596979899";

/* Writes v's digits at the end of digits[20] and returns where they start. */
static char *decimal_digits(char digits[20], uint64_t v)
{
    char *p = digits + 20;
    for (; v >= 100; v /= 100)
        memcpy(p -= 2, two_digits + v % 100 * 2, 2);
    if (v >= 10)
        return memcpy(p - 2, two_digits + v * 2, 2);
    *--p = (char)('0' + v);
    return p;
}

void zc_text_u64(struct zc_text *t, uint64_t v)
{
    char digits[20];
    char *p = decimal_digits(digits, v);
    text_whole(t, p, (size_t)(digits + 20 - p));
}

void zc_text_i64(struct zc_text *t, int64_t v)
{
    char signed_digits[21];
    char *p = decimal_digits(signed_digits + 1, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
    if (v < 0)
        *--p = '-';
    text_whole(t, p, (size_t)(signed_digits + 21 - p));
}

void zc_text_hex(struct zc_text *t, uint64_t v, unsigned digits)
{
    char out[16];
    unsigned n = 0;
    do {
        out[15 - n++] = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (n < 16 && (v != 0 || n < digits));
    text_whole(t, out + 16 - n, n);
}

/* bytes / 1024^unit * scale, rounded to the nearest whole number. */
static uint64_t in_units(uint64_t bytes, unsigned unit, unsigned scale)
{
    unsigned shift = 10 * unit;
    return (uint64_t)(((unsigned __int128)bytes * scale + (((uint64_t)1 << shift) >> 1)) >> shift);
}

void zc_text_bytes(struct zc_text *t, uint64_t bytes)
{
    static const char *const names[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    char out[32];
    struct zc_text number = zc_text_on(out, sizeof(out));
    unsigned unit = 0;
    while (unit < 6 && in_units(bytes, unit, 1) >= 1024)
        unit++;
    uint64_t tenths = in_units(bytes, unit, 10);
    if (unit > 0 && tenths < 1000 && (bytes & (((uint64_t)1 << (10 * unit)) - 1)) != 0)
        zc_text_fmt(&number, "%U.%U", tenths / 10, tenths % 10);
    else
        zc_text_u64(&number, in_units(bytes, unit, 1));
    zc_text_str(&number, names[unit]);
    text_whole(t, out, number.len);
}

void zc_text_utf8(struct zc_text *t, uint32_t c)
{
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    unsigned more = (c >= 0x80) + (c >= 0x800) + (c >= 0x10000);
    char out[4] = {(char)(lead[more] | c >> 6 * more)};
    for (unsigned i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
    text_whole(t, out, more + 1);
}

/* A time of at most eight columns. */
static void text_time(struct zc_text *t, uint64_t ns)
{
    static const char *const names[] = {" ns", " us", " ms", " s"};
    uint64_t unit = 1;
    unsigned i = 0;
    for (; i < 3 && ns / unit >= 1000; i++)
        unit *= 1000;
    zc_text_u64(t, ns / unit);
    if (i > 0 && ns / unit < 100)
        zc_text_fmt(t, ".%U", ns % unit * 10 / unit);
    zc_text_str(t, names[i]);
}

void zc_text_disarm(struct zc_text *t, size_t start)
{
    for (size_t i = start; i < t->len; i++)
        if ((unsigned char)t->buf[i] < 0x20 || t->buf[i] == 0x7f)
            t->buf[i] = '?';
}

/* strerror(3) would read the locale, and may allocate.  Two errors of files say what libzc knows of
 * their reasons: it follows no links, and asks for the limit before it writes. */
static void text_errno(struct zc_text *t, int value)
{
    const char *words = value == ELOOP   ? "is a symbolic link"
                        : value == EFBIG ? "file size limit reached"
                                         : strerrordesc_np(value);
    if (words != NULL)
        zc_text_str(t, words);
    else
        zc_text_fmt(t, "error %d", value);
}

void zc_text_fmt(struct zc_text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    zc_text_vfmt(t, fmt, ap);
    va_end(ap);
}

void zc_text_vfmt(struct zc_text *t, const char *fmt, va_list args)
{
    va_list ap;
    va_copy(ap, args);
    for (const char *p = fmt; *p != 0; p++) {
        size_t plain = strcspn(p, "%");
        zc_text_raw(t, p, plain);
        p += plain;
        if (*p == 0 || *++p == 0)
            break;
        switch (*p) {
        case 's':
            zc_text_str(t, va_arg(ap, const char *));
            break;
        case 'u':
            zc_text_u64(t, va_arg(ap, unsigned));
            break;
        case 'd':
            zc_text_i64(t, va_arg(ap, int));
            break;
        case 'U':
            zc_text_u64(t, va_arg(ap, uint64_t));
            break;
        case 'x':
            zc_text_hex(t, va_arg(ap, uint64_t), 0);
            break;
        case 'X':
            zc_text_hex(t, va_arg(ap, uint32_t), 8);
            break;
        case 'p':
            zc_text_raw(t, "0x", 2);
            zc_text_hex(t, (uintptr_t)va_arg(ap, void *), 0);
            break;
        case 'B':
            zc_text_bytes(t, va_arg(ap, uint64_t));
            break;
        case 't':
            text_time(t, va_arg(ap, uint64_t));
            break;
        case 'e':
            text_errno(t, va_arg(ap, int));
            break;
        default:
            zc_text_raw(t, p, 1);
            break;
        }
    }
    va_end(ap);
}

/* Length of the well-formed sequence at s (Unicode 15, table 3-7).  Negative: length of an
 * incomplete part, which one U+FFFD replaces. */
static int utf8_sequence(const unsigned char *s)
{
    int more = (*s >= 0xc2) + (*s >= 0xe0) + (*s >= 0xf0);
    if (more == 0 || *s > 0xf4)
        return *s < 0x80 ? 1 : -1;
    /* Some second bytes would begin a longer form than is needed, a surrogate, or no character. */
    unsigned two = (unsigned)*s << 8 | s[1];
    if ((s[1] & 0xc0) != 0x80 || (two >= 0xe080 && two < 0xe0a0) ||
        (two >= 0xeda0 && two < 0xee00) || (two >= 0xf080 && two < 0xf090) || two >= 0xf490)
        return -1;
    for (int i = 2; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80)
            return -i;
    return more + 1;
}

/* Stores the escape of an ASCII byte in out[6]; returns its length, or 0 if it needs none. */
static size_t json_escape(unsigned char c, char out[6])
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    static const char hex[] = "0123456789abcdef";
    for (const char *p = named; *p != 0; p += 2) {
        if (c == (unsigned char)p[0]) {
            out[0] = '\\';
            out[1] = p[1];
            return 2;
        }
    }
    if (c >= 0x20 && c != 0x7f)
        return 0;
    memcpy(out, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    return 6;
}

/* Appends the special character at p; returns its bytes. */
static size_t append_special(struct zc_text *t, const unsigned char *p)
{
    int length = utf8_sequence(p);
    char escaped[6];
    size_t n = length == 1 ? json_escape(*p, escaped) : 0;
    size_t cost = length < 0 ? 3 : n > 0 ? n : (size_t)length;
    if (t->len + cost >= t->cap)
        t->truncated = true;
    else if (length < 0)
        zc_text_raw(t, "\xef\xbf\xbd", 3);
    else
        zc_text_raw(t, n > 0 ? escaped : (const char *)p, cost);
    return (size_t)(length < 0 ? -length : length);
}

/* Bytes that need no escape: most strings have no others. */
static const bool plain[256] = {
    [0x20 ... '"' - 1] = true,
    ['"' + 1 ... '\\' - 1] = true,
    ['\\' + 1 ... 0x7e] = true,
};

/* Copies leading plain bytes that fit, and returns where they end.  Only the caller knows whether
 * more follows, that is whether the text is truncated. */
static const unsigned char *append_plain(struct zc_text *t, const unsigned char *p)
{
    char *out = t->buf + t->len;
    const char *end = t->buf + t->cap - 1; /* One byte stays free for the terminator. */

    while (plain[*p] && out < end)
        *out++ = (char)*p++;
    t->len = (size_t)(out - t->buf);
    return p;
}

void zc_text_json(struct zc_text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    while (!t->truncated) {
        p = append_plain(t, p);
        if (*p == 0)
            return;
        if (plain[*p])
            t->truncated = true;
        else
            p += append_special(t, p);
    }
}
