/* SPDX-License-Identifier: MIT */
/*
 * Changes that the program makes to pages of its own blocks in the host heap.  The GPU's page table
 * holds registered pages by itself, and protection keeps pairs apart.  So such a block retreats: it
 * is the program's own business from then on, and pages change in a way that looks to the program
 * as it would without libzc.  The functions set errno, and return as the system calls that they
 * stand for; ranges that the kernel refuses, or that reach beyond the heap, are left to it.
 */
#pragma once

#include <sys/types.h>

#include "host/heap.h"

/* The functions behind libzc's, for changes in the program's name: raw system calls until
 * hook/memory.c has looked them up.  Atomics. */
extern struct zc_page_calls {
    void *(*mmap)(void *at, size_t n, int protection, int flags, int fd, off_t from);
    int (*munmap)(void *at, size_t n);
    void *(*mremap)(void *at, size_t n, size_t now, int flags, void *to);
    int (*mprotect)(void *at, size_t n, int protection);
    int (*pkey_mprotect)(void *at, size_t n, int protection, int key);
    int (*madvise)(void *at, size_t n, int advice);
} zc_page_calls __attribute__((aligned(64), visibility("hidden")));

/* True if a range may overlap the heap.  The kernel refuses one that wraps around. */
static inline bool zc_retreat_meets(const void *at, size_t n)
{
    uintptr_t base = __atomic_load_n(&zc_hostheap.base, __ATOMIC_RELAXED), low = (uintptr_t)at;
    size_t bytes = __atomic_load_n(&zc_hostheap.bytes, __ATOMIC_RELAXED);
    return __builtin_expect(low < base + bytes && low + n > base, 0);
}

/* Before the kernel changes pages as the program asks.  False, with errno, where there is no
 * block. */
bool zc_retreat(const void *at, size_t n);

/* munmap(2): the addresses stay reserved for the heap. */
int zc_retreat_unmap(void *at, size_t n);

/* mremap(2) from the heap, over it, or both. */
void *zc_retreat_move(void *at, size_t n, size_t now, int flags, void *to);

/* madvise(2). */
int zc_retreat_advise(void *at, size_t n, int advice);
