/* SPDX-License-Identifier: MIT */
/* Shared by the ledger's test programs. */
#ifndef TESTS_UNIT_LEDGER_TEST_H
#define TESTS_UNIT_LEDGER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/own.h"
#include "ledger/block.h"
#include "ledger/site.h"
#include "ledger/site_path.h"
#include "ledger/traffic.h"
#include "ledger/counters.h"

/* An empty ledger over private counters. */
static inline int ledger_setup(void **state)
{
    (void)state;
    zc_own_forget();
    zc_site_path_reset();
    zc_traffic_reset();
    if (!zc_counters_open(NULL))
        return -1;
    zc_counters_reset();
    return 0;
}

/* A block of `size` bytes at `base`, added. */
static inline struct zc_block *ledger_add(uint64_t base, uint64_t size)
{
    const struct zc_block like = {.base = base, .size = size};
    struct zc_block *block = zc_block_add(&like);

    assert_non_null(block);
    return block;
}

static inline void ledger_free(struct zc_block *block)
{
    assert_true(zc_block_claim(block));
    zc_block_remove(block);
}

/* xorshift64: the same numbers in each run. */
static inline uint64_t ledger_draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
