/* SPDX-License-Identifier: MIT */
/*
 * Extents whose memory is a file without a name (memfd_create(2)), so that it can be mapped at a
 * second address, for a device block that is one with the extent's host block (shared/).
 */
#pragma once

#include <stdbool.h>

#include "host/hostheap.h"

/* Maps a file of the extent's size over its addresses, which have no memory yet; without rights.
 * Where the kernel or a limit of the process refuses, nothing changes: the extent is private memory
 * then. */
void zc_memfile_open(struct zc_extent *extent);

/* Closes the file; the memory lives on wherever it is mapped. */
void zc_memfile_close(struct zc_extent *extent);

/* True while a second mapping of the extent's memory shows what the extent shows. */
static inline bool zc_memfile_shareable(const struct zc_extent *extent)
{
    return extent->fd && !__atomic_load_n(&extent->frozen, __ATOMIC_ACQUIRE);
}

/* Exchanges the files of two shareable extents of one length, of which `to` shows the other's
 * memory already, and maps what `from` has got.  Where that is not possible, `from` becomes odd. */
void zc_memfile_exchange(struct zc_extent *from, struct zc_extent *to);

/*
 * Maps whole units [at, at + n) of the extent privately: what is written there from now on goes to
 * copies of its pages, and the file keeps what it has.  The rights are those that the program wants
 * (host/overlay.h), but to write only with `write`.  The caller has to make the extent frozen.
 * Async-signal-safe.  False where the kernel has no memory.
 */
bool zc_memfile_part(const struct zc_extent *extent, uintptr_t at, size_t n, bool write);

/* The same for the whole extent: no other mapping shows it any more. */
bool zc_memfile_freeze(struct zc_extent *extent);

/* The same for all extents without a pair.  Under the heap's lock, which is held until the fork is
 * over, so that no thread gets another block meanwhile. */
void zc_memfile_before_fork(void);
