/* SPDX-License-Identifier: MIT */
/*
 * The level `deep` of the log: what copies carried, and what became of it.  Device blocks are cut
 * into pages of 2 MiB, and the bytes of every copy between one and host memory are hashed page by
 * page.  The calls below do nothing at other levels; callers ask for the level first where they ask
 * for it anyway.
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

/* One whose bytes nobody sees: a node of a graph, or a copy that libzc makes later. */
void zc_deep_hidden(const struct zc_block *dst, uint64_t to, const struct zc_block *src,
                    uint64_t from, uint64_t bytes);
