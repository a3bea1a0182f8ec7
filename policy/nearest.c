/* SPDX-License-Identifier: MIT */
/*
 * The nearest known word to a misspelt one.
 */
#include <string.h>

#include "internal.h"

/* Longer words are compared with nothing: no known word comes near to them. */
#define WORD_MAX 40

#define DISTANCE_MAX 3

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * Damerau-Levenshtein distance, restricted to swaps of neighbours: how many letters must be
 * inserted, deleted, replaced or swapped. Upper and lower case are one. Both words must not be
 * longer than WORD_MAX, else the distance is UINT32_MAX.
 */
unsigned zc_nearest_distance(struct zc_slice a, struct zc_slice b)
{
    unsigned rows[3][WORD_MAX + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];

    if (a.n > WORD_MAX || b.n > WORD_MAX)
        return UINT32_MAX;
    memset(rows, 0, sizeof rows);
    for (size_t j = 0; j <= b.n; j++)
        above[j] = (unsigned)j;
    for (size_t i = 1; i <= a.n; i++) {
        unsigned *spare = before;

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b.n; j++) {
            char x = lower(a.at[i - 1]), y = lower(b.at[j - 1]);

            row[j] = min(min(above[j] + 1, row[j - 1] + 1), above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b.at[j - 2]) && y == lower(a.at[i - 2]))
                row[j] = min(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = spare;
    }
    return above[b.n];
}

void zc_nearest_start(struct zc_nearest *nearest, struct zc_slice word)
{
    nearest->word = word;
    nearest->best = NULL;
    nearest->distance = DISTANCE_MAX + 1;
}

/* Of words of the same distance the first one offered stays. Short words must be nearer: with half
 * of its letters changed, a word is another word. */
void zc_nearest_offer(struct zc_nearest *nearest, const char *candidate)
{
    struct zc_slice other = zc_slice_of(candidate);
    size_t longer = other.n > nearest->word.n ? other.n : nearest->word.n;
    unsigned distance = zc_nearest_distance(nearest->word, other);

    if (distance < nearest->distance && (size_t)distance * 2 < longer) {
        nearest->distance = distance;
        nearest->best = candidate;
    }
}

/* The nearest of a table of words, or NULL. */
const char *zc_nearest_word(struct zc_slice word, const struct zc_word *words)
{
    struct zc_nearest nearest;

    zc_nearest_start(&nearest, word);
    for (; words->name != NULL; words++)
        zc_nearest_offer(&nearest, words->name);
    return nearest.best;
}

const char *zc_policy_nearest(const char *word, const char *const *words, size_t n)
{
    struct zc_nearest nearest;

    zc_nearest_start(&nearest, zc_slice_of(word));
    for (size_t i = 0; i < n; i++)
        zc_nearest_offer(&nearest, words[i]);
    return nearest.best;
}
