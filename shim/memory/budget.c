/* SPDX-License-Identifier: MIT */
/* Budgets: the most bytes of a rule that may be alive in its first place. */
#include "memory/budget.h"

#include "ledger/rules.h"
#include "memory/limits.h"
#include "memory/quota.h"

static uint64_t budget_of(const struct zc_rule *rule, int device)
{
    bool percent = rule->budget.kind == ZC_LIMIT_PERCENT;
    return zc_limit_bytes(rule->budget, percent ? zc_limits_whole(device) : 0);
}

bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    return rule->budget.kind == ZC_LIMIT_NONE ||
           zc_quota_add(&rule->counters->alive, bytes, budget_of(rule, device));
}

uint64_t zc_budget_left(const struct zc_rule *rule, int device)
{
    uint64_t most = budget_of(rule, device);
    uint64_t alive = __atomic_load_n(&rule->counters->alive, __ATOMIC_RELAXED);
    return rule->budget.kind == ZC_LIMIT_NONE ? UINT64_MAX : alive < most ? most - alive : 0;
}

void zc_budget_give(const struct zc_rule *rule, uint64_t bytes)
{
    if (rule->budget.kind != ZC_LIMIT_NONE)
        __atomic_fetch_sub(&rule->counters->alive, bytes, __ATOMIC_RELAXED);
}

static const struct zc_rule *budget_rule(const struct zc_block *block)
{
    bool counts = (block->flags & ZC_BLOCK_BUDGET) && block->rule >= 0;
    return counts ? &zc_rules()->rules[block->rule] : NULL;
}

void zc_budget_return(const struct zc_block *block)
{
    const struct zc_rule *rule = budget_rule(block);
    if (rule)
        zc_budget_give(rule, block->size - zc_block_spilled(block));
}

void zc_budget_restore(const struct zc_block *block)
{
    const struct zc_rule *rule = budget_rule(block);
    if (rule)
        zc_budget_give(rule, zc_block_spilled(block) - block->size);
}
