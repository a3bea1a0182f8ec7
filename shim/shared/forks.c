/* SPDX-License-Identifier: MIT */
/* Holds pairs still during a fork, so that no child inherits one in the middle of a change. */
#include "shared/forks.h"

#include <stdint.h>

#include "base/lock.h"
#include "base/module.h"
#include "base/wait.h"

static uint32_t forking;       /* The thread that forks, or 0.  Atomic. */
static uint32_t working;       /* Threads that hold locks of pairs.  Atomic. */
static __thread uint32_t held; /* Locks of pairs that this thread holds. */

static void rest(void)
{
    __atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&forking, __ATOMIC_SEQ_CST))
        zc_wake(&working);
}

/* A thread that holds a lock may take further ones, because the forking thread waits for it. */
void zc_shared_begin_work(void)
{
    if (held++)
        return;
    for (;;) {
        __atomic_fetch_add(&working, 1, __ATOMIC_SEQ_CST);
        uint32_t thread = __atomic_load_n(&forking, __ATOMIC_SEQ_CST);
        if (!thread || thread == zc_thread_id())
            return;
        rest();
        zc_wait(&forking, thread);
    }
}

void zc_shared_end_work(void)
{
    if (!--held)
        rest();
}

/* Waits until no thread works on pairs, and keeps it so until after_fork(), and in the child.
 * Locks of pairs are held only for work of the CPU, so the wait ends. */
static void before_fork(void)
{
    uint32_t other = 0, others;
    while (!__atomic_compare_exchange_n(&forking, &other, zc_thread_id(), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
        zc_wait(&forking, other);
        other = 0;
    }
    while ((others = __atomic_load_n(&working, __ATOMIC_SEQ_CST)) > (held ? 1 : 0))
        zc_wait(&working, others);
}

static void after_fork(void)
{
    __atomic_store_n(&forking, 0, __ATOMIC_SEQ_CST);
    zc_wake(&forking);
}

bool zc_shared_forking(void)
{
    return __atomic_load_n(&forking, __ATOMIC_RELAXED) == zc_thread_id();
}

static void inherit(void)
{
    held = working = 0;
}

const struct zc_module zc_module_forks = {
    .before_fork = before_fork, .after_fork = after_fork, .inherit = inherit};
