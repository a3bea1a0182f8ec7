/* SPDX-License-Identifier: MIT */
/*
 * Extents whose memory is a file without a name (memfd_create(2)), so that it can be mapped at a
 * second address, for a device block that is one with the extent's host block (shared/).
 *
 * At first the CPU writes the file.  From the first copy to the device on, it has a private view of
 * it, from the extent's beginning up to `private_bytes`: Linux gives each page that is written
 * there, by whatever means, a page of its own, and the file keeps what it has.  host/pagemap.h
 * tells them.
 */
#pragma once

#include <stdbool.h>

#include "host/heap.h"

/* Maps a file of the extent's size over its addresses, which have no memory yet; without rights.
 * Where the kernel or a limit of the process refuses, nothing changes: the extent is private memory
 * then. */
void zc_memfile_open(struct zc_extent *extent);

/* True while the file may be written for what the extent holds: it has one, which no child of
 * fork(2) sees, and the program has changed no mapping of the extent. */
static inline bool zc_memfile_shareable(const struct zc_extent *extent)
{
    return extent->inode && !__atomic_load_n(&extent->frozen, __ATOMIC_ACQUIRE);
}

/* Shows the file at [at, at + span of the extent) as well, in the place of what is mapped there;
 * the CPU may read and write there, and children do not get it.  On failure false, and only the
 * reservation is there. */
bool zc_memfile_show(const struct zc_extent *extent, uintptr_t at);

/* Leaves nothing at [at, at + n) but the reservation. */
void zc_memfile_reserve(uintptr_t at, size_t n);

/* The first `bytes` of the extent, in whole units, become a private view, without a copy and in one
 * step for other threads.  False, and nothing changed, when the kernel refuses. */
bool zc_memfile_make_private(struct zc_extent *extent, size_t bytes);

/* The same for all of it, which children of fork(2) get from now on: the extent is `frozen`, so
 * that nothing is written into its file any more.  False, and nothing changed, when the kernel
 * refuses: then no child gets the extent. */
bool zc_memfile_freeze(struct zc_extent *extent);

/* The file keeps nothing for whole pages [from, from + n) of which a private view has its own,
 * unless a child may show the file's. */
void zc_memfile_forget(const struct zc_extent *extent, size_t from, size_t n);

/* The block's owner frees it: the CPU writes the file again, and what was private goes.  Where that
 * is not possible no other block gets the extent. */
void zc_memfile_drop_private(struct zc_extent *extent);

/* zc_memfile_freeze() for all extents.  Under the heap's lock, which is held until the fork is
 * over, so that no thread gets another block or a private view meanwhile. */
void zc_memfile_before_fork(void);
