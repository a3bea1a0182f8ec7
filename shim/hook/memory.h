/* SPDX-License-Identifier: MIT */
/* libc's functions behind the hooks on the program's pages. */
#pragma once

/* Looks them up.  Not from inside an allocator. */
void zc_memory_find(void);
