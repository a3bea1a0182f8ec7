/* SPDX-License-Identifier: MIT */
/* System calls on pages. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* Of <linux/mman.h>, for older headers of libc: Linux 5.14, 5.18, 6.1 and 6.13. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* The first address of a page, and of the next one unless the address is such itself. */
static inline uintptr_t zc_page_start(uintptr_t address)
{
    return address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

static inline uintptr_t zc_page_end(uintptr_t address)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    return (address + page - 1) & ~(page - 1);
}

/* For libzc's own use, because libc's functions are hooked for changes that the program makes
 * (hook/memory.c).  Results and errno are as in libc. */
void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from);
int zc_memory_unmap(void *at, size_t n);
void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to);
int zc_memory_protect(void *at, size_t n, int protection);
int zc_memory_advise(void *at, size_t n, int advice);

/* Private memory of no file, where the kernel wants it (MAP_NORESERVE); NULL if it refuses. */
static inline void *zc_memory_fresh(size_t n, int rights)
{
    void *p = zc_memory_map(NULL, n, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p != MAP_FAILED ? p : NULL;
}
