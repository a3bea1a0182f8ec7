/* SPDX-License-Identifier: MIT */
/* The policy in force: read once, by libc's first large request or the first CUDA call. */
#ifndef ZC_LEDGER_RULES_H
#define ZC_LEDGER_RULES_H

#include <stdbool.h>

#include "policy/policy.h"

/*
 * Reads the environment variables and the policy file, unless that was done.  Says nothing, creates
 * nothing, starts nothing, and allocates by mmap(2) alone: it runs inside malloc.  Waits for
 * another thread that is at it.  False in a signal handler that interrupted it; then there are no
 * rules yet.
 */
bool zc_rules_load(void);

/* Says what is wrong with the policy that was read. */
void zc_rules_announce(void);

/* The policy; one without rules where there is no file.  Constant once zc_rules_load() was true. */
const struct zc_policy *zc_rules(void);

/* Path of the policy file, NULL where there is none or it was refused. */
const char *zc_rules_path(void);

/* The rule that takes a request, or NULL.  Finds out what the policy asks for beyond the request's
 * own fields: module and id of the site (an index of ledger/site.h), program and thread. */
const struct zc_rule *zc_rules_match(struct zc_request *request, uint32_t site);

/* Whether a thread is reading the policy, or has read one with rules: requests may be matched. */
bool zc_rules_in_use(void);

#endif
