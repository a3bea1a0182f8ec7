/* SPDX-License-Identifier: MIT */
/* A small lock that a signal handler may meet. */
#ifndef ZC_BASE_LOCK_H
#define ZC_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The order in which a thread may take locks: only ever a later one than those it holds. */
enum zc_lock_rank {
    ZC_RANK_MODULE, /* Tables of all rooms above log/. */
    ZC_RANK_LEDGER, /* Blocks. */
    ZC_RANK_SITE,   /* Sites. */
    ZC_RANK_LOG,    /* The log's lines. */
    ZC_RANK_ARENA,  /* libzc's own memory. */
};

/* No lock is held while libzc calls the driver, the loader or a libc function that may allocate. */
struct zc_lock {
    uint32_t owner; /* Thread id of the holder, 0 when free.  Only accessed atomically. */
    uint32_t rank;  /* enum zc_lock_rank; constant. */
};

#define ZC_LOCK(order) ((struct zc_lock){0, (order)})

/*
 * Takes the lock, waiting for other threads.  Returns false, without taking it, when the calling
 * thread holds this lock or a later one already: then we are in a signal handler that interrupted a
 * critical section, and waiting might never end.  The caller passes through without recording.
 */
bool zc_lock_take(struct zc_lock *lock);

/* Gives the lock back.  Only the holder may call it. */
void zc_lock_drop(struct zc_lock *lock);

/* Forgets any holder.  For the child of fork(2), whose other threads no longer exist. */
void zc_lock_reset(struct zc_lock *lock);

/* The calling thread's kernel id, cached per thread; right in the child of fork(2) too, once
 * zc_thread_id_reset() ran there. */
uint32_t zc_thread_id(void);
void zc_thread_id_reset(void);

#endif
