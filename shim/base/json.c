/* Text of unknown encoding as the inside of a JSON string (RFC 8259). */
#include "base/text.h"

#include <string.h>

/* Well-formed UTF-8 by lead byte (Unicode 15, table 3-7): what may follow it. */
struct utf8_lead {
    unsigned char first, last; /* Range of the lead byte. */
    unsigned char low, high;   /* Range of the second byte; further ones are 80..BF. */
    unsigned char length;      /* Bytes of the sequence. */
};

static const struct utf8_lead leads[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

/* Length of the sequence at s; negative for the length of a part that can't be completed, which one
 * U+FFFD replaces. */
static int sequence(const unsigned char *s)
{
    const struct utf8_lead *lead = NULL;

    for (size_t i = 0; i < sizeof(leads) / sizeof(leads[0]); i++)
        if (*s >= leads[i].first && *s <= leads[i].last)
            lead = &leads[i];
    if (lead == NULL)
        return *s < 0x80 ? 1 : -1;
    if (s[1] < lead->low || s[1] > lead->high)
        return -1;
    for (int i = 2; i < lead->length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return -i;
    return lead->length;
}

/* Writes the escape of an ASCII byte into out[6]; returns its length, 0 where none is needed. */
static size_t escape(unsigned char c, char out[6])
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

/* Appends the character at p, which is not plain; returns the bytes of it. */
static size_t append_special(struct zc_text *t, const unsigned char *p)
{
    int length = sequence(p);
    char escaped[6];
    size_t n = length == 1 ? escape(*p, escaped) : 0;
    size_t cost = length < 0 ? 3 : n > 0 ? n : (size_t)length;

    if (t->len + cost >= t->cap)
        t->truncated = true;
    else if (length < 0)
        zc_text_raw(t, "\xef\xbf\xbd", 3);
    else
        zc_text_raw(t, n > 0 ? escaped : (const char *)p, cost);
    return (size_t)(length < 0 ? -length : length);
}

/* Bytes that stand for themselves: most strings have no others. */
static const bool plain[256] = {
    [0x20 ... '"' - 1] = true,
    ['"' + 1 ... '\\' - 1] = true,
    ['\\' + 1 ... 0x7e] = true,
};

/* Copies leading plain bytes, as many as fit; returns where they end.  The text may be full
 * without more to come, so that only its caller knows whether it is truncated. */
static const unsigned char *append_plain(struct zc_text *t, const unsigned char *p)
{
    char *out = t->buf + t->len;
    const char *end = t->buf + t->cap - 1; /* A byte stays free for zc_text_cstr(). */

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
