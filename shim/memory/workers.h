/* SPDX-License-Identifier: MIT */
/* Short-lived threads for work on large ranges of host memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the part [at, at + n) of a task. */
typedef void zc_workers_fn(void *task, size_t at, size_t n);

/* Does a task of n bytes by the calling thread and, for each `worth` bytes, one more, in parts of
 * multiples of `unit`, but for the last one.  Waits for no thread that the kernel has not run. */
void zc_workers_split(zc_workers_fn *run, void *task, size_t n, size_t worth, size_t unit);

/* memcpy(3), by several threads from 8 MiB on.  Ranges must not overlap. */
void zc_workers_copy(void *dst, const void *src, size_t n);

/*
 * Memory whose pages threads bring in from its first byte to its last, while the caller goes on
 * behind them.  The memory begins at a huge page.  The pages come from a NUMA node, unless that is
 * negative, or the calling thread has chosen others (set_mempolicy(2)).
 * zc_workers_filled() helps until the first n bytes are there; zc_workers_end_fill() must follow,
 * and begins nothing more.  NULL, which both of them take: there was no memory for more, and
 * everything is there.
 */
enum zc_fill_of {
    ZC_FILL_FRESH, /* Memory that has no content.  A byte of each page may become 0. */
    ZC_FILL_FILE,  /* Shared memory, with no content: becomes huge pages, whole ones to the end. */
    ZC_FILL_USED,  /* Keeps its content; before Linux 5.14 nothing comes. */
};
struct zc_fill;
struct zc_fill *zc_workers_fill(void *memory, size_t n, enum zc_fill_of of, int node);
void zc_workers_filled(struct zc_fill *fill, size_t n);
void zc_workers_end_fill(struct zc_fill *fill);

/* All three, of fresh memory or of a file's. */
void zc_workers_prefault(void *memory, size_t n, bool file, int node);

/* memset(3) to 0, by several threads from 8 MiB on. */
void zc_workers_zero(void *memory, size_t n);

/*
 * True if the CPU may read, or write, every page of a range; they are present then.  False if parts
 * are not mapped, protected, or behind the end of their file, and before Linux 5.14 (madvise(2),
 * MADV_POPULATE_READ).
 */
bool zc_workers_reach(void *memory, size_t n, bool write);
