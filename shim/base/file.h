/* SPDX-License-Identifier: MIT */
/* Small files of the kernel's, by system calls alone. */
#ifndef ZC_BASE_FILE_H
#define ZC_BASE_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Libc's functions are cancellation points, which copies, malloc and free must not be: they could
 * end the thread with something half done. */
static inline int zc_file_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_RDONLY | O_CLOEXEC);
}

static inline ssize_t zc_file_read(int fd, void *out, size_t n)
{
    return syscall(SYS_read, fd, out, n);
}

static inline void zc_file_close(int fd)
{
    syscall(SYS_close, fd);
}

#endif
