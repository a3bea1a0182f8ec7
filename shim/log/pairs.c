/* SPDX-License-Identifier: MIT */
/* The lines about pairs. */
#include "log/pairs.h"

#include "log/log.h"
#include "log/lines.h"

struct zc_pair_counts zc_log_pairs;

void zc_line_pair_counts(struct zc_line *line, const struct zc_pair_counts *c)
{
    zc_line_u64(line, "elided_copies", c->elided_copies);
    zc_line_u64(line, "elided_bytes", c->elided_bytes);
    zc_line_u64(line, "copied_bytes", c->copied_bytes);
}

void zc_log_pair(const struct zc_pair_names *names, const struct zc_pair_counts *counts)
{
    char buf[ZC_LINE_MAX];
    struct zc_line line;
    if (zc_log_level() < ZC_LOG_ALLOCS)
        return;
    zc_line_begin(&line, buf, sizeof(buf), "pair");
    zc_line_id(&line, "device_block", names->device_block);
    zc_line_id(&line, "host_block", names->host_block);
    zc_line_site(&line, "device_site", names->device_site);
    zc_line_site(&line, "host_site", names->host_site);
    zc_line_str(&line, "why", names->why);
    zc_line_u64(&line, "size_bytes", names->bytes);
    zc_line_str(&line, "backing", names->one ? "one" : "own");
    zc_line_pair_counts(&line, counts);
    zc_log_write(&line);
}
