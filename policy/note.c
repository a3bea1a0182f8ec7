/* SPDX-License-Identifier: MIT */
/*
 * Messages about a policy, made without stdio: vsnprintf may allocate and depends on the locale.
 */
#include <string.h>

#include "internal.h"

/* Bytes of a quoted word that a message shows. */
#define WORD_MAX_SHOWN 48

static void add_char(struct zc_note *message, char c)
{
    if (message->used + 1 < sizeof message->text)
        message->text[message->used++] = c;
    message->text[message->used] = '\0';
}

static void add_string(struct zc_note *message, const char *string)
{
    for (; *string != '\0'; string++)
        add_char(message, *string);
}

static void add_number(struct zc_note *message, uint64_t number, unsigned base, unsigned width)
{
    char digits[24];
    unsigned n = 0;

    do {
        digits[n++] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0 || n < width);
    while (n > 0)
        add_char(message, digits[--n]);
}

/* The word comes from a file that anybody may have written: a terminal must not act on it. */
static void add_word(struct zc_note *message, struct zc_slice word)
{
    add_char(message, '\'');
    for (size_t i = 0; i < word.n; i++) {
        unsigned char c = (unsigned char)word.at[i];

        if (i == WORD_MAX_SHOWN) {
            add_string(message, "...");
            break;
        }
        if (c >= 0x20 && c < 0x7f) {
            add_char(message, (char)c);
        } else {
            add_string(message, "\\x");
            add_number(message, c, 16, 2);
        }
    }
    add_char(message, '\'');
}

static void add_near(struct zc_note *message, const char *hint)
{
    if (hint == NULL)
        return;
    add_string(message, " (nearest: ");
    add_string(message, hint);
    add_char(message, ')');
}

/* Without a known word near it, the message lists all of them. */
static void add_known(struct zc_note *message, struct zc_slice word, const struct zc_word *words)
{
    const char *near = zc_nearest_word(word, words);

    add_near(message, near);
    for (size_t i = 0; near == NULL && words[i].name != NULL; i++) {
        add_string(message, i == 0 ? " (known: " : ", ");
        add_string(message, words[i].name);
        if (words[i + 1].name == NULL)
            add_char(message, ')');
    }
}

void zc_note_set_list(struct zc_note *message, const char *format, va_list args)
{
    const struct zc_slice *word;

    message->used = 0;
    message->text[0] = '\0';
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            add_char(message, *format);
            continue;
        }
        switch (*++format) {
        case '%':
            add_char(message, '%');
            break;
        case 's':
            add_string(message, va_arg(args, const char *));
            break;
        case 'w':
            add_word(message, *va_arg(args, const struct zc_slice *));
            break;
        case 'u':
            add_number(message, va_arg(args, uint64_t), 10, 1);
            break;
        case 'x':
            add_number(message, va_arg(args, uint32_t), 16, 8);
            break;
        case 'h':
            add_near(message, va_arg(args, const char *));
            break;
        case 'k':
            word = va_arg(args, const struct zc_slice *);
            add_known(message, *word, va_arg(args, const struct zc_word *));
            break;
        }
    }
}

void zc_note_set(struct zc_note *message, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    zc_note_set_list(message, format, args);
    va_end(args);
}
