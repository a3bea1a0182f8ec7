/* SPDX-License-Identifier: MIT */
/* How much kernels use device blocks that are ONE: once they owe more than the move
 * (memory/regret.h), the block becomes OWN; and before a first kernel, whose time nobody knows,
 * that has threads enough to read all of it. */
#pragma once

#include "shared/pair.h"

/* A block has become ONE, or is undecided: launches are watched from now on. */
void zc_heat_watch(void);

/* A block is entered in the ledger: it stays OWN where an earlier one of its site became hot. */
void zc_heat_new(struct zc_block *block);
