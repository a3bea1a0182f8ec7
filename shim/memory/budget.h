/* SPDX-License-Identifier: MIT */
/* Budgets: the most bytes of a rule that may be alive in its first place. */
#pragma once

#include "ledger/block.h"
#include "policy/policy.h"

/* Counts a request that goes to the first place of its rule.  Returns false, and counts nothing, if
 * it would exceed the rule's budget.  Always true for rules without a budget.  A percentage is of
 * zc_limits_whole(). */
bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes);

/* Bytes of a budget, and those that it leaves; UINT64_MAX without one. */
uint64_t zc_budget_most(const struct zc_rule *rule, int device);
uint64_t zc_budget_left(const struct zc_rule *rule, int device);

/* Takes back a counted request that was not made. */
void zc_budget_give(const struct zc_rule *rule, uint64_t bytes);

/* A block enters the ledger again, or leaves it (`sign` < 0); only those with ZC_BLOCK_BUDGET
 * count. */
void zc_budget_change(const struct zc_block *block, int sign);
