/* SPDX-License-Identifier: MIT */
/* Budgets: the most bytes of a rule that may be alive in its first place. */
#include "memory/budget.h"

#include "ledger/rules.h"
#include "memory/limits.h"
#include "memory/quota.h"

uint64_t zc_budget_most(const struct zc_rule *rule, int device)
{
    bool percent = rule->budget.kind == ZC_LIMIT_PERCENT;
    return zc_limit_bytes(rule->budget, percent ? zc_limits_whole(device) : 0);
}

bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    return rule->budget.kind == ZC_LIMIT_NONE ||
           zc_quota_add(&rule->counters->alive, bytes, zc_budget_most(rule, device));
}

uint64_t zc_budget_left(const struct zc_rule *rule, int device)
{
    uint64_t most = zc_budget_most(rule, device);
    uint64_t alive = __atomic_load_n(&rule->counters->alive, __ATOMIC_RELAXED);
    return rule->budget.kind == ZC_LIMIT_NONE ? UINT64_MAX : alive < most ? most - alive : 0;
}

void zc_budget_give(const struct zc_rule *rule, uint64_t bytes)
{
    if (rule->budget.kind != ZC_LIMIT_NONE)
        __atomic_fetch_sub(&rule->counters->alive, bytes, __ATOMIC_RELAXED);
}

void zc_budget_change(const struct zc_block *block, int sign)
{
    uint64_t bytes = block->size - zc_block_spilled(block);
    if ((block->flags & ZC_BLOCK_BUDGET) && block->rule >= 0)
        zc_budget_give(&zc_rules()->rules[block->rule], sign < 0 ? bytes : -bytes);
}
