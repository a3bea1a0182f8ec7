/* SPDX-License-Identifier: MIT */
/* The CPU's view of shared pages: what its page table shows at an address that the GPU's page table
 * shows too.  System calls only: safe in signal handlers. */
#ifndef ZC_SHARED_VIEW_H
#define ZC_SHARED_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "ledger/block.h"

/*
 * The GPU's page table holds a registered page by itself.  What the CPU finds at the page's address
 * can be protected, replaced and moved, and the GPU does not notice.  Every page of the host heap
 * has two more addresses, in ranges reserved beside it: its shadow, where the CPU reaches the GPU's
 * page while the address itself shows a page of the CPU's own; and its nursery, where that own page
 * is made.  The functions take whole units (ZC_HOST_UNIT) inside the heap.  Both ranges are never
 * left with a hole that another thread's mmap(2) could fall into.
 */

/* Reserves both ranges, once the heap is open; by one thread at a time.  False, with the reason in
 * *why, where the kernel or RLIMIT_AS refuses; then nothing can be shared in this process. */
bool zc_view_open(const char **why);

/* Why the kernel refused the last change that it refused.  For signal handlers, too. */
const char *zc_view_reason(void);

/* Makes both ranges as short as the heap's has become. */
void zc_view_fit(void);

/* Distance from an address in the heap to its shadow; 0 before zc_view_open().  Modulo 2^64. */
#define zc_view_shadow zc_block_shadow

/* Protection of pages that the CPU may read and write. */
#define ZC_VIEW_OPEN (PROT_READ | PROT_WRITE)

/* Lets the CPU do what `protection` says in [at, at + n), where the program did not take that away
 * itself (host/overlay.h).  False when the kernel refuses. */
bool zc_view_protect(uintptr_t at, size_t n, int protection);

/* The same for libzc's own accesses, whatever the program wants.  Until zc_view_protect(). */
bool zc_view_expose(uintptr_t at, size_t n, int protection);

/*
 * Parts: the CPU gets pages of its own at the address, with the same content or, without `copy`,
 * zeroes; the GPU's pages go to the shadow, where the CPU may read and write them.  Meanwhile
 * other threads' accesses fault.  Returns how many bytes were parted, from `at` on: less than `n`
 * when the kernel has no memory or no mappings left; the rest is as it was, but may be read-only.
 */
size_t zc_view_part(uintptr_t at, size_t n, bool copy);

/* Moves the GPU's pages to the shadow and leaves nothing that the CPU may touch at the address.
 * Returns the bytes moved, as zc_view_part() does. */
size_t zc_view_aside(uintptr_t at, size_t n);

/* Moves the GPU's pages from the shadow back to the address, readable; what the CPU had there is
 * dropped.  Returns the bytes moved, as zc_view_part() does. */
size_t zc_view_merge(uintptr_t at, size_t n);

/* Gives up the shadow of [at, at + n) and what lies there. */
void zc_view_forget(uintptr_t at, size_t n);

#endif
