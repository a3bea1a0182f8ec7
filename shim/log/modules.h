/* SPDX-License-Identifier: MIT */
/* The files of the modules in frames, for readers that turn offsets into functions. */
#pragma once

#include "ledger/site.h"

/*
 * Writes a `module` line for each module in the site's frames that has none yet: its path from the
 * loader, and its build id.  If two loaded objects share a name, the line has neither, because a
 * frame does not say which one it means.  At most 256 modules of a process get lines.  Asks the
 * loader, whose lock is not held while a line is written.  Call without a lock.
 */
void zc_log_modules(const struct zc_site *site);
