/* Short-lived threads for work on large ranges of host memory. */
#ifndef ZC_PLACE_WORKERS_H
#define ZC_PLACE_WORKERS_H

#include <stddef.h>

/* memcpy(3), by several threads from 8 MiB on.  Ranges must not overlap. */
void zc_workers_copy(void *dst, const void *src, size_t n);

/* Writes one byte to each page of fresh memory, by several threads from 8 MiB on. */
void zc_workers_touch(void *memory, size_t n);

/* memset(3) to 0, by several threads from 8 MiB on. */
void zc_workers_zero(void *memory, size_t n);

#endif
