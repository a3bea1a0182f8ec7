/* SPDX-License-Identifier: MIT */
/* What the program itself made of the pages of its blocks: mprotect(2) and kin. */
#ifndef ZC_HOST_OVERLAY_H
#define ZC_HOST_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/hostheap.h"

/* Rights are PROT_*; pages of malloc's have ZC_OVERLAY_OPEN. */
#define ZC_OVERLAY_OPEN 3
#define ZC_OVERLAY_FOREIGN 0x80 /* A mapping of the program's own: libzc must not change it. */

/*
 * Each extent of which the program changed pages has a record of the rights that it wants, for each
 * 4 KiB, until its block is freed.  Only the block's owner changes it; any thread may read, also in
 * a signal handler.  Addresses and sizes are of whole pages within one extent.
 */

/* Notes rights.  False when there is no memory for the record. */
bool zc_overlay_note(struct zc_extent *extent, uintptr_t at, size_t n, int rights);

/* The rights of the page at an address, and in *end_out where the next page has others: at most
 * `high`. */
int zc_overlay_run(const struct zc_extent *extent, uintptr_t at, uintptr_t high,
                   uintptr_t *end_out);

/* True where the program did not take the CPU's right to an access away. */
bool zc_overlay_permits(const struct zc_extent *extent, uintptr_t address, bool write);

/* Accesses what the program took rights from in [at, at + n), as a copy by the caller's CPU would:
 * the program's own handler gets the faults.  No lock may be held. */
void zc_overlay_probe(const struct zc_extent *extent, uintptr_t at, size_t n, bool write);

/* Forgets the record: the pages are nobody's. */
void zc_overlay_drop(struct zc_extent *extent);

/* True while some page has other rights than malloc's. */
static inline bool zc_overlay_any(const struct zc_extent *extent)
{
    return __builtin_expect(__atomic_load_n(&extent->guards, __ATOMIC_ACQUIRE) != 0, 0);
}

#endif
