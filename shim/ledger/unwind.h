/* SPDX-License-Identifier: MIT */
/* Walking the calling thread's stack. */
#ifndef ZC_LEDGER_UNWIND_H
#define ZC_LEDGER_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/cfi.h"

#define ZC_WALK_WORDS 26 /* Stack words of a walk that are remembered. */

/*
 * A walk, and what of the stack it read.  Where a walk leads depends on nothing but the frame it
 * starts at and these words: while they are the same, so is the path.
 */
struct zc_walk {
    uint64_t pc;                   /* Return address into the current frame. */
    uint64_t sp;                   /* Its stack pointer at that call (the CFA of its callee). */
    uint64_t fp;                   /* Its frame pointer register then, */
    uint64_t fp_at;                /* and the word that this value was saved in, 0 for none. */
    uint64_t from;                 /* Words below this address are not remembered. */
    uint64_t page;                 /* A page that is known to be readable, 0 for none. */
    uint64_t at[ZC_WALK_WORDS];    /* Addresses of the words, */
    uint64_t value[ZC_WALK_WORDS]; /* and what was there. */
    unsigned words;                /* Words read, which may be more than are remembered. */
};

/*
 * Visits the frames above the one whose frame address is `from`, innermost first, until visit()
 * returns false or the stack ends.  `object` is NULL, and the walk ends there, for a frame in code
 * of no object.  The walk also ends behind a signal trampoline, because what a signal interrupted
 * is not a call path, and at anything that makes no sense: it reads no address that is not mapped.
 * Takes no lock but, with a glibc older than 2.35, the loader's.  Keeps errno.
 */
void zc_unwind(struct zc_walk *walk, uint64_t from,
               bool (*visit)(uint64_t pc, const struct zc_object *object, void *arg), void *arg);

/* Reads a word of the stack and remembers it; false when it is not readable. */
bool zc_walk_read(struct zc_walk *walk, uint64_t address, uint64_t *value_out);

/* Evaluates a DWARF expression (DWARF 5, section 2.5) of the one form that compilers use for frames
 * that realign the stack: register plus offset, what is in memory there, plus a constant. */
bool zc_expr_value(const struct zc_cfi_expr *expr, struct zc_walk *walk, uint64_t *value_out);

#endif
