/* SPDX-License-Identifier: MIT */
/* Streams that wait for the CPU. */
#include "driver/await.h"

#include "base/own.h"

static ZC_OWN bool any; /* Some stream may wait for the CPU.  Atomic. */

bool zc_await_any(void)
{
    return __atomic_load_n(&any, __ATOMIC_RELAXED);
}

void zc_await_note(void)
{
    __atomic_store_n(&any, true, __ATOMIC_RELAXED);
}
