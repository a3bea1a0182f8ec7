/* SPDX-License-Identifier: MIT */
/* Host pages made faster than the driver makes them: huge, touched in parallel. */
#ifndef ZC_MEMORY_PAGES_H
#define ZC_MEMORY_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define ZC_HUGE_PAGE ((size_t)2 << 20)

/* `bytes` rounded up to huge pages, aligned to one, every page present; on NUMA node `node` if that
 * is not negative.  `margin` bytes of small pages, not present yet, lie before and behind them.
 * NULL when the kernel refuses. */
void *zc_pages_make(size_t bytes, size_t margin, int node);

/* Gives them back; `bytes` and `margin` as asked for. */
void zc_pages_unmake(void *pages, size_t bytes, size_t margin);

/* Binds pages that were not touched yet to a NUMA node (mbind(2)); nothing to do for a negative
 * one. False when the kernel refuses. */
bool zc_pages_bind(void *pages, size_t bytes, int node);

/* Binds pages to a node and moves there those that lie elsewhere, as far as the kernel can. */
bool zc_pages_move(void *pages, size_t bytes, int node);

/* What zc_pages_make() really takes. */
static inline size_t zc_pages_span(size_t bytes)
{
    return (bytes + ZC_HUGE_PAGE - 1) & ~(ZC_HUGE_PAGE - 1);
}

#endif
