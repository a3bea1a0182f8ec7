/* SPDX-License-Identifier: MIT */
/* How long kernels take: by two events around one launch after the other. */
#include "driver/timing.h"

#include <string.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"

/* No lock: who changes the state from IDLE or PENDING to BUSY has the rest. */
enum timer_state { IDLE, BUSY, PENDING };
static ZC_OWN struct {
    uint32_t state; /* enum timer_state.  Atomic. */
    bool waited;    /* A launch has waited in vain.  Atomic. */
    CUcontext context;
    CUevent first, last; /* Of that context; NULL: to be made. */
    zc_timed_fn told;
    _Alignas(uint64_t) char noted[ZC_TIMED_BYTES];
} timer;

static bool take(enum timer_state from)
{
    uint32_t expected = from;
    return __atomic_load_n(&timer.state, __ATOMIC_RELAXED) == from &&
           __atomic_compare_exchange_n(&timer.state, &expected, BUSY, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void leave(enum timer_state to)
{
    __atomic_store_n(&timer.state, to, __ATOMIC_RELEASE);
}

void zc_timing_collect(void)
{
    float ms = 0;
    if (zc_capture_any() || !take(PENDING))
        return;
    CUresult result = zc_real.cuEventElapsedTime(&ms, timer.first, timer.last);
    if (result == CUDA_SUCCESS)
        timer.told(timer.noted, (uint64_t)(ms * 1000));
    else if (result != CUDA_ERROR_NOT_READY)
        timer.first = timer.last = NULL; /* Their context has gone. */
    leave(result == CUDA_ERROR_NOT_READY ? PENDING : IDLE);
}

static bool has_events(void)
{
    CUcontext current = NULL;
    if (zc_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return false;
    if (timer.first)
        return current == timer.context;
    timer.context = current;
    if (zc_real.cuEventCreate(&timer.first, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (zc_real.cuEventCreate(&timer.last, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return true;
    zc_real.cuEventDestroy_v2(timer.first);
    timer.first = NULL;
    return false;
}

static CUresult record_event(CUevent event, const struct zc_launch *launch)
{
    return ZC_FLAVOURED(launch->flavour, cuEventRecord)(event, launch->stream);
}

static void after_launch(const struct zc_launch *launch)
{
    leave(record_event(timer.last, launch) == CUDA_SUCCESS ? PENDING : IDLE);
}

bool zc_timing_begin(const struct zc_launch *launch, zc_timed_fn told, const void *noted,
                     size_t bytes)
{
    if (bytes > ZC_TIMED_BYTES || !take(IDLE))
        return false;
    if (!has_events() || record_event(timer.first, launch) != CUDA_SUCCESS) {
        leave(IDLE);
        return false;
    }
    timer.told = told;
    memcpy(timer.noted, noted, bytes);
    zc_launch_when_done(after_launch);
    return true;
}

void zc_timing_wait(bool (*unknown)(const void *arg), const void *arg, unsigned most_ms)
{
    uint64_t start = zc_ticks();
    while (__atomic_load_n(&timer.state, __ATOMIC_RELAXED) == PENDING && unknown(arg) &&
           !__atomic_load_n(&timer.waited, __ATOMIC_RELAXED) && !zc_capture_any()) {
        if (zc_ticks_to_ns(zc_ticks() - start) > most_ms * UINT64_C(1000000) &&
            !__atomic_exchange_n(&timer.waited, true, __ATOMIC_RELAXED))
            zc_message(ZC_NOTE, "launch",
                       "a kernel did not end within the %u ms that a launch has waited for its "
                       "time: launches wait for that no more",
                       most_ms);
        zc_nap(50);
        zc_timing_collect();
    }
}

static void context_gone(CUcontext context)
{
    if (timer.context != context || !(take(IDLE) || take(PENDING)))
        return;
    timer.first = timer.last = NULL;
    leave(IDLE);
}

const struct zc_module zc_module_timing = {.context_gone = context_gone};
