/* SPDX-License-Identifier: MIT */
/* Calls that returned an error because of a rule: many programs ignore that and go on with wrong
 * data. */
#pragma once

#include "base/text.h"
#include "log/line.h"
#include "policy/policy.h"

/* Counts a call that libzc refuses, or that fails because of where a rule put a block although it
 * would succeed without libzc, or whose answer may mislead.  Code that makes such an error reports
 * it by zc_message(), and counts it here.  Async-signal-safe. */
void zc_refusal_count(const struct zc_policy *policy, const struct zc_rule *rule);

/* Appends the fields of the summary line. */
void zc_refusals_line(struct zc_line *line);

/* Appends the last line of the exit summary; nothing if no call was refused. */
void zc_refusals_text(struct zc_text *text);
