/* SPDX-License-Identifier: MIT */
/*
 * Numbers, sizes and site ids. strtoull(3) takes signs, blanks and the locale into account, none
 * of which belongs in policy.conf.
 */
#include "internal.h"

static const char too_large[] = "is too large";

/* The value of a digit of the base, or a value >= base. */
static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return UINT32_MAX;
}

/* Reads the digits at the start of the text. Returns how many there are, and a number only if it
 * did not overflow. */
static size_t read_digits(struct zc_slice text, unsigned base, uint64_t *number_out, bool *overflow)
{
    uint64_t number = 0;
    size_t n = 0;

    *overflow = false;
    for (; n < text.n; n++) {
        unsigned digit = digit_value(text.at[n]);

        if (digit >= base)
            break;
        *overflow |= __builtin_mul_overflow(number, base, &number);
        *overflow |= __builtin_add_overflow(number, digit, &number);
    }
    *number_out = number;
    return n;
}

const char *zc_number_decimal(struct zc_slice text, uint64_t *out)
{
    bool overflow;
    size_t n = read_digits(text, 10, out, &overflow);

    if (n == 0 || n < text.n)
        return "is not a number";
    return overflow ? too_large : NULL;
}

/* A call-path id as the log prints it: up to 8 hexadecimal digits, with or without 0x. */
const char *zc_number_site(struct zc_slice text, uint64_t *out)
{
    bool overflow;

    if (text.n > 2 && text.at[0] == '0' && (text.at[1] == 'x' || text.at[1] == 'X')) {
        text.at += 2;
        text.n -= 2;
    }
    size_t n = read_digits(text, 16, out, &overflow);
    if (n == 0 || n < text.n || n > 8)
        return "is not a site id: up to 8 hexadecimal digits";
    return NULL;
}

/* Digits and a unit that is a power of 1024. */
const char *zc_number_size(struct zc_slice text, uint64_t *out)
{
    static const char units[] = "KMGT";
    bool overflow;
    size_t n = read_digits(text, 10, out, &overflow);
    unsigned shift = 0;

    if (n == 0 || text.n - n > 1)
        return "is not a size: digits, then K, M, G, T or nothing";
    if (n < text.n) {
        while (units[shift / 10] != text.at[n]) {
            shift += 10;
            if (units[shift / 10] == '\0')
                return "is not a size: the units are K, M, G and T";
        }
        shift += 10;
    }
    if (overflow || *out > UINT64_MAX >> shift)
        return too_large;
    *out <<= shift;
    return NULL;
}

bool zc_size_from_text(const char *text, size_t n, uint64_t *out)
{
    uint64_t size;

    if (zc_number_size((struct zc_slice){text, n}, &size) != NULL)
        return false;
    *out = size;
    return true;
}

uint64_t zc_limit_bytes(struct zc_limit limit, uint64_t whole)
{
    switch (limit.kind) {
    case ZC_LIMIT_BYTES:
        return limit.value;
    case ZC_LIMIT_PERCENT: /* in two parts, because whole * 100 may overflow */
        return whole / 100 * limit.value + whole % 100 * limit.value / 100;
    case ZC_LIMIT_NONE:
        break;
    }
    return UINT64_MAX;
}
