/* SPDX-License-Identifier: MIT */
/* Log lines about pairs: host and device blocks that share their memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log/line.h"

/* One device block of `shared`, or the sum of all. */
struct zc_pair_counts {
    uint64_t pairs;         /* Device blocks in the place `shared`; 1 for one. */
    uint64_t elided_copies; /* Copies between both sides that moved nothing. */
    uint64_t elided_bytes;  /* Bytes that did not have to be copied, in other copies, too. */
    uint64_t copied_bytes;  /* Bytes that the CPU copied between both: the program had written. */
};

/* Identity of a pair. */
struct zc_pair_names {
    uint64_t device_block, host_block; /* Serial numbers of the blocks; 0: none. */
    uint32_t device_site, host_site;   /* Public ids of their sites; 0: unknown. */
    uint64_t bytes;                    /* Bytes of the device block. */
    bool one;                          /* It is one with its host block, at the end. */
    const char *why;                   /* Why it is not, or NULL; a string constant. */
};

/* Writes a `pair` line, at ALLOCS and EVENTS, when the device block is freed or at the end. */
void zc_log_pair(const struct zc_pair_names *names, const struct zc_pair_counts *counts);

/* Appends the counts of a pair, or of all. */
void zc_line_pair_counts(struct zc_line *line, const struct zc_pair_counts *counts);

/* The sum of all pairs, to be filled in before the summary is written. */
extern struct zc_pair_counts zc_log_pairs;
