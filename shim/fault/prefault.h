/* SPDX-License-Identifier: MIT */
/* Opens protected pages that a system call is about to write. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* All return true if they opened pages, and keep errno; `refused` is that of zc_fault_ops.open().
 * Pointers come from the program: bad ones are ignored, and the kernel will refuse them.  Only
 * while zc_fault_ops is set. */
bool zc_prefault(const void *buf, size_t n, bool refused);

/* The buffers of an array (readv(2)).  The kernel refuses one that is too long. */
bool zc_prefault_vector(const struct iovec *vec, size_t count, bool refused);

/* A message, with its header, name, buffers and control data (recvmsg(2)). */
bool zc_prefault_message(const struct msghdr *message, bool refused);

/* An array of messages, with their lengths (recvmmsg(2)). */
bool zc_prefault_messages(const struct mmsghdr *messages, size_t count, bool refused);

/* A socket's name that the kernel fills, and its length, which it reads and writes
 * (recvfrom(2)). */
bool zc_prefault_name(const void *name, const socklen_t *length, bool refused);

/* The sets of select(2), of `count` descriptors each; NULL for none. */
bool zc_prefault_sets(int count, void *in, void *out, void *other, bool refused);

/* n bytes, or the bytes of an array, at an offset of a file: if the file is this process's memory
 * (/proc/self/mem), to which the kernel gives access regardless of protection. */
bool zc_prefault_at(int fd, off64_t at, size_t n, bool refused);
bool zc_prefault_each_at(int fd, off64_t at, const struct iovec *vec, size_t count, bool refused);
