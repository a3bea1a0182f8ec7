/* SPDX-License-Identifier: MIT */
/* The request that came nearest to a rule, of those that none took. */
#include "ledger/missed.h"

#include "base/lock.h"
#include "base/own.h"

static ZC_LOCK(lock, ZC_RANK_MISSED);
static ZC_OWN struct zc_missed all;
static ZC_OWN bool something; /* A rule took a request.  Atomic. */

static bool nearer(unsigned misfits, size_t size)
{
    return !all.rule || misfits < all.misfits || (misfits == all.misfits && size > all.size);
}

static void compare(const struct zc_rule *rule, const struct zc_request *request, uint32_t site)
{
    unsigned misfits = zc_rule_misfits(rule, request, NULL, 0);
    if (!nearer(misfits, request->size))
        return;
    all.rule = rule;
    all.misfits = misfits;
    all.api = request->api;
    all.size = request->size;
    all.site = site;
    zc_rule_misfits(rule, request, all.misfit, sizeof(all.misfit));
}

void zc_missed_note(const struct zc_policy *policy, const struct zc_request *request, uint32_t site,
                    bool taken)
{
    if (request->supposed || __atomic_load_n(&something, __ATOMIC_RELAXED))
        return;
    if (taken) {
        __atomic_store_n(&something, true, __ATOMIC_RELAXED);
    } else if (zc_lock_take(&lock)) {
        all.requests++;
        for (size_t i = 0; i < policy->rule_count; i++)
            compare(&policy->rules[i], request, site);
        zc_lock_drop(&lock);
    }
}

bool zc_missed_all(const struct zc_policy *policy, struct zc_missed *missed)
{
    if (policy->rule_count == 0 || __atomic_load_n(&something, __ATOMIC_RELAXED) ||
        !zc_lock_take(&lock))
        return false;
    *missed = all;
    zc_lock_drop(&lock);
    return true;
}
