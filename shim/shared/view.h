/* SPDX-License-Identifier: MIT */
/* What the CPU's page table shows at the addresses of a host block whose memory is a file
 * (host/memfile.h).  System calls only: safe in signal handlers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* Protection of pages that the CPU may read and write. */
#define ZC_VIEW_OPEN (PROT_READ | PROT_WRITE)

/* The functions take whole units (ZC_HOST_UNIT), but zc_view_part(), which takes any pages. */

/* Shows the file's pages of [from, from + n) at `to` as well, in the place of what is mapped there;
 * the CPU may read and write there, and children do not get it.  False when the kernel refuses. */
bool zc_view_alias(uintptr_t from, uintptr_t to, size_t n);

/* Leaves nothing at [at, at + n) but the reservation. */
void zc_view_reserve(uintptr_t at, size_t n);

/* Lets the CPU read [at, at + n) of the host heap, and with ZC_VIEW_OPEN write it, where the
 * program did not take that away itself (host/overlay.h).  False when the kernel refuses. */
bool zc_view_protect(uintptr_t at, size_t n, int protection);

/*
 * Gives [at, at + n) of the host heap private pages, with the same content or, without `copy`,
 * zeroes.  Other threads' writes fault meanwhile.  Returns how many bytes were done, from `at` on:
 * less than `n` when the kernel has no memory or no mappings left; the rest is as it was.
 */
size_t zc_view_part(uintptr_t at, size_t n, bool copy);

/* Shows the pages of [alias, alias + n) at `at`, readable, in the place of others.  False, and
 * nothing changed, when the kernel refuses. */
bool zc_view_show(uintptr_t at, uintptr_t alias, size_t n);

/* The same page by page where the kernel does not do all at once.  Returns the bytes done, as
 * zc_view_part() does. */
size_t zc_view_merge(uintptr_t at, uintptr_t alias, size_t n);

/* Why the kernel refused the last change that it refused.  For signal handlers, too. */
const char *zc_view_reason(void);
