/* SPDX-License-Identifier: MIT */
/*
 * The log: JSON Lines, one object a line, each written by one write(2).  A line that ends in its
 * newline is complete.  Only SIGKILL can cut one, and only the last, where it crosses a page of the
 * file: Linux checks for a fatal signal between the pages of a write.  Readers ignore such an end.
 */
#ifndef ZC_LOG_LOG_H
#define ZC_LOG_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/block.h"
#include "ledger/traffic.h"
#include "policy/policy.h"

enum zc_log_level { ZC_LOG_OFF, ZC_LOG_SUMMARY, ZC_LOG_ALLOCS, ZC_LOG_EVENTS };

#define ZC_LOG_GPUS 16 /* Most devices that `meta` lists. */

struct zc_log_gpu {
    char pci[16];           /* cuDeviceGetPCIBusId's text; "" if unknown. */
    unsigned char uuid[16]; /* cuDeviceGetUuid_v2's bytes: of a MIG instance its own. */
    bool known;             /* The UUID is. */
};

/* The contents of `meta`.  Strings may be NULL if unknown, which gives null.  They belong to the
 * caller, and are needed only during the call. */
struct zc_log_meta {
    const char *policy_file;             /* Path of the policy; NULL for none. */
    uint64_t policy_hash;                /* FNV-1a of its text. */
    const char *gpu;                     /* Name of device 0. */
    int driver;                          /* cuDriverGetVersion's number, 0 unknown. */
    int devices;                         /* Device count, -1 unknown. */
    struct zc_log_gpu gpus[ZC_LOG_GPUS]; /* Of the first `devices`. */
};

/*
 * Opens the log by a path pattern (%e program, %p pid, %h host, %r rank, %l local rank and %j job
 * of base/job.h or 0, %t start time, %% percent); "off" for none.  The file is created with
 * O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC|O_APPEND, 0600.  An existing name, a link, a directory or a
 * FIFO is never opened: NAME.PID.jsonl takes the place of NAME.jsonl, and NAME.PID.TIME.jsonl of
 * that; then it reports that once and goes on without a log.  A device is refused at once, because
 * names next to it would be in /dev.  Opens the counters beside the log (log path with ".jsonl"
 * replaced by ".counters", or that appended); without a log they are private memory.  Refuses under
 * AT_SECURE, see getauxval(3).  Called once, and once more after zc_log_reset().
 */
void zc_log_open(const char *pattern, enum zc_log_level level);

extern int zc_log_level_now; /* enum zc_log_level.  Atomic; only the log writes it. */

/* The current level; OFF if there is no file. */
static inline enum zc_log_level zc_log_level(void)
{
    return (enum zc_log_level)__atomic_load_n(&zc_log_level_now, __ATOMIC_RELAXED);
}

/* Writes the first line.  Earlier messages follow as `warn` lines. */
void zc_log_meta(const struct zc_log_meta *meta);

/* What the log says of a request, besides its block. */
struct zc_log_request {
    enum zc_stream_kind stream; /* For a stream-ordered request, else NONE. */
    const char *thread;         /* Name of the requesting thread; NULL if unknown. */
    const char *rule;           /* Name of its rule; NULL for none. */
    int line;                   /* Line of the rule. */
    const char *why;            /* Why places of the rule were passed over; NULL if none was. */
};

/* At ALLOCS and EVENTS. */
void zc_log_alloc(const struct zc_block *block, const struct zc_log_request *request);

/* At ALLOCS and EVENTS: the block's traffic by direction.  Call before zc_block_remove(). */
void zc_log_free(const struct zc_block *block);

/* What the log says of the call that made a transfer, besides the counts. */
struct zc_log_call {
    const char *function;       /* Driver function that the program called. */
    uint64_t dst, src;          /* First addresses, 0 for arrays and the source of a set. */
    enum zc_stream_kind stream; /* How the call names its stream. */
    uint64_t handle;            /* Handle of a stream that the program created. */
};

/* At EVENTS. */
void zc_log_transfer(const struct zc_transfer *t, const struct zc_log_call *call);

/* At ALLOCS and EVENTS: the prefetches that libzc chose for a managed block whose rule has no hint,
 * and why.  Writes nothing for NULL, a block that is gone. */
void zc_log_hint(const struct zc_block *block, const char *prefetch, const char *why);

/* The frames of a site, and the files of their modules.  Once for each site, see zc_site_is_new():
 * at ALLOCS and EVENTS before its first alloc, else before the summary. */
void zc_log_site(uint32_t site_index);

/*
 * Writes the last line, and the table on stderr (ZC_SUMMARY): totals of all copies, by flow, by
 * site and by place, and untracked requests.  At ALLOCS and EVENTS a `block` line for each live
 * block comes first.  A copy counts in the sites of both its blocks.  Takes the locks of the ledger
 * and the log.
 */
void zc_log_summary(void);

/*
 * A write that fails (disk full, RLIMIT_FSIZE, descriptor closed by the program) removes what it
 * wrote of its line, and ends the log with one message.  The program goes on and gets no SIGXFSZ.
 */

const char *zc_log_path(void); /* Path of the log, even after it ended; NULL if none. */

/* For the child of fork(2): closes the inherited descriptor. */
void zc_log_reset(void);

#endif
