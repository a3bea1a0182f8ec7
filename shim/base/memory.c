/* SPDX-License-Identifier: MIT */
/* mmap(2) and related system calls. */
#include "base/memory.h"

#include <sys/syscall.h>
#include <unistd.h>

void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, from);
}

int zc_memory_unmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to)
{
    return (void *)syscall(SYS_mremap, at, n, now, flags, to);
}

int zc_memory_protect(void *at, size_t n, int protection)
{
    return (int)syscall(SYS_mprotect, at, n, protection);
}

int zc_memory_advise(void *at, size_t n, int advice)
{
    return (int)syscall(SYS_madvise, at, n, advice);
}
