/* SPDX-License-Identifier: MIT */
/* libc's functions behind the hooks on system calls. */
#ifndef ZC_FAULT_IO_H
#define ZC_FAULT_IO_H

/* Looks them up.  The first call of a hook does so too, which may come in a signal handler, where
 * dlsym(3) is not allowed: so whoever installs one does it beforehand. */
void zc_io_find(void);

#endif
