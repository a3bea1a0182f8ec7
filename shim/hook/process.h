/* SPDX-License-Identifier: MIT */
/* Starts libzc at the first CUDA call and anew in a forked child; ends it with the process. */
#pragma once

/* Registers the fork handlers, as early as a library's constructor can. */
void zc_process_watch_forks(void);

/* Looks up libc's functions behind the hooks on the program's pages.  Not from inside an
 * allocator.  In hook/memory.c. */
void zc_memory_find(void);

/* Finds the functions behind malloc, and who serves it, before the first request: none may come to
 * libzc where another allocator comes first.  In hook/malloc.c, which programs that link libzc's
 * objects leave out. */
__attribute__((weak)) void zc_malloc_load(void);
