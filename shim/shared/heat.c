/* SPDX-License-Identifier: MIT */
/* How much kernels use device blocks that are ONE. */
#include "shared/heat.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "shared/backing.h"
#include "shared/early.h"
#include "vmm/vmm.h"

#define NAMED 8  /* Most blocks of one launch that are looked after. */
#define SITES 64 /* Most sites whose blocks are known to be hot. */

/* What the change to OWN costs: microseconds for a small block, and bytes a microsecond
 * (tests/gpu/MEASURED.md: 256 MiB in 9.5 to 11.5 ms). */
#define CHANGE_US 1000u
#define CHANGE_RATE 25000u
#define FIRST_MS 500u

/*
 * The time of a kernel is taken by two events around it, for one launch after the other; those that
 * come meanwhile count as long as the last that was timed.  A program may launch all its kernels
 * before the first has ended: so the second launch with a block waits for the first, but not for
 * longer than FIRST_MS, as a kernel may wait for the program.  If one did, no launch waits any
 * more.  No lock: who changes the state from IDLE or PENDING to BUSY has the rest.
 */
enum timer_state { IDLE, BUSY, PENDING };
static ZC_OWN struct {
    uint32_t state; /* enum timer_state.  Atomic. */
    bool waited;    /* A launch has waited in vain.  Atomic. */
    CUcontext context;
    CUevent first, last; /* Of that context; NULL: to be made. */
    struct zc_shared *named[NAMED];
    uint64_t id[NAMED]; /* zc_shared.device_id then: an object may be another block's by now. */
    unsigned count;
} timer;

static uint32_t hot[SITES]; /* Public ids of sites, as they came; 0: free.  Atomic. */

static CUresult before_launch(const struct zc_launch *launch);

void zc_heat_watch(void)
{
    zc_launch_call(ZC_LAUNCH_SHARED, before_launch);
}

static bool is_hot(uint32_t site)
{
    for (unsigned i = 0; i < SITES && site; i++)
        if (__atomic_load_n(&hot[i], __ATOMIC_RELAXED) == site)
            return true;
    return false;
}

static void remember(uint32_t site)
{
    static uint32_t next;
    if (!is_hot(site))
        __atomic_store_n(&hot[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % SITES], site,
                         __ATOMIC_RELAXED);
}

void zc_heat_new(struct zc_shared *p)
{
    if (!is_hot(p->device_site))
        return;
    p->why = "kernels used an earlier block of its site for long";
    __atomic_store_n(&p->settled, true, __ATOMIC_RELEASE);
}

/* The blocks that are ONE and whose addresses a kernel is given. */
struct named {
    struct zc_shared *of[NAMED];
    unsigned count;
};

static void add_named(uint64_t word, void *arg)
{
    struct named *found = arg;
    struct zc_shared *p = zc_shared_of(zc_block_find(word));
    for (unsigned i = 0; p && i < found->count; i++)
        if (found->of[i] == p)
            return;
    if (p && zc_shared_is_one(p) && found->count < NAMED)
        found->of[found->count++] = p;
}

/* Where the device has no memory for the block, it stays ONE until it was used as long again. */
static void judge(struct zc_shared *p, uint64_t microseconds)
{
    uint64_t all = __atomic_add_fetch(&p->used, microseconds, __ATOMIC_RELAXED);
    if (all <= CHANGE_US + p->device_size / CHANGE_RATE)
        return;
    if (zc_shared_cool(p, "kernels used it for long"))
        remember(p->device_site);
    else
        __atomic_store_n(&p->used, 0, __ATOMIC_RELAXED);
}

static void judge_timed(struct zc_shared *p, uint64_t id, uint64_t microseconds)
{
    if (p->device_id != id || !zc_shared_is_one(p))
        return;
    __atomic_store_n(&p->last, microseconds + 1, __ATOMIC_RELAXED);
    judge(p, microseconds);
}

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

/* The last launch that was timed may have ended. */
static void collect(void)
{
    float ms = 0;
    if (!take(PENDING))
        return;
    CUresult result = zc_real.cuEventElapsedTime(&ms, timer.first, timer.last);
    if (result == CUDA_SUCCESS)
        for (unsigned i = 0; i < timer.count; i++)
            judge_timed(timer.named[i], timer.id[i], (uint64_t)(ms * 1000));
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

static bool never_timed(const struct zc_shared *p)
{
    return !__atomic_load_n(&p->last, __ATOMIC_RELAXED);
}

static void wait_for_first(struct zc_shared *p)
{
    const struct timespec moment = {.tv_nsec = 50000};
    uint64_t start = zc_ticks();
    while (__atomic_load_n(&timer.state, __ATOMIC_RELAXED) == PENDING && never_timed(p) &&
           !__atomic_load_n(&timer.waited, __ATOMIC_RELAXED)) {
        if (zc_ticks_to_ns(zc_ticks() - start) > FIRST_MS * UINT64_C(1000000))
            __atomic_store_n(&timer.waited, true, __ATOMIC_RELAXED);
        nanosleep(&moment, NULL);
        collect();
    }
}

/* While another launch is timed. */
static void count_untimed(struct zc_shared *p)
{
    uint64_t last = __atomic_load_n(&p->last, __ATOMIC_RELAXED);
    if (last > 1)
        judge(p, last - 1);
}

static bool begin_timing(const struct zc_launch *launch, const struct named *found)
{
    if (!take(IDLE))
        return false;
    if (!has_events() || record_event(timer.first, launch) != CUDA_SUCCESS) {
        leave(IDLE);
        return false;
    }
    timer.count = found->count;
    for (unsigned i = 0; i < found->count; i++) {
        timer.named[i] = found->of[i];
        timer.id[i] = found->of[i]->device_id;
    }
    zc_launch_when_done(after_launch);
    return true;
}

static void use(const struct zc_launch *launch)
{
    struct named found = {.count = 0};
    zc_launch_words(launch, add_named, &found);
    for (unsigned i = 0; i < found.count; i++)
        if (never_timed(found.of[i]))
            wait_for_first(found.of[i]);
    if (found.count && !begin_timing(launch, &found))
        for (unsigned i = 0; i < found.count; i++)
            count_untimed(found.of[i]);
}

static bool watching(void)
{
    return __atomic_load_n(&zc_shared_ones, __ATOMIC_ACQUIRE) ||
           __atomic_load_n(&zc_early_blocks, __ATOMIC_ACQUIRE);
}

static CUresult before_launch(const struct zc_launch *launch)
{
    CUresult result = zc_shared_before_kernels(launch->fn);
    if (result != CUDA_SUCCESS || zc_life_closing() || zc_capture_any())
        return result;
    collect();
    use(launch);
    if (!watching()) {
        zc_launch_call(ZC_LAUNCH_SHARED, NULL);
        if (watching())
            zc_heat_watch();
    }
    return CUDA_SUCCESS;
}

static void context_gone(CUcontext context)
{
    if (timer.context != context || !(take(IDLE) || take(PENDING)))
        return;
    timer.first = timer.last = NULL;
    leave(IDLE);
}

const struct zc_module zc_module_heat = {.context_gone = context_gone};
