/* SPDX-License-Identifier: MIT */
/* Functions of glibc that its headers do not declare: its own names for system calls, and the forms
 * that programs built with _FORTIFY_SOURCE call. */
#ifndef TESTS_FORTIFIED_H
#define TESTS_FORTIFIED_H

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>

extern ssize_t __read(int fd, void *buf, size_t n);
extern ssize_t __pread64(int fd, void *buf, size_t n, off64_t at);
extern ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
extern ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
extern ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
extern ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
extern ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
                              __SOCKADDR_ARG name, socklen_t *length);
extern size_t __fread_chk(void *buf, size_t room, size_t size, size_t n, FILE *stream);
extern size_t __fread_unlocked_chk(void *buf, size_t room, size_t size, size_t n, FILE *stream);
extern char *__fgets_chk(char *buf, size_t room, int n, FILE *stream);
extern char *__fgets_unlocked_chk(char *buf, size_t room, int n, FILE *stream);
extern ssize_t __pwrite64(int fd, const void *buf, size_t n, off64_t at);
extern int __poll(struct pollfd *fds, nfds_t count, int timeout);
extern int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t room);
extern int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *mask, size_t room);
extern int __select(int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *timeout);
extern char *__getcwd_chk(char *buf, size_t n, size_t room);
extern ssize_t __readlink_chk(const char *path, char *buf, size_t n, size_t room);
extern ssize_t __readlinkat_chk(int fd, const char *path, char *buf, size_t n, size_t room);

#endif
