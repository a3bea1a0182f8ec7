/* SPDX-License-Identifier: MIT */
/* Quotas: how many bytes something may have. */
#include "memory/quota.h"

#include <stddef.h>

static uint64_t quota_load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

bool zc_quota_add(uint64_t *used, uint64_t bytes, uint64_t most)
{
    uint64_t before = quota_load(used);
    do {
        if (bytes > most || before > most - bytes)
            return false;
    } while (!__atomic_compare_exchange_n(used, &before, before + bytes, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

/* Gives bytes back to a quota and those above it, up to but without `end`. */
static void quota_give_below(struct zc_quota *quota, const struct zc_quota *end, uint64_t bytes)
{
    for (; quota != end; quota = quota->parent)
        __atomic_fetch_sub(&quota->used, bytes, __ATOMIC_RELAXED);
}

bool zc_quota_take(struct zc_quota *quota, uint64_t bytes)
{
    for (struct zc_quota *q = quota; q; q = q->parent)
        if (!zc_quota_add(&q->used, bytes, quota_load(&q->most))) {
            quota_give_below(quota, q, bytes);
            return false;
        }
    return true;
}

void zc_quota_give(struct zc_quota *quota, int64_t bytes)
{
    quota_give_below(quota, NULL, (uint64_t)bytes);
}

uint64_t zc_quota_left(const struct zc_quota *quota)
{
    uint64_t left = UINT64_MAX;
    for (; quota; quota = quota->parent) {
        uint64_t most = quota_load(&quota->most), used = quota_load(&quota->used);
        uint64_t here = most == UINT64_MAX ? most : most > used ? most - used : 0;
        left = here < left ? here : left;
    }
    return left;
}
