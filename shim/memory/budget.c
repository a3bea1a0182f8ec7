/* SPDX-License-Identifier: MIT */
/* Budgets: the most bytes of a rule that may be alive in its first place. */
#include "memory/budget.h"

#include "driver/real.h"
#include "ledger/rules.h"

uint64_t zc_budget_of(const struct zc_rule *rule, int device)
{
    size_t total = 0;
    if (rule->budget.kind == ZC_LIMIT_NONE)
        return UINT64_MAX;
    if (rule->budget.kind == ZC_LIMIT_PERCENT)
        zc_real.cuDeviceTotalMem_v2(&total, device);
    return zc_limit_bytes(rule->budget, total);
}

bool zc_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    if (rule->budget.kind == ZC_LIMIT_NONE)
        return true;
    uint64_t most = zc_budget_of(rule, device);
    uint64_t alive = atomic_load_explicit(&rule->counters->alive, memory_order_relaxed);
    do {
        if (bytes > most || alive > most - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&rule->counters->alive, &alive, alive + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

uint64_t zc_budget_left(const struct zc_rule *rule, int device)
{
    uint64_t most = zc_budget_of(rule, device);
    uint64_t alive = atomic_load_explicit(&rule->counters->alive, memory_order_relaxed);
    return rule->budget.kind == ZC_LIMIT_NONE ? UINT64_MAX : alive < most ? most - alive : 0;
}

void zc_budget_give(const struct zc_rule *rule, uint64_t bytes)
{
    if (rule->budget.kind != ZC_LIMIT_NONE)
        atomic_fetch_sub_explicit(&rule->counters->alive, bytes, memory_order_relaxed);
}

static const struct zc_rule *counted(const struct zc_block *block)
{
    bool counts = (block->flags & ZC_BLOCK_BUDGET) && block->rule >= 0;
    return counts ? &zc_rules()->rules[block->rule] : NULL;
}

void zc_budget_return(const struct zc_block *block)
{
    const struct zc_rule *rule = counted(block);
    if (rule)
        zc_budget_give(rule, block->size - zc_block_spilled(block));
}

void zc_budget_restore(const struct zc_block *block)
{
    const struct zc_rule *rule = counted(block);
    if (rule)
        zc_budget_give(rule, zc_block_spilled(block) - block->size);
}
