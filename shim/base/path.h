/* SPDX-License-Identifier: MIT */
/* Names and creation of the files that libzc writes. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/text.h"

/* File name of the executable without folders, from /proc/self/exe (proc(5)), without the mark of a
 * deleted file.  If that can't be read, the name that the program was started by.  Looked up once,
 * by any thread. */
const char *zc_log_program(void);

/* The program of an interpreter: the first word of /proc/self/cmdline that is no option, of Python
 * a file, a module or, with `-c`, code.  It is in `text`.  NULL for other programs, and where the
 * interpreter runs its standard input. */
const char *zc_log_script(char *text, size_t size);

/* Path of the executable, from /proc/self/exe; the kernel appends " (deleted)" if the file is gone.
 * False, and an empty path, if that can't be read. */
bool zc_log_program_path(char path[PATH_MAX]);

/* The host's name, from uname(2); "?" if it has none.  Slashes become '_'. */
const char *zc_log_host(void);

/* Appends a Unix time in UTC as 20261120T214530Z; valid from 1970 on. */
void zc_log_utc(struct zc_text *t, uint64_t seconds);

/*
 * Appends the path for a pattern (letters: see zc_log_open).  An unknown letter stays as it is and
 * is reported once.  False if the path does not fit.
 */
bool zc_log_expand(struct zc_text *path, const char *pattern);

/*
 * Creates a private file: never opens an existing one, follows no link, and gives other users no
 * access.  Returns the descriptor, or the negative errno value.
 */
int zc_log_create(const char *path);

/* True if a file of `bytes` is within RLIMIT_FSIZE, so that writing it raises no SIGXFSZ
 * (setrlimit(2)). */
bool zc_log_size_allowed(uint64_t bytes);
