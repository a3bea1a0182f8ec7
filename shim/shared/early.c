/* SPDX-License-Identifier: MIT */
/* Registers host blocks of `shared` before their first copy. */
#include "shared/early.h"

#include "base/clock.h"
#include "base/life.h"
#include "base/module.h"
#include "base/own.h"
#include "base/wait.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "memory/cgroup.h"
#include "memory/device.h"
#include "memory/thread.h"
#include "shared/reach.h"

#define ENTRIES 32 /* Most blocks that are looked after at a time. */
#define SITES 64   /* Most sites that are known to guess wrong. */

/* Other calls of CUDA wait for a registration, and a program that asks for a host block often asks
 * for its device block next: so the thread lets that pass. */
#define DELAY_US 2000u
#define WAIT_MS 1000u /* The longest that others wait for the thread. */

enum state {
    FREE,
    FILLING, /* By malloc, which may be interrupted there by a signal handler. */
    WANTED,  /* The thread has not come to it yet; without addresses unless `taken`. */
    READY,   /* Registered. */
    REFUSED, /* Taken, and not to be registered. */
};

/* From WANTED on it changes with driver/lock.h alone. */
struct zc_early {
    uint32_t state; /* enum state.  Atomic. */
    bool taken;     /* A device block has the addresses. */
    struct zc_extent *extent;
    uint64_t since;    /* When the program got the block, in ticks; the oldest is first. */
    CUdeviceptr base;  /* 0: it has no addresses yet. */
    size_t span;       /* Bytes of the extent. */
    CUcontext context; /* Of the addresses. */
};

static ZC_OWN struct {
    struct zc_early entry[ENTRIES];
    uint32_t running;     /* There is a thread.  Atomic, as all that follow. */
    uint32_t busy;        /* It may call the driver. */
    uint32_t paused;      /* Threads that keep it from that. */
    uint32_t vain[SITES]; /* Sites that guess wrong, by their index; 0: none. */
} early;
ZC_OWN uint32_t zc_early_entries;

#define END (early.entry + ENTRIES)

static enum state state_of(const struct zc_early *w)
{
    return (enum state)__atomic_load_n(&w->state, __ATOMIC_ACQUIRE);
}

static void early_set_state(struct zc_early *w, enum state state)
{
    __atomic_store_n(&w->state, state, __ATOMIC_RELEASE);
}

static void early_unregister(struct zc_early *w)
{
    CUstreamCaptureMode mode = zc_capture_relax();
    bool pushed = zc_real.cuCtxPushCurrent_v2(w->context) == CUDA_SUCCESS;
    zc_real.cuMemHostUnregister((void *)w->base);
    zc_context_pop(pushed);
    zc_capture_restore(mode);
    zc_memfile_reserve(w->base, w->span);
}

/* Of what is taken the device block keeps the addresses. */
static void early_end(struct zc_early *w)
{
    if (state_of(w) == READY)
        early_unregister(w);
    if (w->base && !w->taken)
        zc_real.cuMemAddressFree(w->base, w->span);
    __atomic_store_n(&w->extent->early, false, __ATOMIC_RELEASE);
    w->base = 0;
    __atomic_fetch_sub(&zc_early_entries, 1, __ATOMIC_RELAXED);
    early_set_state(w, FREE);
}

/* The context that the program's device blocks will most likely be of: that of the only device with
 * an active one. */
static CUcontext likely_context(void)
{
    CUcontext found = NULL;
    int devices = 0;
    if (zc_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || zc_reach() & ZC_REACH_ANY)
        return NULL;
    for (int i = 0; i < devices; i++) {
        CUcontext context = zc_context_primary(i);
        if ((context && found) ||
            !zc_device_has(i, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))
            return NULL;
        found = context ? context : found;
    }
    return found;
}

/* In the context. */
static bool early_reserve(struct zc_early *w, CUcontext context)
{
    w->context = context;
    if (!w->base &&
        zc_real.cuMemAddressReserve(&w->base, w->span, ZC_HOST_UNIT, 0, 0) != CUDA_SUCCESS)
        w->base = 0;
    return w->base;
}

static void add_owed(struct zc_shared *p, void *owed)
{
    if (zc_shared_is_one(p) && p->extent)
        *(uint64_t *)owed += p->span;
}

/* Linux gives the CPU a page of its own for each one that it writes after the copy, and where a
 * control group or the host has none it ends the process. */
