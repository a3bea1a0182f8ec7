/* SPDX-License-Identifier: MIT */
/* Messages about device blocks of `shared`, and the line of each in the log. */
#pragma once

#include "shared/pair.h"

/* A call can't be carried out: names the rule, and returns the code. */
CUresult zc_shared_refused(const struct zc_shared *pair, enum zc_fn fn, CUresult code,
                           const char *why);

/* A kernel failed with an address that it must not touch: names the blocks that kernels may only
 * read.  Once. */
void zc_shared_diagnose(void);

/* The block's line in the log. */
void zc_shared_report(const struct zc_shared *pair);
