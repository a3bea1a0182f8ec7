/* SPDX-License-Identifier: MIT */
/*
 * The log: JSON Lines, one object a line, each written by one write(2).  A line that ends in its
 * newline is complete.  Only SIGKILL can cut one, and only the last, where it crosses a page of the
 * file: Linux checks for a fatal signal between the pages of a write.  Readers ignore such an end.
 */
#pragma once

#include <stdint.h>

#include "log/line.h"

enum zc_log_level { ZC_LOG_OFF, ZC_LOG_SUMMARY, ZC_LOG_ALLOCS, ZC_LOG_EVENTS };

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

/* Starts a line of a type, in its own buffer; false below a level. */
bool zc_log_begin(struct zc_line *line, enum zc_log_level least, const char *type);

/*
 * Ends the line and appends it to the file with one write(2), under a lock.  Keeps errno.
 * Does nothing without a file.  A write that fails (disk full, RLIMIT_FSIZE, descriptor closed by
 * the program) removes what it wrote of its line, and ends the log with one message.  The program
 * goes on and gets no SIGXFSZ.
 */
void zc_log_write(struct zc_line *line);

/* As above, and ends the log: destructors and threads that run later write nothing. */
void zc_log_write_last(struct zc_line *line);

/* Lines lost because a signal handler interrupted its own thread in zc_log_write(). */
uint64_t zc_log_lost(void);

/* The errno value that ended the log; 0 if it has not ended. */
int zc_log_error(void);

const char *zc_log_path(void); /* Path of the log, even after it ended; NULL if none. */

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

/* Writes the first line.  Messages that were held follow, on stderr and as `warn` lines. */
void zc_log_meta(const struct zc_log_meta *meta);

/* For the child of fork(2): closes the inherited descriptor. */
void zc_log_reset(void);
