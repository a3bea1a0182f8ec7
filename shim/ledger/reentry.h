/* SPDX-License-Identifier: MIT */
/*
 * The reentrancy guard: whether the calling thread is inside the ledger, so that a signal handler
 * that interrupted it passes through.  Locks alone are not enough: a handler that interrupted the
 * holder of one lock must not wait for another lock, whose holder may wait for the first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

extern __thread uint8_t zc_reentry_inside __attribute__((tls_model("initial-exec")));

/* Enters; false if the calling thread is inside already. */
static inline bool zc_reentry_enter(void)
{
    if (zc_reentry_inside)
        return false;
    zc_reentry_inside = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

static inline void zc_reentry_leave(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    zc_reentry_inside = 0;
}

/* The arena for code outside of the ledger: a handler that interrupts the arena finds the guard
 * set, too. zc_reentry_arena_get() returns NULL in a handler that interrupted the ledger. */
static inline void *zc_reentry_arena_get(size_t bytes)
{
    if (!zc_reentry_enter())
        return NULL;
    void *memory = zc_arena_get(bytes);
    zc_reentry_leave();
    return memory;
}

static inline void zc_reentry_arena_put(void *memory, size_t bytes)
{
    bool entered = zc_reentry_enter();

    zc_arena_put(memory, bytes);
    if (entered)
        zc_reentry_leave();
}
