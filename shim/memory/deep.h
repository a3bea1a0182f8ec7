/* SPDX-License-Identifier: MIT */
/*
 * The level `deep` of the log: whether copies between device blocks and host memory carried the
 * same bytes as the copy before.  The bytes of a copy are hashed as a whole.  The calls below do
 * nothing at other levels; callers ask for the level first where they ask for it anyway.
 */
#pragma once

#include "driver/copy.h"
#include "log/log.h"

static inline bool zc_deep(void)
{
    return __builtin_expect(zc_log_level() == ZC_LOG_DEEP, 0);
}

/* A block was entered into the ledger, or is about to leave it. */
void zc_deep_born(const struct zc_block *block);
void zc_deep_gone(const struct zc_block *block);

/* A transfer has succeeded as far as its call tells. */
void zc_deep_copy(const struct zc_copy *c);

/* Bytes that nobody hashes are written: by a set, a node of a graph, or a copy that libzc makes
 * later.  `block` may be NULL. */
void zc_deep_written(const struct zc_block *block, uint64_t address, uint64_t bytes);
