/* SPDX-License-Identifier: MIT */
/* System calls on pages. */
#pragma once

#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

/* For libzc's own use, because libc's functions are hooked for changes that the program makes
 * (hook/memory.c).  Results and errno are as in libc. */
void *zc_memory_map(void *at, size_t n, int protection, int flags, int fd, off_t from);
int zc_memory_unmap(void *at, size_t n);
void *zc_memory_move(void *at, size_t n, size_t now, int flags, void *to);
int zc_memory_protect(void *at, size_t n, int protection);
int zc_memory_advise(void *at, size_t n, int advice);
