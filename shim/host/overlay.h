/* SPDX-License-Identifier: MIT */
/* The rights that the program gave pages of its blocks by mprotect(2) and related calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/hostheap.h"

/* Rights are PROT_*.  ZC_OVERLAY_OPEN: as malloc gives pages. */
#define ZC_OVERLAY_OPEN 3
#define ZC_OVERLAY_FOREIGN 0x80 /* A mapping made by the program; libzc must not change it. */

/*
 * If the program changes pages of an extent, the extent gets a record of the rights of each 4 KiB,
 * until its block is freed.  Only the block's owner changes it; any thread may read it, even in a
 * signal handler.  All addresses and sizes are whole pages within one extent.
 */

/* Records rights.  False if there is no memory for the record. */
bool zc_overlay_note(struct zc_extent *extent, uintptr_t at, size_t n, int rights);

/* The rights of the page at an address. *end_out is where the next page with other rights begins,
 * at most `high`. */
int zc_overlay_run(const struct zc_extent *extent, uintptr_t at, uintptr_t high,
                   uintptr_t *end_out);

/* True if the program allows the CPU this access. */
bool zc_overlay_permits(const struct zc_extent *extent, uintptr_t address, bool write);

/* Accesses the bytes of [at, at + n) that the program took rights from, as a copy by the CPU would,
 * so that the program's own handler gets the faults.  The caller must hold no lock. */
void zc_overlay_probe(const struct zc_extent *extent, uintptr_t at, size_t n, bool write);

/* Drops the record, once the pages belong to nobody. */
void zc_overlay_drop(struct zc_extent *extent);

/* True if some page has other rights than malloc gives. */
static inline bool zc_overlay_any(const struct zc_extent *extent)
{
    return __builtin_expect(__atomic_load_n(&extent->guards, __ATOMIC_ACQUIRE) != 0, 0);
}
