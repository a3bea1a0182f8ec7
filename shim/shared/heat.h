/* SPDX-License-Identifier: MIT */
/*
 * How much kernels use device blocks that are ONE: once reading a block over the link may have
 * taken as long as a copy of it, the block becomes OWN.  So no choice costs more than about twice
 * the best one in hindsight, but for the first kernel, whose time nobody knows: before one that has
 * threads enough to read all of the block, it becomes OWN as well.
 */
#pragma once

#include "shared/pair.h"

/* A block has become ONE, or is undecided: launches are watched from now on. */
void zc_heat_watch(void);

/* The block is entered in the ledger: it stays OWN where an earlier one of its site became hot. */
void zc_heat_new(struct zc_shared *pair, struct zc_block *block);
