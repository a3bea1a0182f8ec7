/* SPDX-License-Identifier: MIT */
/* Short-lived threads for work on large ranges of host memory. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the part [at, at + n) of a task. */
typedef void zc_workers_fn(void *task, size_t at, size_t n);

/* Does a task of n bytes by the calling thread and others, each with a share of at least `worth`
 * bytes that is a multiple of `unit`, but for the last one. */
void zc_workers_split(zc_workers_fn *run, void *task, size_t n, size_t worth, size_t unit);

/* memcpy(3), by several threads from 8 MiB on.  Ranges must not overlap. */
void zc_workers_copy(void *dst, const void *src, size_t n);

/*
 * Memory whose pages threads bring in from its first byte to its last, while the caller goes on
 * behind them.  The memory begins at a huge page, and keeps its content; but before Linux 5.14 a
 * byte of each page becomes 0.  Memory of a `file` becomes huge pages, whole ones to the end.
 * zc_workers_filled() helps until the first n bytes are there; zc_workers_end_fill() must follow,
 * and begins nothing more.
 */
#define ZC_WORKERS_MAX 16
struct zc_fill {
    void *memory;
    zc_workers_fn *run;
    size_t n, step, next;      /* `next`: first byte that nobody has begun.  Atomic. */
    size_t at[ZC_WORKERS_MAX]; /* What each does ends behind it; SIZE_MAX: nothing.  Atomic. */
    uint32_t news, turn;       /* Counts the steps that are done, and the threads.  Atomic. */
    unsigned threads;          /* Beside the caller. */
    pthread_t thread[ZC_WORKERS_MAX];
};
void zc_workers_fill(struct zc_fill *fill, void *memory, size_t n, bool file);
void zc_workers_filled(struct zc_fill *fill, size_t n);
void zc_workers_end_fill(struct zc_fill *fill);

/* All three. */
void zc_workers_prefault(void *memory, size_t n, bool file);

/* memset(3) to 0, by several threads from 8 MiB on. */
void zc_workers_zero(void *memory, size_t n);

/*
 * True if the CPU may read, or write, every page of a range; they are present then.  False if parts
 * are not mapped, protected, or behind the end of their file, and before Linux 5.14 (madvise(2),
 * MADV_POPULATE_READ).
 */
bool zc_workers_reach(void *memory, size_t n, bool write);

/*
 * Starts a thread of libzc's, to be ended by zc_workers_end(); `run` must not need much stack.  All
 * signals are blocked in it, because the program's handlers must not run in a thread that the
 * program does not know.  False if no thread can be started.
 */
bool zc_workers_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Waits for a thread that is about to end.  It spins, because waking up takes longer. */
void zc_workers_end(pthread_t thread);

/*
 * Runs a function in a thread of libzc's whose table of descriptors is its own, and empty: what it
 * opens no other thread can close, or take for its own.  `run` writes no message.  False, without
 * having run it, if no thread can be started, and before Linux 5.9.
 */
bool zc_workers_aside(void (*run)(void *arg), void *arg);

/* Processors that the calling thread may run on. */
size_t zc_workers_cpus(void);
