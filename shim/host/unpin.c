/* SPDX-License-Identifier: MIT */
/* Ends registrations that nobody needs: of the pool's surplus, and before a fork. */
#include "base/clock.h"
#include "base/life.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "memory/cgroup.h"

/* How often the pool is looked through, and how long and how often a busy device is waited for. */
#define TIDY_NS UINT64_C(1000000)
#define TIDY_MS 1
#define TIDY_BUSY_NS UINT64_C(250000000)

/* How long a fork waits for a busy device: a millisecond for so many registered bytes, which is
 * what Linux takes to copy them, up to a tenth of a second. */
#define FORK_BYTES_MS ((uint64_t)2 << 20)
#define FORK_MS 100u

void zc_pinned_trim(bool all)
{
    struct zc_extent *e;
    if (!zc_hostheap.bytes || zc_capture_any() || zc_life_closing())
        return;
    while ((e = zc_hostheap_surplus(true, all))) {
        if (!zc_pinned_unregister(e)) {
            e->use = ZC_EXTENT_LIMBO;
            zc_hostheap_revive(e);
            return;
        }
        zc_pinned_release(e, ZC_PIN_NONE);
        zc_hostheap_drop(e);
    }
}

bool zc_pinned_host_has(size_t bytes)
{
    CUcontext context = NULL;
    if (zc_available() >= bytes || !zc_hostheap_pooled())
        return zc_available() >= bytes;
    zc_hostheap_tidy(true);
    if (!zc_capture_any() && zc_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS &&
        zc_driver_lock()) {
        if (zc_stream_all_rest(context, TIDY_MS))
            zc_pinned_trim(true);
        zc_driver_unlock();
    }
    return zc_available() >= bytes;
}

static struct {
    uint64_t last;  /* Ticks of the last time.  Atomic. */
    uint64_t pause; /* Nanoseconds from then on in which it is not tried again.  Atomic. */
} tidied;

/* Unregistering waits for the device, which may wait for something that the program does next: so
 * this only looks for a moment whether the device has nothing to do. */
void zc_pinned_tidy(void)
{
    uint64_t before = __atomic_load_n(&tidied.last, __ATOMIC_RELAXED), now = zc_ticks();
    CUcontext context = NULL;
    if (zc_ticks_to_ns(now - before) <= __atomic_load_n(&tidied.pause, __ATOMIC_RELAXED) ||
        !__atomic_compare_exchange_n(&tidied.last, &before, now, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    zc_hostheap_tidy(false);
    __atomic_store_n(&tidied.pause, TIDY_NS, __ATOMIC_RELAXED);
    void *registrar = zc_hostheap_surplus_context();
    if (!registrar || zc_capture_any() || zc_life_closing() ||
        zc_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != registrar ||
        !zc_driver_lock())
        return;
    if (zc_stream_all_rest(context, TIDY_MS))
        zc_pinned_trim(false);
    else
        __atomic_store_n(&tidied.pause, TIDY_BUSY_NS, __ATOMIC_RELAXED);
    zc_driver_unlock();
}

/* Blocks that graphs rely on stay the device's.  Linux copies nothing of cuMemHostAlloc's, which is
 * shared memory. */
static bool is_copied_by_fork(const struct zc_extent *e)
{
    return zc_extent_registered(e) && !e->owner && !(e->live && zc_pinned_lasts(e)) &&
           !__atomic_load_n(&e->early, __ATOMIC_ACQUIRE);
}

/* Waits no longer than Linux would take for the copies. */
static unsigned fork_ms(void)
{
    uint64_t bytes = 0;
    for (const struct zc_extent *e = NULL; (e = zc_hostheap_next(e, is_copied_by_fork));)
        bytes += zc_extent_span(e);
    return bytes / FORK_BYTES_MS < FORK_MS ? (unsigned)(bytes / FORK_BYTES_MS) : FORK_MS;
}

static void end_before_fork(void)
{
    struct zc_extent *e = zc_hostheap_next(NULL, is_copied_by_fork);
    if (!e || !zc_stream_all_rest(e->context, fork_ms()))
        return;
    for (; e; e = zc_hostheap_next(e, is_copied_by_fork)) {
        enum zc_extent_pin pin = zc_pinned_hold(e);
        bool ended = pin == ZC_PIN_DONE && zc_pinned_unregister(e);
        zc_pinned_release(e, ended ? ZC_PIN_NONE : pin);
    }
}

void zc_pinned_before_fork(void)
{
    if (zc_hostheap.bytes && !zc_life_closing() && zc_driver_lock()) {
        if (!zc_capture_any())
            end_before_fork();
        zc_driver_unlock();
    }
    zc_hostheap_tidy(true);
}
