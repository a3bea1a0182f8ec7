/* Short-lived threads for work on large ranges of host memory. */
#ifndef ZC_PLACE_WORKERS_H
#define ZC_PLACE_WORKERS_H

#include <stdbool.h>
#include <stddef.h>

/* memcpy(3), by several threads from 8 MiB on.  Ranges must not overlap. */
void zc_workers_copy(void *dst, const void *src, size_t n);

/* Writes one byte to each page of fresh memory, by several threads from 8 MiB on. */
void zc_workers_touch(void *memory, size_t n);

/* memset(3) to 0, by several threads from 8 MiB on. */
void zc_workers_zero(void *memory, size_t n);

/*
 * True when the CPU may read, or write, every page of a range; they are present then.  False for a
 * range that is not mapped whole, is protected, or ends behind its file, and before Linux 5.14
 * (madvise(2), MADV_POPULATE_READ).
 */
bool zc_workers_reach(void *memory, size_t n, bool write);

/* Processors that the calling thread may run on. */
size_t zc_workers_cpus(void);

#endif
