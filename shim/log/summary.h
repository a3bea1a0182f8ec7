/* SPDX-License-Identifier: MIT */
/* The source of the summary: all counters, read once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"
#include "ledger/counters.h"
#include "ledger/missed.h"
#include "ledger/traffic.h"
#include "log/line.h"

struct zc_summary {
    struct zc_totals totals;                              /* By flow. */
    struct zc_cell site[ZC_COUNTERS_SITES][ZC_DIR_COUNT]; /* Counts of freed and live blocks. */
    uint32_t sites;                                       /* Sites in use. */
    /* Sums over all copies; sets and prefetches move nothing between two blocks. */
    struct zc_count copies[ZC_OUTCOME_COUNT];
    uint64_t copy_ticks;     /* Blocked time of the copies. */
    uint64_t pageable_asked; /* Bytes of the copies that were to go from or to pageable memory. */
    uint64_t pageable_moved; /* Bytes that the driver moved from or to it. */
    bool all_missed;         /* The policy has rules, and took nothing. */
    struct zc_missed missed; /* Set with all_missed. */
};

/* Driver calls that libzc does not know. */
struct zc_unknown_calls {
    uint64_t functions; /* Different ones that were called.  Atomic. */
    uint64_t calls;     /* Atomic. */
};
extern struct zc_unknown_calls zc_log_unknown;
extern int zc_log_status;         /* Given to exit(3); -1 if that is not known. */
extern uint64_t zc_log_decisions; /* Of ZC_POLICY=auto within the run.  Atomic. */
/* Most bytes of freed host memory that were kept for later requests at a time.  Atomic. */
extern uint64_t zc_log_kept_peak;

/*
 * Writes the last line: totals of all copies, by flow, by place and by site, and untracked
 * requests; and on stderr its sums (ZC_SUMMARY).  At ALLOCS and EVENTS a `block` line for each live
 * block comes first.  A copy counts in the sites of both its blocks.  Takes the locks of the ledger
 * and the log.
 */
void zc_log_summary(void);

/* Prints on stderr that calls were refused, if there were any, and before that, if `whole`, the
 * sums for people (log/summary_text.c). */
void zc_summary_print(const struct zc_summary *summary, bool whole);
