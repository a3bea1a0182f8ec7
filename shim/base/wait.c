/* SPDX-License-Identifier: MIT */
/* Waiting by futex(2). */
#include "base/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Threads in zc_wait(): without any, zc_wake() makes no system call.  Atomic.  A child of fork(2)
 * may inherit a number that is too high, which only costs calls. */
static uint32_t sleepers;

void zc_wait(const uint32_t *word, uint32_t value)
{
    int saved = errno;
    __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    __atomic_fetch_sub(&sleepers, 1, __ATOMIC_RELAXED);
    errno = saved;
}

/* A full barrier between the change of the word and the read of `sleepers`, as in zc_wait() between
 * the opposite two.  So one of both sides sees the other. */
void zc_wake(const uint32_t *word)
{
    int saved = errno;
    if (__atomic_fetch_add(&sleepers, 0, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}