static bool early_has_room(size_t span)
{
    uint64_t owed = span;
    zc_shared_each(add_owed, &owed);
    for (struct zc_early *w = early.entry; w != END; w++)
        owed += state_of(w) == READY ? w->span : 0;
    return zc_available() >= owed;
}

bool zc_early_register(struct zc_extent *e, CUdeviceptr base, uintptr_t *window, const char **why)
{
    size_t span = zc_extent_span(e);
    *why = "no memory is left for the pages that the CPU writes after the copy";
    if (!early_has_room(span))
        return false;
    *why = "its host block can't be mapped for the device now";
    unsigned flags =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    if (!zc_memfile_show(e, base))
        return false;
    if (zc_real.cuMemHostRegister_v2((void *)base, span, flags) == CUDA_SUCCESS ||
        (window && zc_reach_show(base, span, window)))
        return true;
    zc_memfile_reserve(base, span);
    return false;
}

/* A block that takes part in another copy first is not one to be shared. */
static bool may_share(const struct zc_extent *e)
{
    return e->use == ZC_EXTENT_BLOCK && zc_memfile_shareable(e) &&
           !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&e->pin, __ATOMIC_ACQUIRE) == ZC_PIN_NONE &&
           !__atomic_load_n(&e->copied, __ATOMIC_RELAXED) &&
           !__atomic_load_n(&e->visits, __ATOMIC_ACQUIRE);
}

