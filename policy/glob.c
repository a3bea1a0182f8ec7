/* SPDX-License-Identifier: MIT */
/*
 * Glob patterns over bytes: * any run, ? any byte, [a-z] and [!a-z] classes. fnmatch(3) reads the
 * locale and may allocate, so it has no place here.
 */
#include "internal.h"

static struct zc_slice after(struct zc_slice text, size_t n)
{
    return (struct zc_slice){text.at + n, text.n - n};
}

/* Bytes of the element at the start of a pattern that is not empty: a class or a single byte. */
static size_t element_length(struct zc_slice p)
{
    size_t n = 1;

    if (p.at[0] != '[')
        return 1;
    if (n < p.n && (p.at[n] == '!' || p.at[n] == '^'))
        n++;
    if (n < p.n && p.at[n] == ']') /* a class cannot be empty, so the bracket is a member */
        n++;
    while (n < p.n && p.at[n] != ']')
        n++;
    return n < p.n ? n + 1 : 1;
}

/* The members of a class, brackets included, without negation. */
static struct zc_slice class_members(struct zc_slice class, bool *negated_out)
{
    *negated_out = class.at[1] == '!' || class.at[1] == '^';
    return (struct zc_slice){class.at + 1 + *negated_out, class.n - 2 - *negated_out};
}

/* Takes the next member off: a byte or a range of bytes. */
static bool next_member(struct zc_slice *members, unsigned char *low_out, unsigned char *high_out)
{
    size_t n = members->n > 2 && members->at[1] == '-' ? 3 : 1;

    if (members->n == 0)
        return false;
    *low_out = (unsigned char)members->at[0];
    *high_out = (unsigned char)members->at[n - 1];
    *members = after(*members, n);
    return true;
}

static bool class_holds(struct zc_slice class, char c)
{
    bool negated, found = false;
    unsigned char byte = (unsigned char)c, low, high;
    struct zc_slice members = class_members(class, &negated);

    while (next_member(&members, &low, &high))
        found |= byte >= low && byte <= high;
    return found != negated;
}

/* Why a pattern cannot be meant, or NULL. */
const char *zc_glob_fault(struct zc_slice pattern)
{
    for (size_t n; pattern.n > 0; pattern = after(pattern, n)) {
        bool negated;
        unsigned char low, high;

        n = element_length(pattern);
        if (pattern.at[0] != '[')
            continue;
        if (n == 1)
            return "'[' without ']'";
        struct zc_slice members = class_members((struct zc_slice){pattern.at, n}, &negated);
        while (next_member(&members, &low, &high)) {
            if (low > high)
                return "reversed range between '[' and ']'";
        }
    }
    return NULL;
}

bool zc_glob_has_wildcard(struct zc_slice pattern)
{
    for (size_t i = 0; i < pattern.n; i++) {
        if (pattern.at[i] == '*' || pattern.at[i] == '?' || pattern.at[i] == '[')
            return true;
    }
    return false;
}

/* Whether element a takes every byte that element b stands for; a is no '*'. */
static bool element_covers(struct zc_slice a, struct zc_slice b, bool b_is_pattern)
{
    if (b_is_pattern && b.at[0] == '*')
        return false;
    if (a.at[0] == '?')
        return true;
    if (b_is_pattern && b.at[0] == '?')
        return false;
    if (b.n > 1) {
        bool same = a.n == b.n;

        for (size_t i = 0; same && i < a.n; i++)
            same = a.at[i] == b.at[i];
        return same;
    }
    return a.n > 1 ? class_holds(a, b.at[0]) : a.at[0] == b.at[0];
}

/*
 * Whether a matches b, b being a text or a pattern. After a mismatch only the last '*' needs to
 * take one element more, so that no pattern costs more than the product of the lengths.
 */
static bool glob_run(struct zc_slice a, struct zc_slice b, bool b_is_pattern)
{
    struct zc_slice star = {NULL, 0}, resume = b;

    while (b.n > 0) {
        size_t na = a.n > 0 ? element_length(a) : 0;
        size_t nb = b_is_pattern ? element_length(b) : 1;

        if (a.n > 0 && a.at[0] == '*') {
            a = after(a, 1);
            star = a;
            resume = b;
        } else if (na > 0 && element_covers((struct zc_slice){a.at, na},
                                            (struct zc_slice){b.at, nb}, b_is_pattern)) {
            a = after(a, na);
            b = after(b, nb);
        } else if (star.at != NULL) {
            resume = after(resume, b_is_pattern ? element_length(resume) : 1);
            a = star;
            b = resume;
        } else {
            return false;
        }
    }
    while (a.n > 0 && a.at[0] == '*')
        a = after(a, 1);
    return a.n == 0;
}

bool zc_glob_match(struct zc_slice pattern, struct zc_slice text)
{
    return glob_run(pattern, text, false);
}

/* Whether pattern matches everything that `other` matches. May say no where the answer is yes
 * (classes are compared as text), never the reverse. */
bool zc_glob_covers(struct zc_slice pattern, struct zc_slice other)
{
    return glob_run(pattern, other, true);
}

/* Bytes of the shortest text that a pattern matches. */
size_t zc_glob_shortest(struct zc_slice pattern)
{
    size_t shortest = 0;

    for (; pattern.n > 0; pattern = after(pattern, element_length(pattern)))
        shortest += pattern.at[0] != '*';
    return shortest;
}
