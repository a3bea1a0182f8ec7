/* SPDX-License-Identifier: MIT */
/* The lines about blocks, transfers, sites and warnings. */
#pragma once

#include "base/message.h"
#include "ledger/block.h"
#include "ledger/traffic.h"
#include "log/log.h"
#include "policy/policy.h"

/* Fields of an `alloc` line besides those of the block. */
struct zc_log_request {
    enum zc_stream_kind stream; /* For a stream-ordered request, else NONE. */
    const char *thread;         /* Name of the requesting thread; NULL if unknown. */
    const char *rule;           /* Name of its rule; NULL for none. */
    uint32_t line;              /* Line of the rule; 0 for none. */
    const char *why;            /* Why places of the rule were passed over; NULL if none was. */
    const char *range;          /* Range that the thread is in; NULL if none. */
};

/* At ALLOCS and EVENTS. */
void zc_log_alloc(const struct zc_block *block, const struct zc_log_request *request);

/* At ALLOCS and EVENTS: the block's traffic by direction, in a `free` line before
 * zc_block_remove(), or in a `block` line of one that is still live at the end. */
void zc_log_block(const struct zc_block *block, bool live);

/* Fields of a `transfer` line besides the counts. */
struct zc_log_call {
    const char *function;       /* Driver function that the program called. */
    uint64_t dst, src;          /* First addresses, 0 for arrays and the source of a set. */
    enum zc_stream_kind stream; /* How the call names its stream. */
    uint64_t handle;            /* Handle of a stream that the program created. */
    const char *range;          /* Range that the thread is in; NULL if none. */
};

/* At EVENTS; before it the frames of the call's site, once. */
void zc_log_transfer(const struct zc_transfer *t, const struct zc_log_call *call);

/* Moves of blocks with `spill = move` or `fetch`, in bytes, and ticks that launches waited for
 * them. */
struct zc_log_moves {
    uint64_t to_device, to_host;
    uint64_t hidden; /* Of those to the device: kernels still ran when they had come. */
    uint64_t blocked, waited;
};
extern struct zc_log_moves zc_log_moves; /* Of this process.  With the driver lock. */

/* Requests of cudaMalloc and its kin that failed because the device had no memory, and no rule
 * gives them host memory. */
struct zc_log_unmet {
    uint64_t requests, largest_bytes;
    uint64_t lacking_bytes; /* Most that one of them was larger than what the device had free. */
};
extern struct zc_log_unmet zc_log_unmet; /* Of this process.  Atomic. */
void zc_log_count_unmet(uint64_t bytes, uint64_t free_bytes);

/* Bytes of a site's host blocks above 1 MiB, each time that libzc registered them. */
extern uint64_t zc_log_registered[]; /* Of this process, by site.  Atomic. */

/* Bytes of a block were moved to host memory or to the device, and why; for how many ticks, how
 * many launches had waited before, and whether kernels ran all the time.  Counts it, and writes a
 * line at ALLOCS and EVENTS.  With the driver lock. */
void zc_log_move(const struct zc_block *block, bool to_host, uint64_t bytes, const char *why,
                 uint64_t ticks, uint64_t waited, bool hidden);

/* The frames of a site, and the files of their modules.  Once for each site, see zc_site_is_new():
 * at ALLOCS and EVENTS before its first alloc or copy, else before the summary. */
void zc_log_site(uint32_t site_index);

/*
 * Writes a `module` line for each module in the site's frames that has none yet: its path from the
 * loader, and its build id.  If two loaded objects share a name, the line has neither, because a
 * frame does not say which one it means.  At most 256 modules of a process get lines.  Asks the
 * loader, whose lock is not held while a line is written.  Call without a lock.
 */
void zc_log_modules(const struct zc_site *site);

/* Names of the fields of a flow. */
struct zc_flow_names {
    const char *dir;       /* Field of the direction. */
    const char *src, *dst; /* Fields of the memory kinds of both sides. */
};
extern const struct zc_flow_names zc_flow_asked; /* dir, src_kind, dst_kind */

/* Appends a flow's direction and the memory kinds of both sides. */
void zc_line_flow(struct zc_line *line, const struct zc_flow_names *names, unsigned flow);

/* Appends an array of {"dir":…, counts}, one for each direction that has any; `sum` is indexed by
 * directions. */
void zc_line_traffic(struct zc_line *line, const struct zc_cell sum[ZC_DIR_COUNT]);

/* One device block of `shared`, or the sum of all. */
struct zc_pair_counts {
    uint64_t pairs;         /* In the sum: device blocks in the place `shared`. */
    uint64_t elided_copies; /* Copies between both sides that moved nothing. */
    uint64_t elided_bytes;  /* Bytes that did not have to be copied, in other copies, too. */
    uint64_t copied_bytes;  /* Bytes that the CPU copied between both: the program had written. */
};

/* Identity of a pair; of the device block set once. */
struct zc_pair_names {
    uint64_t device_block, host_block; /* Serial numbers of the blocks; 0: none. */
    uint32_t device_site, host_site;   /* Public ids of their sites; 0: unknown. */
    uint64_t bytes;                    /* Bytes of the device block as asked for. */
    const char *why; /* Why it is not one with a host block, or NULL; a string constant. */
};

/* Writes a `pair` line, at ALLOCS and EVENTS, when the device block is freed or at the end; `one`:
 * it is one with its host block then. */
void zc_log_pair(const struct zc_pair_names *names, bool one, const struct zc_pair_counts *counts);

/* Appends the counts of a pair, or of all. */
void zc_line_pair_counts(struct zc_line *line, const struct zc_pair_counts *counts);

extern struct zc_pair_counts zc_log_pairs; /* The sum of this process.  Atomics. */

/* Appends a `warn` line; false without a log.  From zc_log_meta() on it is the sink of
 * base/message.h. */
bool zc_log_warn(enum zc_severity severity, const char *code, const char *text);
