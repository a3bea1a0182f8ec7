/* SPDX-License-Identifier: MIT */
/* libc's functions behind the hooks on the program's pages. */
#ifndef ZC_HOOK_MEMORY_H
#define ZC_HOOK_MEMORY_H

/* Looks them up.  Outside of all allocators. */
void zc_memory_find(void);

#endif
