/* SPDX-License-Identifier: MIT */
/* Small kernel files, read by system calls alone. */
#ifndef ZC_BASE_FILE_H
#define ZC_BASE_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* libc's functions are cancellation points, but copies, malloc and free must not be any: the thread
 * could end in the middle of their work. */
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
