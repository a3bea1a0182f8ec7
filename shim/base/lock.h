/* SPDX-License-Identifier: MIT */
/* A small lock that a signal handler may meet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The order of locks, one rank each: a thread may only take a later one than those it holds. */
enum zc_lock_rank {
    ZC_RANK_DRIVER, /* driver/lock.h.  Held while the driver is called. */
    ZC_RANK_BEGIN,  /* Captures that begin.  Held while the driver is called. */
    ZC_RANK_ACCESS, /* Address ranges and their rights.  Held while the driver is called. */
    ZC_RANK_MARKS,  /* Marks behind launches.  Held while the driver is called. */
    ZC_RANK_GRAPH,  /* Tables of modules: of these only one is held at a time. */
    ZC_RANK_FREED,
    ZC_RANK_PAIRS,
    ZC_RANK_HINT,
    ZC_RANK_RATES,
    ZC_RANK_UNKNOWN, /* Calls that libzc does not know. */
    ZC_RANK_RULES,   /* Reading the policy. */
    ZC_RANK_OPENING, /* Opening the host heap. */
    ZC_RANK_HEAP,    /* The host heap. */
    ZC_RANK_SOURCE,  /* Sources of pageable memory. */
    ZC_RANK_LIMITS,  /* Finding out the limits. */
    ZC_RANK_CGROUP,  /* Reading what control groups leave. */
    ZC_RANK_MISSED,  /* Requests that no rule took. */
    ZC_RANK_LEDGER,  /* Blocks. */
    ZC_RANK_SITE,    /* Sites. */
    ZC_RANK_LOG,     /* The log's lines. */
    ZC_RANK_ARENA,   /* libzc's own memory. */
};

/* Except for the first four, no lock is held while libzc calls the driver, the loader or a libc
 * function that may allocate. */
struct zc_lock {
    uint32_t owner; /* See zc_word_lock(). */
    uint32_t rank;  /* enum zc_lock_rank; constant. */
};

/* Defines a lock.  All are in one section, because the child of fork(2) finds them free. */
#define ZC_LOCK(name, order) struct zc_lock name __attribute__((section("zc_locks"))) = {0, (order)}

/*
 * Takes the lock, waiting for other threads.  Returns false, without taking it, when the calling
 * thread holds this lock or a later one already: then we are in a signal handler that interrupted a
 * critical section, and waiting might never end.  The caller passes through without recording.
 */
bool zc_lock_take(struct zc_lock *lock);

/* Gives the lock back.  Only the holder may call it. */
void zc_lock_drop(struct zc_lock *lock);

/* Takes a lock until the end of the block; `name` is NULL where zc_lock_take() is false. */
#define ZC_LOCK_HELD(name, lock)                                                                   \
    struct zc_lock *name __attribute__((cleanup(zc_lock_leave), unused)) =                         \
        zc_lock_take(lock) ? (lock) : NULL
static inline void zc_lock_leave(struct zc_lock *const *held)
{
    if (*held)
        zc_lock_drop(*held);
}

/* Whether the calling thread holds a lock, or is taking one. */
bool zc_lock_held(void);

/* Forgets the holders of all locks, for the child of fork(2), which has no other threads. */
void zc_lock_reset_all(void);

/* The same without a rank, on a word that is 0 while it is free.  Only where no handler can
 * interrupt the holder and wait for the lock. */
void zc_word_lock(uint32_t *word);
void zc_word_unlock(uint32_t *word);

/* The calling thread's kernel id, cached per thread; right in the child of fork(2) too, once
 * zc_thread_id_reset() ran there. */
uint32_t zc_thread_id(void);
void zc_thread_id_reset(void);
