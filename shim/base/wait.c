/* SPDX-License-Identifier: MIT */
/* Waiting by futex(2). */
#include "base/wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/errno.h"

/* Threads in zc_wait(): without any, zc_wake() makes no system call.  Atomic.  A child of fork(2)
 * may inherit a number that is too high, which only costs calls. */
static uint32_t sleepers;

void zc_futex(const uint32_t *word, int operation, uint32_t value)
{
    ZC_KEEPS_ERRNO;
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

void zc_nap(unsigned microseconds)
{
    const struct timespec t = {.tv_nsec = microseconds * 1000L};
    ZC_KEEPS_ERRNO;
    syscall(SYS_nanosleep, &t, NULL);
}

void zc_wait(const uint32_t *word, uint32_t value)
{
    __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
    zc_futex(word, FUTEX_WAIT_PRIVATE, value);
    __atomic_fetch_sub(&sleepers, 1, __ATOMIC_RELAXED);
}

/* A full barrier between the change of the word and the read of `sleepers`, as in zc_wait() between
 * the opposite two.  So one of both sides sees the other. */
void zc_wake(const uint32_t *word)
{
    if (__atomic_fetch_add(&sleepers, 0, __ATOMIC_SEQ_CST))
        zc_futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

bool zc_wait_until(const uint32_t *word, uint32_t value, unsigned most_ms)
{
    struct timespec end;
    uint32_t now;
    ZC_KEEPS_ERRNO;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += most_ms / 1000;
    end.tv_nsec += most_ms % 1000 * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
    while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != value) {
        errno = 0;
        syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, now, &end, NULL,
                FUTEX_BITSET_MATCH_ANY);
        if (errno && errno != EAGAIN && errno != EINTR)
            break;
    }
    __atomic_fetch_sub(&sleepers, 1, __ATOMIC_RELAXED);
    return now == value;
}
