/* SPDX-License-Identifier: MIT */
/* ZC_POLICY=auto learns within a run (docs/auto.md): blocks that a call path has freed decide
 * for its next ones, by their bytes.  No call path costs more than the registrations of two of its
 * blocks, and of ever fewer. */
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

/* False for small ones under a profile while blocks leave many bytes of their pages unused. */
bool zc_lessons_may_round(size_t size);
