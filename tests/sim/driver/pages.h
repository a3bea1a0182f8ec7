/* SPDX-License-Identifier: MIT */
/* System calls on pages of the program's: a driver changes them in the kernel, not by functions of
 * libc that others may have put something in front of. */
#ifndef SIM_PAGES_H
#define SIM_PAGES_H

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void *sim_mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
}

static inline int sim_munmap(void *at, size_t bytes)
{
    return (int)syscall(SYS_munmap, at, bytes);
}

static inline void *sim_mremap(void *at, size_t bytes, size_t now, int flags, void *to)
{
    return (void *)syscall(SYS_mremap, at, bytes, now, flags, to);
}

static inline int sim_mprotect(void *at, size_t bytes, int rights)
{
    return (int)syscall(SYS_mprotect, at, bytes, rights);
}

static inline int sim_madvise(void *at, size_t bytes, int advice)
{
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

#endif
