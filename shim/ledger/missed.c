/* SPDX-License-Identifier: MIT */
/* The request that came nearest to a rule, of those that none took. */
#include "ledger/missed.h"

#include "base/lock.h"
#include "base/own.h"

static ZC_LOCK(missed_lock, ZC_RANK_MISSED);
static ZC_OWN struct {
    struct zc_missed all;
    bool taken; /* A rule took a request.  Atomic. */
} missed_now;

static bool missed_nearer(unsigned misfits, size_t size)
{
    return !missed_now.all.rule || misfits < missed_now.all.misfits ||
           (misfits == missed_now.all.misfits && size > missed_now.all.size);
}

static void missed_compare(const struct zc_rule *rule, const struct zc_match *request,
                           uint32_t site)
{
    unsigned misfits = zc_rule_misfits(rule, request, NULL, 0);
    if (!missed_nearer(misfits, request->size))
        return;
    missed_now.all = (struct zc_missed){missed_now.all.requests, rule, misfits, request->api,
                                        request->size,           site, ""};
    zc_rule_misfits(rule, request, missed_now.all.misfit, sizeof(missed_now.all.misfit));
}

void zc_missed_note(const struct zc_policy *policy, const struct zc_match *request, uint32_t site,
                    bool taken)
{
    if (__atomic_load_n(&missed_now.taken, __ATOMIC_RELAXED))
        return;
    if (taken) {
        __atomic_store_n(&missed_now.taken, true, __ATOMIC_RELAXED);
    } else if (zc_lock_take(&missed_lock)) {
        missed_now.all.requests++;
        for (size_t i = 0; i < policy->rule_count; i++)
            missed_compare(&policy->rules[i], request, site);
        zc_lock_drop(&missed_lock);
    }
}

bool zc_missed_all(const struct zc_policy *policy, struct zc_missed *missed)
{
    if (policy->rule_count == 0 || __atomic_load_n(&missed_now.taken, __ATOMIC_RELAXED) ||
        !zc_lock_take(&missed_lock))
        return false;
    *missed = missed_now.all;
    zc_lock_drop(&missed_lock);
    return true;
}
