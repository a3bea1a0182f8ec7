/* SPDX-License-Identifier: MIT */
/* The log's file: where finished lines go. */
#ifndef ZC_LOG_JSONL_H
#define ZC_LOG_JSONL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "log/line.h"

/* Ends the line and appends it to the file with one write(2), under the lock zc_log.  A line that
 * could not be written whole is removed again.  Keeps errno.  Does nothing without a file. */
void zc_log_write(struct zc_line *line);

/* As above, and ends the log: destructors and threads that run later write nothing. */
void zc_log_write_last(struct zc_line *line);

/* Lines lost because a signal handler interrupted its own thread in zc_log_write(). */
uint64_t zc_log_lost(void);

/* The errno value that ended the log; 0 if it has not ended. */
int zc_log_error(void);

/* Appends a `warn` line.  From zc_log_meta() on it is the sink of base/message.h. */
void zc_log_warn(enum zc_severity severity, const char *code, const char *text);

#endif
