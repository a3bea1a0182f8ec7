/* SPDX-License-Identifier: MIT */
/* What libzc says of device blocks of `shared`: refusals, and a line in the log for each. */
#pragma once

#include "shared/pair.h"

/* The kernel gave no memory or mappings to keep both sides apart.  Async-signal-safe. */
void zc_shared_stuck(const struct zc_shared *pair);

/* The same where the program can't go on, because it waits for what was not possible. */
_Noreturn void zc_shared_stop(const struct zc_shared *pair);

/* A call can't be carried out: names the rule, and returns the code. */
CUresult zc_shared_refused(const struct zc_shared *pair, enum zc_fn fn, CUresult code,
                           const char *why);

/* The same for want of pages of the CPU's. */
CUresult zc_shared_stuck_at(const struct zc_shared *pair, enum zc_fn fn);

/* A kernel failed with an address that it must not touch: names the blocks that kernels may only
 * read.  Once. */
void zc_shared_diagnose(void);

/* The block's line in the log. */
void zc_shared_report(const struct zc_shared *pair);
