/* SPDX-License-Identifier: MIT */
/* What the log tells of pairs: host and device blocks that are one. */
#ifndef ZC_LOG_PAIRS_H
#define ZC_LOG_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

/* One pair, or the sum of all. */
struct zc_pair_counts {
    uint64_t pairs;         /* Device blocks in the place `shared`; 1 for one. */
    uint64_t elided_copies; /* Copies between both sides that had nothing to move. */
    uint64_t elided_bytes;  /* Bytes that did not have to be copied, those of other copies too. */
    uint64_t parted_pages;  /* Pages of which the CPU got one of its own. */
    uint64_t merged_pages;  /* Pages that became one again. */
    uint64_t faults;        /* Accesses of the CPU's that had to be served. */
    uint64_t fault_ns;      /* Time that they took. */
    uint64_t conflicts;     /* Accesses to what kernels may have overwritten. */
};

/* Who they are. */
struct zc_pair_names {
    uint64_t device_block, host_block; /* Serial numbers of the blocks; 0: there is none. */
    uint32_t device_site, host_site;   /* Public ids of their sites; 0: unknown. */
    uint64_t bytes;                    /* Of the device block. */
    uint64_t pages;                    /* Pages of 2 MiB. */
    bool cold;                         /* Sharing was given up. */
    const char *why;                   /* Why there never was a host block, or NULL; constant. */
};

/* Writes a `pair` line, at ALLOCS and EVENTS: when the device block is freed, or at the end. */
void zc_log_pair(const struct zc_pair_names *names, const struct zc_pair_counts *counts);

/* The sum of all pairs, for the summary that comes next. */
void zc_log_pair_totals(const struct zc_pair_counts *totals);

/* What zc_log_pair_totals() was last told; all 0 before. */
const struct zc_pair_counts *zc_log_pairs_known(void);

#endif
