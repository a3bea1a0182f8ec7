/* SPDX-License-Identifier: MIT */
/* Messages for people: one line on stderr and a `warn` line in the log. */
#pragma once

#include <stdbool.h>

enum zc_severity {
    ZC_NOTE,
    ZC_WARN,
    ZC_ERROR,
    ZC_URGENT, /* An error that can't wait until there is a sink. */
};

/*
 * Prints "libzc: <text>\n" to stderr with one write(2) and, if a log is open, appends a `warn` line
 * with the code.  Until there is a sink, in a process that has not called CUDA, the first 128 are
 * held: such a process prints nothing.  `code` is a short stable name of the kind of message
 * ("fallback", "policy"), a string constant.  At most 16 messages of one code are printed; the 16th
 * says that more follow only in the log.  `fmt` is that of zc_text_fmt; control characters become
 * '?', and about 1000 bytes are kept.  Keeps errno; raises no SIGPIPE or SIGXFSZ.  Prints nothing
 * if stderr was closed when libzc was loaded, or if descriptor 2 has become a file or a socket
 * since, which may hold the program's data.
 */
void zc_message(enum zc_severity severity, const char *code, const char *fmt, ...);

/* True for the first caller with a code only: for messages that appear once a process. */
bool zc_message_first(const char *code);

/* Checks whether descriptor 2 is open.  Called when libzc is loaded. */
void zc_message_init(void);

/* Writes raw bytes to stderr under the same conditions; used by the exit summary. */
void zc_message_raw(const char *bytes, unsigned long n);

/* The log's sink for messages, which returns whether they are in the log. log/ sets it when libzc
 * starts, so that base/ does not need log/.  Messages that were held are printed then. */
typedef bool (*zc_message_sink)(enum zc_severity severity, const char *code, const char *text);
void zc_message_set_sink(zc_message_sink sink);

/* For the child of fork(2): the counts start anew.  It has what its parent holds. */
void zc_message_reset(void);
