/* SPDX-License-Identifier: MIT */
/* Requests that no rule took, kept while the policy has taken nothing at all: what a person who
 * wrote the policy needs to know then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

struct zc_missed {
    uint64_t requests;          /* All that no rule took; heap requests that are smaller than every
                                 * rule for them are not seen. */
    const struct zc_rule *rule; /* Of the nearest request: the rule that it comes nearest to, which
                                 * has the fewest match keys that do not fit; NULL: no request. */
    unsigned misfits;           /* Match keys of the rule that do not fit. */
    enum zc_api api;            /* The nearest request: of several the largest. */
    size_t size;                /* Bytes that it asked for. */
    uint32_t site;              /* Index of its site (ledger/site.h); 0 where not looked up. */
    char misfit[200]; /* The first key that does not fit, as in the file: "size = 16M..". */
};

/* A request was matched: `taken` by a rule, or by none.  For any thread and in signal handlers,
 * where a request may be missed. */
void zc_missed_note(const struct zc_policy *policy, const struct zc_match *request, uint32_t site,
                    bool taken);

/* True if there are rules and none of them took anything; then *missed is filled in. */
bool zc_missed_all(const struct zc_policy *policy, struct zc_missed *missed);
