/* SPDX-License-Identifier: MIT */
/* Parts that lines about blocks have in common. */
#ifndef ZC_LOG_LINES_H
#define ZC_LOG_LINES_H

#include "ledger/block.h"
#include "ledger/traffic.h"
#include "log/line.h"

/* What a flow's number means; the inverse of zc_flow(). */
struct zc_sides {
    enum zc_dir dir;       /* Direction. */
    enum zc_kind src, dst; /* Memory kinds of the source and the destination. */
};
static inline struct zc_sides zc_flow_sides(unsigned flow)
{
    return (struct zc_sides){
        .dir = (enum zc_dir)(flow / (ZC_KIND_COUNT * ZC_KIND_COUNT)),
        .src = (enum zc_kind)(flow / ZC_KIND_COUNT % ZC_KIND_COUNT),
        .dst = (enum zc_kind)(flow % ZC_KIND_COUNT),
    };
}

/* Names of the fields of a flow. */
struct zc_flow_names {
    const char *dir;       /* Field of the direction. */
    const char *src, *dst; /* Fields of the memory kinds of both sides. */
};
extern const struct zc_flow_names zc_flow_asked; /* dir, src_kind, dst_kind */
extern const struct zc_flow_names zc_flow_real;  /* real_dir, real_src_kind, real_dst_kind */

/* Appends a flow's direction and the memory kinds of both sides. */
void zc_line_flow(struct zc_line *line, const struct zc_flow_names *names, unsigned flow);

/* Appends {"dir":…, counts} to an array. */
void zc_line_traffic(struct zc_line *line, enum zc_dir dir,
                     const struct zc_count by[ZC_OUTCOME_COUNT], uint64_t ticks);

/* Reads a cell that other threads may be changing, field by field with relaxed loads. */
void zc_cell_read(struct zc_cell *copy, const struct zc_cell *cell);

/* Appends the counts of a pair, or of all. */
struct zc_pair_counts;
void zc_line_pair_counts(struct zc_line *line, const struct zc_pair_counts *counts);

/* Writes a `block` line for a block that is still live: its traffic so far. */
void zc_log_live_block(const struct zc_block *block);

#endif
