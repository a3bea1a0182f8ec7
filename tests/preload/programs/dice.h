/* SPDX-License-Identifier: MIT */
/* Chance that a seed repeats, of one thread: what the random programs throw. */
#ifndef TESTS_PRELOAD_DICE_H
#define TESTS_PRELOAD_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static __thread uint64_t dice; /* The seed at first. */

static inline unsigned below(size_t n)
{
    dice = dice * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((dice >> 33) % n);
}

static inline bool one_in(unsigned n)
{
    return below(n) == 0;
}

/* The actions that a step may take, and how often it takes each among the others. */
struct choice {
    void (*run)(void);
    unsigned weight;
};

static inline const struct choice *chosen(const struct choice *choices, size_t count)
{
    unsigned total = 0, at;
    for (size_t i = 0; i < count; i++)
        total += choices[i].weight;
    for (at = below(total); at >= choices->weight; choices++)
        at -= choices->weight;
    return choices;
}

#endif
