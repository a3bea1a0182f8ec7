/* SPDX-License-Identifier: MIT */
/* libc's functions behind the hooks on the program's pages. */
#ifndef ZC_HOOK_MEMORY_H
#define ZC_HOOK_MEMORY_H

/* Looks them up.  Not from inside an allocator. */
void zc_memory_find(void);

#endif
