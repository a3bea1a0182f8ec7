/* SPDX-License-Identifier: MIT */
/* Memory on its way back to the driver. */
#include "memory/release.h"

#include "base/module.h"
#include "base/wait.h"
#include "driver/await.h"
#include "driver/lock.h"

static unsigned under_way;    /* Releases in flight, in all threads.  Atomic. */
static uint32_t ended;        /* Releases that have ended.  Atomic. */
static __thread unsigned own; /* Those of them that this thread made. */
static uint32_t news;         /* Counts the changes that zc_release_wait() waits for.  Atomic. */

void zc_release_begin(void)
{
    __atomic_fetch_add(&under_way, 1, __ATOMIC_ACQ_REL);
}

void zc_release_end(void)
{
    own++;
    __atomic_fetch_add(&ended, 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_sub(&under_way, 1, __ATOMIC_ACQ_REL);
    zc_wait_step(&news);
}

void zc_release_await(void)
{
    zc_await_note();
    zc_wait_step(&news);
}

/* Who is waited for may need the lock. */
static bool has_lock(void)
{
    bool taken = zc_driver_lock();
    if (taken)
        zc_driver_unlock();
    return !taken;
}

/* A release that ended before the request failed counts, too: then the request is made once more
 * than necessary. */
bool zc_release_wait(unsigned *seen)
{
    bool waits = __atomic_load_n(&under_way, __ATOMIC_ACQUIRE) && !has_lock();
    uint32_t before = __atomic_load_n(&news, __ATOMIC_SEQ_CST);
    while (waits && __atomic_load_n(&under_way, __ATOMIC_ACQUIRE) && !zc_await_any()) {
        zc_wait(&news, before);
        before = __atomic_load_n(&news, __ATOMIC_SEQ_CST);
    }
    unsigned others = __atomic_load_n(&ended, __ATOMIC_ACQUIRE) - own;
    bool more = others != *seen;
    *seen = others;
    return more;
}

static void in_child(void)
{
    under_way = 0;
}

const struct zc_module zc_module_release = {.child = in_child};
