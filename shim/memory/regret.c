/* SPDX-License-Identifier: MIT */
/* Times kernels by two events around one launch after the other, and adds up what they lose. */
#include "memory/regret.h"

#include <string.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"

/*
 * A move takes microseconds for a small block, and bytes a microsecond: those of the fastest move
 * so far, and before there was one those of PCIe 5.  Two blocks of 32, 128 and 512 MiB change
 * places in 0.98, 3.29 and 12.4 ms there, and the pages of 1 GiB of `shared` become device memory
 * in 23.5 (tests/gpu/MEASURED.md): this says 1.3, 3.7, 13.3 and 26.1.
 */
#define MOVE_US 500u
#define MOVE_RATE 42000u

/* Of smaller blocks calls take most of the time. */
#define TIMED_FROM ((uint64_t)16 << 20)

static ZC_OWN uint64_t fastest; /* Rate of that move; 0: there was none.  Atomic. */

/* Of each device.  No lock: the thread that changes the state from IDLE or PENDING to BUSY owns the
 * rest. */
enum timer_state { IDLE, BUSY, PENDING };
static ZC_OWN struct timer {
    uint32_t state; /* enum timer_state.  Atomic. */
    bool waited;    /* A launch has waited in vain.  Atomic. */
    CUcontext context;
    CUevent first, last; /* Of that context; NULL: to be made. */
    zc_timed_fn told;
    _Alignas(uint64_t) char noted[ZC_REGRET_NOTED];
} timers[ZC_DEVICES];
static ZC_OWN uint32_t pending; /* Timers in that state.  Atomic. */

/* That of the current context's device. */
static struct timer *timer_here(void)
{
    CUdevice device = 0;
    zc_real.cuCtxGetDevice(&device);
    return &timers[device < ZC_DEVICES ? device : ZC_DEVICES - 1];
}

/* The same, but NULL where none is pending: most launches are not timed, and ask nothing. */
static struct timer *timer_pending(void)
{
    return __atomic_load_n(&pending, __ATOMIC_RELAXED) ? timer_here() : NULL;
}

void zc_regret_moved(uint64_t bytes, uint64_t start)
{
    uint64_t rate = bytes / (zc_ticks_to_ns(zc_ticks() - start) / 1000 + 1);
    if (bytes >= TIMED_FROM && rate > __atomic_load_n(&fastest, __ATOMIC_RELAXED))
        __atomic_store_n(&fastest, rate, __ATOMIC_RELAXED);
}

uint64_t zc_regret_cost(uint64_t bytes)
{
    uint64_t rate = __atomic_load_n(&fastest, __ATOMIC_RELAXED);
    return MOVE_US + bytes / (rate ? rate : MOVE_RATE);
}

bool zc_regret_owes(uint64_t *owed, uint64_t lost, uint64_t bytes)
{
    if (__atomic_add_fetch(owed, lost, __ATOMIC_RELAXED) <= zc_regret_cost(bytes))
        return false;
    __atomic_store_n(owed, 0, __ATOMIC_RELAXED);
    return true;
}

static bool timer_take(struct timer *t, enum timer_state from)
{
    uint32_t expected = from;
    bool taken = __atomic_compare_exchange_n(&t->state, &expected, BUSY, false, __ATOMIC_ACQUIRE,
                                             __ATOMIC_RELAXED);
    if (taken && from == PENDING)
        __atomic_fetch_sub(&pending, 1, __ATOMIC_RELAXED);
    return taken;
}

static void timer_leave(struct timer *t, enum timer_state to)
{
    if (to == PENDING)
        __atomic_fetch_add(&pending, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&t->state, to, __ATOMIC_RELEASE);
}

void zc_regret_collect(void)
{
    float ms = 0;
    struct timer *t = timer_pending();
    if (!t || zc_capture_any() || !timer_take(t, PENDING))
        return;
    CUresult result = zc_real.cuEventElapsedTime(&ms, t->first, t->last);
    if (result == CUDA_SUCCESS)
        t->told(t->noted, (uint64_t)(ms * 1000));
    else if (result != CUDA_ERROR_NOT_READY)
        t->first = t->last = NULL; /* Their context has gone. */
    timer_leave(t, result == CUDA_ERROR_NOT_READY ? PENDING : IDLE);
}

static bool timer_has_events(struct timer *t)
{
    CUcontext current = NULL;
    if (zc_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return false;
    if (t->first)
        return current == t->context;
    t->context = current;
    if (zc_real.cuEventCreate(&t->first, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuEventCreate(&t->last, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return true;
    zc_real.cuEventDestroy_v2(t->first);
    t->first = NULL;
    return false;
}

static CUresult timer_record(CUevent event, const struct zc_launch *launch)
{
    return ZC_FLAVOURED(launch->flavour, cuEventRecord)(event, launch->stream);
}

static void timer_after(const struct zc_launch *launch)
{
    struct timer *t = timer_here();
    timer_leave(t, timer_record(t->last, launch) == CUDA_SUCCESS ? PENDING : IDLE);
}

bool zc_regret_time(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                    size_t bytes)
{
    struct timer *t = timer_here();
    if (bytes > ZC_REGRET_NOTED || !timer_take(t, IDLE))
        return false;
    if (!timer_has_events(t) || timer_record(t->first, launch) != CUDA_SUCCESS) {
        timer_leave(t, IDLE);
        return false;
    }
    t->told = told;
    memcpy(t->noted, noted, bytes);
    zc_launch_when_done(timer_after);
    return true;
}

void zc_regret_wait(bool (*unknown)(const void *arg), const void *arg, unsigned most_ms)
{
    uint64_t start = zc_ticks();
    struct timer *t = timer_pending();
    while (t && __atomic_load_n(&t->state, __ATOMIC_RELAXED) == PENDING && unknown(arg) &&
           !__atomic_load_n(&t->waited, __ATOMIC_RELAXED) && !zc_capture_any()) {
        if (zc_ticks_to_ns(zc_ticks() - start) > most_ms * UINT64_C(1000000) &&
            !__atomic_exchange_n(&t->waited, true, __ATOMIC_RELAXED))
            zc_message(ZC_NOTE, "launch",
                       "a kernel did not end within the %u ms that a launch has waited for its "
                       "time: launches wait for that no more",
                       most_ms);
        zc_nap(50);
        zc_regret_collect();
    }
}

static void timer_context_gone(CUcontext context)
{
    for (struct timer *t = timers; t < timers + ZC_DEVICES; t++) {
        if (t->context != context || !(timer_take(t, IDLE) || timer_take(t, PENDING)))
            continue;
        t->first = t->last = NULL;
        timer_leave(t, IDLE);
    }
}

const struct zc_module zc_module_regret = {.context_gone = timer_context_gone};
