/* SPDX-License-Identifier: MIT */
/* Small kernel files, read by system calls alone. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* Nothing, where the file could not be opened. */
static inline void zc_file_close(int fd)
{
    if (fd >= 0)
        syscall(SYS_close, fd);
}

#define ZC_FILE_FIRST 512 /* Above the numbers that programs expect for their own files. */

/* Makes room for libzc's descriptors, best while there are no threads: a table that threads share
 * grows only after a grace period of the kernel's RCU, 5 to 20 ms. */
static inline void zc_file_make_room(void)
{
    zc_file_close((int)syscall(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, ZC_FILE_FIRST));
}

/* Locks byte 0 of a file (F_OFD_SETLK, fcntl(2)) as F_WRLCK or F_RDLCK.  The lock ends with the
 * last reference to the open file, and a mapping is one: so it ends with the process, however that
 * ends, holds though no descriptor is open, and can be seen from other PID namespaces.  False, with
 * errno, if another open file has the byte, or if nothing can be locked. */
static inline bool zc_file_lock(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return syscall(SYS_fcntl, fd, F_OFD_SETLK, &lock) == 0;
}

/* Reads what fits of a file, and terminates it.  Returns the bytes; 0, and an empty text, if there
 * is nothing. */
size_t zc_file_text(const char *path, char *out, size_t cap);

/* The number behind the first `label` of a text, or of a small file.  False if there is none. */
bool zc_number_behind(const char *text, const char *label, uint64_t *out);
bool zc_file_number(const char *path, const char *label, uint64_t *out);
