/* SPDX-License-Identifier: MIT */
/*
 * The log: JSON Lines, one object a line, each written by one write(2).  A line that ends in its
 * newline is whole.  Only SIGKILL can cut one, the last, where it crosses a page of the file: Linux
 * looks for a fatal signal between the pages of a write.  Readers leave such an end out.
 */
#ifndef ZC_LOG_LOG_H
#define ZC_LOG_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"
#include "ledger/traffic.h"
#include "policy/policy.h"

enum zc_log_level { ZC_LOG_OFF, ZC_LOG_SUMMARY, ZC_LOG_ALLOCS, ZC_LOG_EVENTS };

/* What `meta` tells about the run.  Strings may be NULL where unknown (then the field is null); the
 * caller's, needed during the call only. */
struct zc_log_meta {
    const char *policy_file; /* Path of the policy in force, NULL for none. */
    uint64_t policy_hash;    /* FNV-1a of its text. */
    const char *gpu;         /* Name of device 0. */
    int driver;              /* cuDriverGetVersion's number, 0 unknown. */
    int devices;             /* Device count, -1 unknown. */
};

/*
 * Opens the log by a path pattern (%e program, %p pid, %h host, %r rank from the MPI and Slurm
 * variables or 0, %t start time, %% percent), "off" for none.  The file is created
 * O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC|O_APPEND, 0600; an existing name, a link, a directory or a
 * FIFO is never opened: it tries NAME.1 to NAME.9, then says so once and goes on without a log.  A
 * device is refused at once: names beside it would be in /dev.  Opens the counters beside it (log
 * path with ".jsonl" replaced by ".counters", or that appended); without a log they are private
 * memory.  Refuses under AT_SECURE, see getauxval(3).  Called once, and once more after
 * zc_log_reset().
 */
void zc_log_open(const char *pattern, enum zc_log_level level);

extern int zc_log_level_now; /* enum zc_log_level; atomic, written by the log alone. */

/* The level in force; OFF when there is no file. */
static inline enum zc_log_level zc_log_level(void)
{
    return (enum zc_log_level)__atomic_load_n(&zc_log_level_now, __ATOMIC_RELAXED);
}

/* The first line.  Messages said so far follow it as `warn` lines. */
void zc_log_meta(const struct zc_log_meta *meta);

/* What the log tells of a request beside its block. */
struct zc_log_request {
    enum zc_stream_kind stream; /* Of a stream-ordered request, else NONE. */
    const char *thread;         /* Name of the thread that asked; NULL where it is not known. */
    const char *rule;           /* Name of the rule that took it; NULL for none. */
    int line;                   /* Where that rule is; means nothing without one. */
    const char *why;            /* Why a place of the rule's list was passed over; NULL if the
                                 * first one was taken. */
};

/* At ALLOCS and EVENTS. */
void zc_log_alloc(const struct zc_block *block, const struct zc_log_request *request);

/* At ALLOCS and EVENTS: the block's traffic by direction.  Before zc_block_remove(). */
void zc_log_free(const struct zc_block *block);

/* What the log tells of the call that made a transfer, beside what is counted. */
struct zc_log_call {
    const char *function;       /* Driver entry point that the program called. */
    uint64_t dst, src;          /* First addresses, 0 for arrays and the source of a set. */
    enum zc_stream_kind stream; /* What the call says of its stream. */
    uint64_t handle;            /* The stream's, if it is one that the program created. */
};

/* At EVENTS. */
void zc_log_transfer(const struct zc_transfer *t, const struct zc_log_call *call);

/* At ALLOCS and EVENTS: the prefetches that libzc chose for a managed block whose rule names no
 * hint, and why.  NULL for a block that is gone writes nothing. */
void zc_log_hint(const struct zc_block *block, const char *prefetch, const char *why);

/* The frames of a site, and the files of their modules.  Once for each, see zc_site_is_new(): at
 * ALLOCS and EVENTS before its first alloc, else before the summary. */
void zc_log_site(uint32_t site_index);

/*
 * The last line, and the table on stderr (ZC_SUMMARY): totals of all copies, by flow, by site and
 * by place, untracked requests.  At ALLOCS and EVENTS one `block` line for each live block comes
 * before it.  A copy counts in the sites of both its blocks.  Takes the locks of the ledger and
 * the log.
 */
void zc_log_summary(void);

/*
 * A write that fails (disk full, RLIMIT_FSIZE, descriptor closed by the program) takes back what it
 * left of its line and ends the log with one message; the program goes on and gets no SIGXFSZ.
 */

const char *zc_log_path(void); /* Path in use, also after the log ended; NULL if none. */

/* For the child of fork(2): closes the inherited descriptor; nothing is open afterwards. */
void zc_log_reset(void);

#endif
