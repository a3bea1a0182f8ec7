/* SPDX-License-Identifier: MIT */
/* The CPU's view of shared pages: what its page table shows at an address that the GPU's page table
 * shows, too.  Makes only system calls, so it is safe in signal handlers. */
#ifndef ZC_SHARED_VIEW_H
#define ZC_SHARED_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "ledger/block.h"

/*
 * The GPU's page table refers to registered pages themselves.  What the CPU has at the address can
 * be protected, replaced and moved, and the GPU does not notice.  Every page of the host heap has
 * two more addresses, in ranges reserved beside the heap.  At its shadow the CPU reaches the GPU's
 * page while the address itself shows the CPU's own page.  At its nursery that own page is made.
 * The functions take whole units (ZC_HOST_UNIT) of the heap.  They never leave a hole in the
 * ranges, into which another thread's mmap(2) could map something.
 */

/* Reserves both ranges once the heap is open; one thread at a time.  False, with the reason in
 * *why, if the kernel or RLIMIT_AS refuses; then this process can't share anything. */
bool zc_view_open(const char **why);

/* Why the kernel refused the last change.  Safe in signal handlers. */
const char *zc_view_reason(void);

/* Shortens both ranges to the length of the heap. */
void zc_view_fit(void);

/* Distance from an address in the heap to its shadow; 0 before zc_view_open().  Modulo 2^64. */
#define zc_view_shadow zc_block_shadow

/* Protection of pages that the CPU may read and write. */
#define ZC_VIEW_OPEN (PROT_READ | PROT_WRITE)

/* Allows the CPU `protection` in [at, at + n), except for rights that the program took away itself
 * (host/overlay.h).  False if the kernel refuses. */
bool zc_view_protect(uintptr_t at, size_t n, int protection);

/* The same for libzc's own accesses, whatever the program wants; until the next
 * zc_view_protect(). */
bool zc_view_expose(uintptr_t at, size_t n, int protection);

/*
 * Parts pages: the CPU gets pages of its own at the address, with the same content or, without
 * `copy`, with zeroes.  The GPU's pages move to the shadow, where the CPU may read and write them.
 * Meanwhile accesses of other threads fault.  Returns the bytes parted from `at` on; less than `n`
 * if the kernel has no memory or mappings left.  The rest is unchanged, but may be read-only.
 */
size_t zc_view_part(uintptr_t at, size_t n, bool copy);

/* Moves the GPU's pages to the shadow and closes the address.  Returns the bytes moved, as
 * zc_view_part() does. */
size_t zc_view_aside(uintptr_t at, size_t n);

/* Moves the GPU's pages from the shadow back to the address, readable, and drops the CPU's pages
 * there.  Returns the bytes moved, as zc_view_part() does. */
size_t zc_view_merge(uintptr_t at, size_t n);

/* Drops the shadow of [at, at + n) and its content. */
void zc_view_forget(uintptr_t at, size_t n);

#endif
