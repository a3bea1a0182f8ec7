/* SPDX-License-Identifier: MIT */
/* Quotas: how many bytes something may have.  They form trees: what one holds, those above it hold
 * as well. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Counters are atomic.  No lock is needed, and calls may come from signal handlers. */
struct zc_quota {
    struct zc_quota *parent; /* NULL at the top.  Constant. */
    uint64_t most;           /* Bytes; UINT64_MAX: no limit. */
    uint64_t used;           /* Bytes held now. */
};

/* Adds bytes to a counter, unless it would exceed `most`. */
bool zc_quota_add(uint64_t *used, uint64_t bytes, uint64_t most);

/* Takes bytes from a quota and all above it.  False, and nothing is taken, if one of them would
 * exceed what it may have. */
bool zc_quota_take(struct zc_quota *quota, uint64_t bytes);

/* Gives bytes back; less than 0: counts what is there already, whatever the limits are. */
void zc_quota_give(struct zc_quota *quota, int64_t bytes);

/* Bytes that may still be taken; 0 where more is held than may be. */
uint64_t zc_quota_left(const struct zc_quota *quota);
