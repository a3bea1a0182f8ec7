/* SPDX-License-Identifier: MIT */
/* Where the modules of frames lie as files, for readers that turn offsets into functions. */
#ifndef ZC_LOG_MODULES_H
#define ZC_LOG_MODULES_H

#include "ledger/site.h"

/*
 * Writes a `module` line for each module of the site's frames that has had none: its path as the
 * loader has it, and its build id.  A name that two loaded objects share gets a line without both,
 * because a frame does not tell which of them it means.  At most 256 modules of a process get
 * lines.  Asks the loader, whose lock is not held while a line is written; call without a lock.
 */
void zc_log_modules(const struct zc_site *site);

/* For the child of fork(2), whose log is a file of its own. */
void zc_log_modules_reset(void);

#endif
