/* SPDX-License-Identifier: MIT */
/* Names of the files that libzc writes, and their creation. */
#ifndef ZC_BASE_PATH_H
#define ZC_BASE_PATH_H

#include <limits.h>
#include <stdbool.h>

#include "base/text.h"

/* The executable's file name without folders, from /proc/self/exe (proc(5)) and without the mark of
 * a deleted file; what the program was called as where that can't be read.  Found out once, by any
 * thread. */
const char *zc_log_program(void);

/* The executable's path, from /proc/self/exe, to which the kernel appends " (deleted)" where the
 * file is gone.  False, and an empty path, where that can't be read. */
bool zc_log_program_path(char path[PATH_MAX]);

/* The host's name, from uname(2); "?" where it has none.  Slashes became '_'. */
const char *zc_log_host(void);

/* Appends a Unix time in UTC as 20261120T214530Z; valid from 1970 on. */
void zc_log_utc(struct zc_text *t, uint64_t seconds);

/*
 * Appends the path that a pattern stands for (letters: see zc_log_open).  A letter without meaning
 * stays as it is and is said once.  Returns false when the path does not fit.
 */
bool zc_log_expand(struct zc_text *path, const char *pattern);

/*
 * Creates a file for this process alone: never opens what is there, follows no link, and no other
 * user may read it.  Returns the descriptor, or the negative errno value.
 */
int zc_log_create(const char *path);

/* True when a file of `bytes` is within RLIMIT_FSIZE, so that writing raises no SIGXFSZ (see
 * setrlimit(2)). */
bool zc_log_size_allowed(uint64_t bytes);

#endif
