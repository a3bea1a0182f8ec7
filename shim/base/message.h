/* SPDX-License-Identifier: MIT */
/* What libzc says to people: one line on stderr and a `warn` line in the log. */
#ifndef ZC_BASE_MESSAGE_H
#define ZC_BASE_MESSAGE_H

#include <stdbool.h>

enum zc_severity { ZC_DEBUG, ZC_NOTE, ZC_WARN, ZC_ERROR };

/*
 * Prints "libzc: <text>\n" with one write(2) to stderr and, where a log is open, appends a `warn`
 * line with a code.  `code` is a short stable name of the kind of message ("fallback", "policy"),
 * a string constant.  At most 16 messages of one code are printed, the 16th says that more follow
 * only in the log.  ZC_DEBUG is dropped unless ZC_DEBUG=1.  fmt is zc_text_fmt's; control
 * characters become '?', about 1000 bytes are kept.  Keeps errno, raises no SIGPIPE and no
 * SIGXFSZ.  Never prints when stderr was closed as libzc was loaded, nor when descriptor 2 has
 * since become a file or a socket: it may hold the program's data then.
 */
void zc_message(enum zc_severity severity, const char *code, const char *fmt, ...);

/* True for the first caller with a code, false for all others: for what is said once a process. */
bool zc_message_first(const char *code);

/* Looks whether descriptor 2 is open.  Called when libzc is loaded. */
void zc_message_init(void);

/* Writes raw bytes to stderr under the same rule; the exit summary uses it. */
void zc_message_raw(const char *bytes, unsigned long n);

/* The log's sink for messages; set by log/ when it opens, so that base/ needs no log/.  The first
 * messages said before that are kept and given to the sink here; a policy's faults are such. */
typedef void (*zc_message_sink)(enum zc_severity severity, const char *code, const char *text);
void zc_message_set_sink(zc_message_sink sink);

/* For the child of fork(2): counts start anew. */
void zc_message_reset(void);

#endif
