/* SPDX-License-Identifier: MIT */
/* Waits until another thread changes a word of memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* futex(2) without a timeout, on a word of this process; keeps errno. */
void zc_futex(const uint32_t *word, int operation, uint32_t value);

/* Sleeps while the word has this value, until zc_wake() at the latest.  It may return early, so
 * callers test again.  No cancellation point; async-signal-safe; keeps errno. */
void zc_wait(const uint32_t *word, uint32_t value);

/* Wakes all threads that wait for the word, after the caller changed it.  Makes a system call only
 * if some thread waits. */
void zc_wake(const uint32_t *word);

/* Sleeps; no cancellation point; keeps errno. */
void zc_nap(unsigned microseconds);

/* Waits until the word has this value, woken by zc_wake(); false if that takes longer than
 * `most_ms`.  No cancellation point; async-signal-safe; keeps errno. */
bool zc_wait_until(const uint32_t *word, uint32_t value, unsigned most_ms);

/* Increments a counter that threads wait for, and wakes them. */
static inline void zc_wait_step(uint32_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
    zc_wake(counter);
}
