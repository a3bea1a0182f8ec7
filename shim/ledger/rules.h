/* SPDX-License-Identifier: MIT */
/* The policy in force: read once, by libc's first large request or the first CUDA call. */
#pragma once

#include <stdbool.h>

#include "policy/policy.h"

/*
 * Reads the environment variables and the policy file, unless that was done.  What it faults is
 * held until libzc starts (base/message.h).  Creates nothing, starts nothing, and allocates by
 * mmap(2) alone: it runs inside malloc.  Waits for another thread that is at it.  False in a signal
 * handler that interrupted it; then there are no rules yet.
 */
bool zc_rules_load(void);

/* The policy; without a file one without rules.  Constant once zc_rules_load() was true. */
extern struct zc_policy zc_rules_read; /* Only rules.c writes it. */
static inline const struct zc_policy *zc_rules(void)
{
    return &zc_rules_read;
}

/* Path of the policy file; NULL if there is none or it was refused. */
const char *zc_rules_path(void);

/* The rule that matches a request, or NULL.  Looks up what the policy needs beyond the request's
 * own fields: module and id of the site (an index of ledger/site.h), program and thread, and
 * whether an array on the device has grown. */
const struct zc_rule *zc_rules_match(struct zc_match *request, uint32_t site);

/* An array on the device has grown: rules with `grown` match from now on. */
void zc_rules_grown(void);

/* True while a thread reads the policy, and once a policy with rules was read: requests may
 * match. */
bool zc_rules_in_use(void);
