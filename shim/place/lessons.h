/* SPDX-License-Identifier: MIT */
/*
 * What ZC_POLICY=auto learns within a run: blocks that a call path has freed decide for its next
 * ones, by their bytes.  Those from the size of the profile's rule on are placed, until some were
 * registered in vain; smaller ones are libc's, until some that were tried have paid.  One in
 * sixteen is always as the others are not.  So no call path costs more than the registrations of
 * two of its blocks, and of every sixteenth.  What a rule of the file names is left to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "place/hostmem.h"

/* Called once CUDA is up, and rules place blocks of libc.  True if smaller ones are tried. */
bool zc_lessons_start(void);

/* The rule that a request gets: `rule`, that of the file, or what its call path has taught; NULL
 * for none.  For any thread. */
const struct zc_rule *zc_lessons_rule(const struct zc_rule *rule,
                                      const struct zc_hostmem_request *request, uint32_t *site);

/* The program frees the block of the host heap at `p`, which the ledger still has. */
void zc_lessons_end(const void *p);
