/* SPDX-License-Identifier: MIT */
/* Calls that gave the program an error because of a rule: many programs go on with wrong data. */
#ifndef ZC_LOG_REFUSALS_H
#define ZC_LOG_REFUSALS_H

#include "base/text.h"
#include "log/line.h"
#include "policy/policy.h"

/* Counts a call that libzc refuses, or that fails because of where a rule put a block, though it
 * would have succeeded without libzc, or whose answer may mislead.  Whoever makes such an error
 * says why by zc_message(), and counts it here.  Async-signal-safe. */
void zc_refusal_count(const struct zc_policy *policy, const struct zc_rule *rule);

uint64_t zc_refusals(void); /* How many there were. */

/* Appends the fields of the summary line. */
void zc_refusals_line(struct zc_line *line);

/* Appends the last line of the exit's summary, nothing where no call was refused. */
void zc_refusals_text(struct zc_text *text);

#endif