static bool early_make_ready(struct zc_early *w)
{
    const char *why;
    CUcontext context = w->base ? w->context : likely_context(), popped;
    if (!context || !may_share(w->extent) || zc_await_any() ||
        zc_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    bool made = early_reserve(w, context) && zc_early_register(w->extent, w->base, NULL, &why);
    zc_real.cuCtxPopCurrent_v2(&popped);
    return made;
}

/* While `busy` nobody destroys a context or leaves, unless it is `paused`; and no capture begins
 * while the thread has the lock. */
static void early_serve(struct zc_early *w)
{
    __atomic_store_n(&early.busy, 1, __ATOMIC_SEQ_CST);
    bool may = !__atomic_load_n(&early.paused, __ATOMIC_SEQ_CST) && !zc_life_closing() &&
               !zc_capture_any();
    if (may && early_make_ready(w))
        early_set_state(w, READY);
    else if (w->taken)
        early_set_state(w, REFUSED);
    else
        early_end(w);
    __atomic_store_n(&early.busy, 0, __ATOMIC_SEQ_CST);
    zc_wake(&early.busy);
}

static struct zc_early *next_wanted(void)
{
    struct zc_early *first = NULL;
    for (struct zc_early *w = early.entry; w != END; w++)
        if (state_of(w) == WANTED && (!first || w->since < first->since))
            first = w;
    return zc_life_closing() ? NULL : first;
}

static bool early_begin(void)
{
    return !__atomic_exchange_n(&early.running, 1, __ATOMIC_SEQ_CST);
}

/* In relaxed mode this thread may do what a capture in global mode forbids to others (measured). */
static void *early_run(void *unused)
{
    pthread_detach(pthread_self());
    zc_capture_relax();
    do {
        for (struct zc_early *w; (w = next_wanted());) {
            uint64_t age = zc_ticks_to_ns(zc_ticks() - w->since) / 1000;
            if (age < DELAY_US)
                zc_nap(DELAY_US - (unsigned)age);
            if (zc_driver_lock() && state_of(w) == WANTED)
                early_serve(w);
            zc_driver_unlock();
        }
        __atomic_store_n(&early.running, 0, __ATOMIC_SEQ_CST);
    } while (next_wanted() && early_begin());
    return unused;
}

static uint32_t *vain_of(const struct zc_extent *e)
{
    return &early.vain[e->slot[0].site % SITES];
}

static bool guesses_wrong(const struct zc_extent *e)
{
    return e->slot[0].site && __atomic_load_n(vain_of(e), __ATOMIC_RELAXED) == e->slot[0].site;
}

void zc_early_freed(const struct zc_extent *e)
{
    if (__atomic_load_n(&e->early, __ATOMIC_ACQUIRE))
        __atomic_store_n(vain_of(e), e->slot[0].site, __ATOMIC_RELAXED);
}

void zc_early_used(const struct zc_extent *e)
{
    if (guesses_wrong(e))
        __atomic_store_n(vain_of(e), 0, __ATOMIC_RELAXED);
}

static void early_fill(struct zc_early *w, struct zc_extent *e)
{
    __atomic_fetch_add(&zc_early_entries, 1, __ATOMIC_RELAXED);
    w->extent = e;
    w->span = zc_extent_span(e);
    w->since = zc_ticks();
    w->taken = false;
    __atomic_store_n(&e->early, true, __ATOMIC_RELEASE);
    early_set_state(w, WANTED);
}

void zc_early_want(struct zc_extent *e)
{
    pthread_t thread;
    bool on = __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
    if (!on || zc_life_closing() || !zc_memfile_shareable(e) || e->no_reuse || guesses_wrong(e) ||
        __atomic_load_n(&e->early, __ATOMIC_ACQUIRE))
        return;
    for (struct zc_early *w = early.entry; w != END; w++) {
        uint32_t state = FREE;
        if (!__atomic_compare_exchange_n(&w->state, &state, FILLING, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        early_fill(w, e);
        if (early_begin() && !zc_thread_start(&thread, early_run, NULL))
            __atomic_store_n(&early.running, 0, __ATOMIC_SEQ_CST); /* The next block tries again. */
        break;
    }
}

static bool early_suits(const struct zc_early *w, const struct zc_want *want)
{
    enum state state = state_of(w);
    return (state == WANTED || state == READY) && !w->taken &&
           (!w->base || w->context == want->context) &&
           w->span == zc_extent_units(want->size) << ZC_HOST_UNIT_SHIFT;
}

struct zc_early *zc_early_take(const struct zc_want *want, CUdeviceptr *base, size_t *bytes)
{
    struct zc_early *best = NULL;
    if (want->rule->access != ZC_ACCESS_READ || zc_capture_any() || zc_await_any() ||
        !__atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED) || zc_reach() & ZC_REACH_ANY ||
        !zc_driver_lock())
        return NULL;
    for (struct zc_early *w = early.entry; w != END; w++)
        if (early_suits(w, want) && (!best || w->since < best->since))
            best = w;
    /* No kernel is launched before it is decided whose memory is at the addresses.  One that runs
     * already may wait for the program, and then what is registered there could not be ended. */
    if (best && zc_stream_all_rest(want->context, 0) && early_reserve(best, want->context)) {
        best->taken = true;
        *base = best->base;
        *bytes = best->span;
    } else {
        best = NULL;
    }
    zc_driver_unlock();
    return best;
}

void zc_early_spurn(struct zc_early *w)
{
    ZC_DRIVER_HELD mine = zc_driver_lock();
    w->taken = false;
    if (state_of(w) != READY)
        early_end(w);
}

bool zc_early_end(struct zc_early *w, const struct zc_extent *e)
{
    bool ready = state_of(w) == READY && e && w->extent == e;
    if (ready)
        early_set_state(w, REFUSED);
    early_end(w);
    return ready;
}

void zc_early_trim(void)
{
    ZC_DRIVER_HELD mine = __atomic_load_n(&zc_early_entries, __ATOMIC_RELAXED) &&
                          !zc_capture_any() && !zc_life_closing() && zc_driver_lock();
    for (struct zc_early *w = early.entry; mine && w != END; w++)
        if (state_of(w) == READY && !w->taken && zc_hostheap_too_much(w->extent))
            early_end(w);
}

/* A handler of the program's may be what the thread waits for in the driver, so nobody waits for
 * ever. */
void zc_early_pause(void)
{
    __atomic_fetch_add(&early.paused, 1, __ATOMIC_SEQ_CST);
    zc_wait_until(&early.busy, 0, WAIT_MS);
}

void zc_early_resume(void)
{
    __atomic_fetch_sub(&early.paused, 1, __ATOMIC_SEQ_CST);
}

/* The registrations went with the context; the addresses are of none. */
static void early_context_lost(CUcontext context)
{
    ZC_DRIVER_HELD mine = zc_driver_lock();
    for (struct zc_early *w = early.entry; mine && w != END; w++) {
        if (state_of(w) <= FILLING || !w->base || w->context != context)
            continue;
        zc_memfile_reserve(w->base, w->span);
        early_set_state(w, REFUSED);
        if (!w->taken)
            early_end(w);
    }
}

const struct zc_module zc_module_early = {.before_fork = zc_early_pause,
                                          .after_fork = zc_early_resume,
                                          .context_lost = early_context_lost};
