/* SPDX-License-Identifier: MIT */
/* Makes host pages faster than the driver does: huge, and touched by several threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZC_HUGE_PAGE ((size_t)2 << 20)

/* Returns `bytes`, rounded up to huge pages and aligned to one, with every page present, from a
 * NUMA node as zc_workers_fill() takes them.  `margin` bytes of small pages, not present yet, lie
 * on both sides.  NULL if the kernel refuses. */
void *zc_pages_make(size_t bytes, size_t margin, int node);

/* Gives pages back.  `bytes` and `margin` are those of zc_pages_make(). */
void zc_pages_unmake(void *pages, size_t bytes, size_t margin);

/* Bytes of huge pages that are free, by the text of /proc/buddyinfo: for more the kernel would have
 * to move what lies between them first.  UINT64_MAX where the kernel does not tell. */
uint64_t zc_pages_huge_in(const char *buddyinfo);
uint64_t zc_pages_free_huge(void);

/* Bytes that zc_pages_make() really uses. */
static inline size_t zc_pages_span(size_t bytes)
{
    return (bytes + ZC_HUGE_PAGE - 1) & ~(ZC_HUGE_PAGE - 1);
}
