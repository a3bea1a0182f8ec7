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

static inline void zc_file_close(int fd)
{
    syscall(SYS_close, fd);
}

/* Reads what fits of a file, and terminates it.  Returns the bytes; 0, and an empty text, if there
 * is nothing. */
size_t zc_file_text(const char *path, char *out, size_t cap);

/* Where a field of proc_pid_stat(5) begins, from 3 on: the second is a name that may hold anything.
 * NULL if there is none. */
const char *zc_stat_field(const char *text, unsigned field);

/* The number behind the first `label` of a text, or of a small file.  False if there is none. */
bool zc_number_behind(const char *text, const char *label, uint64_t *out);
bool zc_file_number(const char *path, const char *label, uint64_t *out);
