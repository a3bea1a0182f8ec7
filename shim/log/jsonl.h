/* SPDX-License-Identifier: MIT */
/* The log's file: where finished lines go. */
#ifndef ZC_LOG_JSONL_H
#define ZC_LOG_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "log/line.h"

/* Ends the line and appends it to the file by one write(2), under the lock zc_log; a line that
 * could not be written whole is taken back.  Keeps errno.  Does nothing without a file. */
void zc_log_write(struct zc_line *line);

/* The same, and ends the log: destructors and threads that still run after it write nothing. */
void zc_log_write_last(struct zc_line *line);

/* Lines dropped because a signal handler met its own thread inside zc_log_write(). */
uint64_t zc_log_lost(void);

/* errno value that ended the log, 0 while it goes on. */
int zc_log_error(void);

/* Appends a `warn` line; the sink of base/message.h from zc_log_meta() on. */
void zc_log_warn(enum zc_severity severity, const char *code, const char *text);

#endif
