/* SPDX-License-Identifier: MIT */
/* libc's functions behind the hooks on system calls. */
#pragma once

/* Looks them up.  A hook's first call does that, too, but may come in a signal handler, where
 * dlsym(3) is not allowed.  So code that installs a handler calls this first. */
void zc_io_find(void);
