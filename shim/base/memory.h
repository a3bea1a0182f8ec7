/* SPDX-License-Identifier: MIT */
/* Pages by system calls alone. */
#ifndef ZC_BASE_MEMORY_H
#define ZC_BASE_MEMORY_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

/* What libzc itself does: libc's functions are hooks of libzc's for what the program does to its
 * pages (hook/memory.c).  Results and errno are libc's. */
void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from);
int zc_memory_unmap(void *at, size_t n);
void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to);
int zc_memory_protect(void *at, size_t n, int protection);
int zc_memory_advise(void *at, size_t n, int advice);

#endif
