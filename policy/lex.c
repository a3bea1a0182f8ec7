/* SPDX-License-Identifier: MIT */
/*
 * Cutting the text of a policy into lines, and lines into pieces. Bytes are compared as bytes: no
 * locale decides what a blank or a letter is.
 */
#include <string.h>

#include "internal.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

bool zc_slice_is(struct zc_slice text, const char *word)
{
    return strlen(word) == text.n && memcmp(text.at, word, text.n) == 0;
}

struct zc_slice zc_slice_of(const char *string)
{
    return (struct zc_slice){string, strlen(string)};
}

/* Without blanks at both ends. */
struct zc_slice zc_slice_trim(struct zc_slice text)
{
    while (text.n > 0 && is_blank(text.at[0])) {
        text.at++;
        text.n--;
    }
    while (text.n > 0 && is_blank(text.at[text.n - 1]))
        text.n--;
    return text;
}

/* A '#' begins a comment at the start of a line or after a blank, so that file names and patterns
 * may hold one. */
struct zc_slice zc_slice_without_comment(struct zc_slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] == '#' && (i == 0 || is_blank(text.at[i - 1]))) {
            text.n = i;
            break;
        }
    }
    return text;
}

/* Both sides of the first `at`, trimmed. False, and all of the text in *left, if there is none. */
bool zc_slice_split(struct zc_slice text, char at, struct zc_slice *left, struct zc_slice *right)
{
    const char *found = text.n > 0 ? memchr(text.at, at, text.n) : NULL;
    size_t head = found != NULL ? (size_t)(found - text.at) : text.n;

    *left = zc_slice_trim((struct zc_slice){text.at, head});
    *right = (struct zc_slice){text.at + text.n, 0};
    if (found == NULL)
        return false;
    *right = zc_slice_trim((struct zc_slice){found + 1, text.n - head - 1});
    return true;
}

/* The next line of *rest without its LF or CRLF. False at the end of the text. */
bool zc_slice_next_line(struct zc_slice *rest, struct zc_slice *line_out)
{
    const char *end;

    if (rest->n == 0)
        return false;
    end = memchr(rest->at, '\n', rest->n);
    line_out->at = rest->at;
    line_out->n = end != NULL ? (size_t)(end - rest->at) : rest->n;

    size_t taken = line_out->n + (end != NULL ? 1 : 0);
    rest->at += taken;
    rest->n -= taken;
    if (line_out->n > 0 && line_out->at[line_out->n - 1] == '\r')
        line_out->n--;
    return true;
}

/* The next item of a comma list, trimmed; an item may be empty. A list ends with at == NULL. */
bool zc_slice_next_item(struct zc_slice *rest, struct zc_slice *item_out)
{
    struct zc_slice left, right;

    if (rest->at == NULL)
        return false;
    if (!zc_slice_split(*rest, ',', &left, &right))
        right.at = NULL;
    *item_out = left;
    *rest = right;
    return true;
}

size_t zc_slice_item_count(struct zc_slice list)
{
    size_t count = 1;

    for (size_t i = 0; i < list.n; i++)
        count += list.at[i] == ',';
    return count;
}

/* Whether a byte is no text in any encoding that extends ASCII; *at_out is its offset. */
bool zc_slice_has_control(struct zc_slice text, size_t *at_out)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.at[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            *at_out = i;
            return true;
        }
    }
    return false;
}
