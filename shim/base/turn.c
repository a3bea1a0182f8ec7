/* SPDX-License-Identifier: MIT */
/* A turn: mutual exclusion that may last while the driver is called. */
#include "base/turn.h"

#include <sched.h>

#include "base/lock.h"

bool zc_turn_take(struct zc_turn *turn)
{
    uint32_t me = zc_thread_id(), nobody = 0;
    while (!__atomic_compare_exchange_n(&turn->holder, &nobody, me, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        if (nobody == me)
            return false;
        if (nobody)
            sched_yield();
        nobody = 0;
    }
    return true;
}

void zc_turn_drop(struct zc_turn *turn)
{
    __atomic_store_n(&turn->holder, 0, __ATOMIC_RELEASE);
}
