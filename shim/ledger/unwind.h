/* SPDX-License-Identifier: MIT */
/* Walks the calling thread's stack. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/object.h"

#define ZC_WALK_WORDS 26 /* Stack words of a walk that are stored. */

/*
 * A walk, and the stack words that it read.  The path depends only on the first frame and these
 * words: while they are unchanged, so is the path.
 */
struct zc_walk {
    uint64_t pc;                   /* Return address into the current frame. */
    uint64_t sp;                   /* Its stack pointer there: the callee's CFA. */
    uint64_t fp;                   /* Its frame pointer register then, */
    uint64_t fp_at;                /* and the word that this value was saved in, 0 for none. */
    uint64_t from;                 /* Words below this address are not stored. */
    uint64_t page;                 /* A page known to be readable; 0 for none. */
    bool whole;                    /* The walk came to the outermost frame. */
    uint64_t at[ZC_WALK_WORDS];    /* Addresses of the words, */
    uint64_t value[ZC_WALK_WORDS]; /* and what was there. */
    unsigned words;                /* Number of words read; may exceed those stored. */
};

/*
 * Visits the frames above the one at frame address `from`, innermost first, until visit() returns
 * false or the stack ends.  For a frame in code of no object `object` is NULL, and the walk ends.
 * It also ends after a signal trampoline, because what a signal interrupted is not a call path, and
 * at anything invalid: it reads only mapped addresses.  Takes no lock, except the loader's if glibc
 * is older than 2.35.  Keeps errno.
 */
void zc_unwind(struct zc_walk *walk, uint64_t from,
               bool (*visit)(uint64_t pc, const struct zc_object *object, void *arg), void *arg);

/* For functions that read frames of other functions, to which sanitizers would object. */
#if defined(__clang__)
#define ZC_READS_FRAMES __attribute__((no_sanitize("address", "thread", "memory")))
#else
#define ZC_READS_FRAMES __attribute__((no_sanitize("address"), no_sanitize("thread")))
#endif

/* True if a word can be read at this address.  Keeps errno. */
bool zc_readable(uint64_t address);
