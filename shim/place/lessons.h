/* SPDX-License-Identifier: MIT */
/*
 * What ZC_POLICY=auto learns within a run: blocks that a call path has freed decide for its next
 * ones, by their bytes.  Those from the size of the profile's rule on are placed, until some were
 * registered in vain; smaller ones are libc's, until some that were tried have paid.  Of what is
 * libc's the first two, the 16th, 32nd and so on are tried.  So no call path costs more than the
 * registrations of two of its blocks, and of ever fewer.  What a rule of the file names is left to
 * it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* Below, copies gain too little for what a registration takes. */
#define ZC_LESSONS_LEAST ((size_t)1 << 20)

/* From here on blocks fill most of their pages. */
#define ZC_LESSONS_MOST ((size_t)16 << 20)

/* Called once CUDA is up, and rules place blocks of libc.  True if smaller ones are tried. */
bool zc_lessons_start(void);

/* Whether the call path of a request of libc's may say otherwise than `rule`, that of the file for
 * it, NULL: none.  For any thread. */
bool zc_lessons_concern(const struct zc_rule *rule, enum zc_api api, size_t size);

/* The rule that it gets, by the index of its site; NULL: libc has it. */
const struct zc_rule *zc_lessons_rule(const struct zc_rule *rule, size_t size, uint32_t site);

/* The program frees the block of the host heap at `p`, which the ledger still has. */
void zc_lessons_end(const void *p);

/* Whether a block of that size may be placed: under a profile small ones are left to libc while the
 * pages that are registered with others, and that they do not fill, have many bytes. */
bool zc_lessons_may_round(size_t size);

/* A block has, or with `sign` -1 no longer has, `room` bytes of the host heap.  For any thread. */
void zc_lessons_round(int sign, size_t size, size_t room);
