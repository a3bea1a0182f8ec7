/* SPDX-License-Identifier: MIT */
/* The two backings of a device block of `shared`, and the way from one to the other. */
#include "shared/backing.h"

#include "base/life.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/own.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/pagemap.h"
#include "host/pinned.h"
#include "memory/device.h"
#include "shared/early.h"
#include "shared/reach.h"
#include "shared/report.h"
#include "vmm/lazy.h"
#include "vmm/grow.h"
#include "vmm/move.h"

#define CANT "its host block can't be mapped for the device now"

bool zc_shared_possible(const struct zc_want *want, const char **why)
{
    *why =
        want->api != ZC_API_cuMemAlloc && want->api != ZC_API_cuMemAllocPitch
            ? "stream-ordered requests can't be"
        : want->rule->access != ZC_ACCESS_READ ? "its rule does not say 'access = read'"
        : (zc_reach() & (ZC_REACH_ANY | ZC_REACH_EXACT)) == ZC_REACH_ANY
            ? "a device reaches pageable memory (HMM, ATS), where 'zc doctor --measure' has to "
              "find pairs exact first"
        : !(zc_reach() & ZC_REACH_ANY) &&
                !zc_device_has(want->device, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)
            ? "the device can't keep kernels from writing host memory"
        : !zc_device_one_address(want->device) ? "the device can't use host addresses"
        : !want->host_heap                     ? "no rule gives host blocks 'shared'"
        : want->size <= ZC_HOST_UNIT / 2       ? "it is not larger than 1 MiB"
                                               : NULL;
    return !*why && zc_pagemap_works(why);
}

/* The driver is asked in the block's own context. */
static bool backing_enter(const struct zc_shared *p, CUstreamCaptureMode *mode)
{
    bool pushed;
    *mode = zc_capture_relax();
    zc_context_push(p->vmm->va.context, &pushed);
    return pushed;
}

static void backing_leave(bool pushed, CUstreamCaptureMode mode)
{
    zc_context_pop(pushed);
    zc_capture_restore(mode);
}

static void set_real(struct zc_shared *p, enum zc_kind kind)
{
    if (p->block)
        __atomic_store_n(&p->block->real, (uint8_t)kind, __ATOMIC_RELAXED);
}

/* Gives back the memory that the block has got already, because something was launched.  Kernels
 * that run could read of it what was never written, so they end first. */
static bool backing_empty(struct zc_shared *p)
{
    struct zc_vmm *v = p->vmm;
    return !v->held ||
           (zc_stream_come_to_rest() && zc_stream_wait_context(v->va.context) == CUDA_SUCCESS &&
            zc_lazy_empty(v) == CUDA_SUCCESS);
}

/* Nothing is left at the block's addresses but their reservation. */
static void backing_hide(struct zc_shared *p, size_t span)
{
    zc_memfile_reserve(p->vmm->va.base, span);
    if (p->window)
        zc_memory_unmap((void *)p->window, span);
    p->window = 0;
}

/* A registration of the host block itself would show the driver other pages than the CPU's, once
 * they differ.  While `pin` is MAKING the program changes no mappings of the block. */
static bool take_pin(struct zc_extent *e)
{
    enum zc_extent_pin pin = zc_pinned_hold(e);
    bool taken = pin == ZC_PIN_NONE || pin == ZC_PIN_REFUSED ||
                 (pin == ZC_PIN_DONE && !zc_pinned_lasts(e) && zc_stream_come_to_rest() &&
                  zc_pinned_unregister(e));
    if (!taken)
        zc_pinned_release(e, pin);
    return taken;
}

/* False where the program or a fork has mapped the host block anew meanwhile. */
static bool still_shareable(const struct zc_extent *e)
{
    return !__atomic_load_n(&e->no_reuse, __ATOMIC_ACQUIRE) && zc_memfile_shareable(e);
}

static bool backing_join(struct zc_shared *p, struct zc_extent *e)
{
    zc_word_lock(&p->owner);
    bool still = still_shareable(e);
    if (still) {
        p->extent = e;
        p->span = zc_extent_span(e);
        p->names.why = NULL;
        __atomic_store_n(&p->one, true, __ATOMIC_RELEASE);
        __atomic_store_n(&e->shared, p, __ATOMIC_SEQ_CST);
    }
    zc_word_unlock(&p->owner);
    return still;
}

/* Launches may have been asked before, and look at the count next.  Returns whether the memory of
 * `e` is registered at the block's addresses: then the registration is the caller's. */
static bool backing_decide(struct zc_shared *p, const struct zc_extent *e)
{
    bool ready = p->early && zc_early_end(p->early, e);
    p->early = NULL;
    if (!p->undecided)
        return ready;
    __atomic_store_n(&p->undecided, false, __ATOMIC_RELEASE);
    if (!p->one)
        zc_lazy_update(p->vmm);
    zc_launch_recheck();
    __atomic_fetch_sub(&zc_shared_undecided, 1, __ATOMIC_ACQ_REL);
    return ready;
}

bool zc_shared_begin(struct zc_shared *p, struct zc_early *early)
{
    if (!early || !zc_driver_lock())
        return false;
    zc_lazy_suspend(p->vmm);
    p->early = early;
    __atomic_store_n(&p->undecided, true, __ATOMIC_RELEASE);
    __atomic_fetch_add(&zc_shared_undecided, 1, __ATOMIC_ACQ_REL);
    zc_driver_unlock();
    return true;
}

void zc_shared_drop(struct zc_shared *p)
{
    backing_decide(p, NULL);
}

void zc_shared_decide(struct zc_shared *p)
{
    ZC_DRIVER_HELD mine = __atomic_load_n(&p->undecided, __ATOMIC_ACQUIRE) && zc_driver_lock();
    if (mine)
        backing_decide(p, NULL);
}

/* A step returns why it was not done, or NULL. */
static const char *backing_become_one(struct zc_shared *p, struct zc_extent *e)
{
    const char *why = CANT;
    if (p->one || p->stays_own || !backing_empty(p) || !take_pin(e))
        return why;
    bool shown = backing_decide(p, e) || zc_early_register(e, p->vmm->va.base, &p->window, &why);
    bool one = shown && backing_join(p, e);
    if (shown && !one && zc_shared_unregister(p) == CUDA_SUCCESS)
        backing_hide(p, zc_extent_span(e));
    zc_pinned_release(e, one ? ZC_PIN_SHARED : ZC_PIN_NONE);
    if (!one)
        return why;
    __atomic_fetch_add(&zc_shared_ones, 1, __ATOMIC_ACQ_REL);
    zc_early_used(e);
    zc_lazy_suspend(p->vmm);
    set_real(p, ZC_KIND_PINNED);
    return NULL;
}

/* In the block's context, where nothing keeps backings from changing.  With driver/lock.h, so that
 * no capture begins meanwhile. */
const char *zc_shared_to_one(struct zc_shared *p, struct zc_extent *e, bool whole)
{
    CUstreamCaptureMode mode;
    ZC_DRIVER_HELD mine = !zc_capture_any() && zc_driver_lock();
    if (!mine || zc_capture_any() || zc_await_any() || zc_life_closing())
        return CANT;
    bool pushed = backing_enter(p, &mode);
    const char *why = !whole && p->vmm->held ? "a kernel may have written more than is copied"
                                             : backing_become_one(p, e);
    backing_leave(pushed, mode);
    return why;
}

/* The host block is the CPU's alone, and nothing but reserved addresses lies behind the device
 * block.  With the pair's lock. */
static void backing_detach(struct zc_shared *p)
{
    struct zc_extent *e = p->extent;
    if (e) {
        __atomic_store_n(&e->shared, NULL, __ATOMIC_SEQ_CST);
        __atomic_store_n(&e->pin, ZC_PIN_NONE, __ATOMIC_RELEASE);
    }
    p->extent = NULL;
    __atomic_store_n(&p->one, false, __ATOMIC_RELEASE);
    backing_hide(p, p->span);
    __atomic_fetch_sub(&zc_shared_ones, 1, __ATOMIC_ACQ_REL);
    set_real(p, ZC_KIND_DEVICE);
}

void zc_shared_detach(struct zc_shared *p)
{
    zc_word_lock(&p->owner);
    backing_detach(p);
    zc_word_unlock(&p->owner);
}

/* The driver waits for the device; for what is not registered it is waited for here. */
CUresult zc_shared_unregister(struct zc_shared *p)
{
    CUresult result = p->window ? zc_stream_wait_context(p->vmm->va.context)
                                : zc_real.cuMemHostUnregister((void *)p->vmm->va.base);
    bool gone = result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ||
                (p->window && result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return gone ? CUDA_SUCCESS : result;
}

/* The content moves into memory of the block's own.  With the pair's lock. */
static CUresult carry_over(struct zc_shared *p, const char **why)
{
    struct zc_vmm *v = p->vmm;
    *why = "the device has no memory for it";
    CUresult result = zc_lazy_create(v) ?: zc_move_in(v, p->span, why);
    if (result != CUDA_SUCCESS)
        return result;
    *why = "the driver keeps the host block";
    result = zc_shared_unregister(p);
    if (result == CUDA_SUCCESS)
        backing_detach(p);
    return result;
}

/* Launches find the block open, and wait for driver/lock.h, while nothing lies behind it.  Those
 * that found it closed reach the driver first. */
static CUresult backing_become_own(struct zc_shared *p, const char **why)
{
    struct zc_vmm *v = p->vmm;
    zc_lazy_update(v);
    zc_launch_drain();
    zc_word_lock(&p->owner);
    CUresult result = carry_over(p, why);
    zc_word_unlock(&p->owner);
    if (result != CUDA_SUCCESS) {
        zc_lazy_empty(v);
        zc_lazy_suspend(v);
        return result;
    }
    return zc_lazy_attach(v, 0, v->span, why);
}

/* With driver/lock.h.  `gently`: not where the context does not come to rest. */
static CUresult backing_change(struct zc_shared *p, const char *why, bool gently,
                               const char **refused)
{
    CUstreamCaptureMode mode;
    if (!p->one || p->freed)
        return CUDA_SUCCESS;
    bool pushed = backing_enter(p, &mode);
    CUresult result =
        gently && !zc_stream_come_to_rest() ? CUDA_ERROR_NOT_READY : backing_become_own(p, refused);
    if (result == CUDA_SUCCESS)
        p->names.why = why;
    backing_leave(pushed, mode);
    return result;
}

CUresult zc_shared_to_own(struct zc_shared *p, enum zc_fn fn, const char *why)
{
    const char *refused;
    if (!p)
        return CUDA_SUCCESS;
    zc_shared_decide(p);
    bool stayed = __atomic_exchange_n(&p->stays_own, true, __ATOMIC_ACQ_REL);
    if (!zc_shared_is_one(p))
        p->names.why = stayed ? p->names.why : why;
    if (!zc_shared_is_one(p) || !zc_driver_lock())
        return CUDA_SUCCESS;
    CUresult result = backing_change(p, why, false, &refused);
    zc_driver_unlock();
    return result == CUDA_SUCCESS ? result : zc_shared_refused(p, fn, result, refused);
}

bool zc_shared_demote(struct zc_shared *p, const char *why)
{
    const char *refused;
    ZC_DRIVER_HELD mine = zc_shared_is_one(p) && zc_driver_lock();
    bool done = mine && !zc_capture_any() && backing_change(p, why, true, &refused) == CUDA_SUCCESS;
    if (done)
        __atomic_store_n(&p->stays_own, true, __ATOMIC_RELEASE);
    return done;
}

static bool backing_is_one(const struct zc_shared *p)
{
    return zc_shared_is_one(p) && !p->freed;
}

/* Before it stands in the ledger the program has no address of it. */
static bool backing_is_undecided(const struct zc_shared *p)
{
    return __atomic_load_n(&p->undecided, __ATOMIC_ACQUIRE) &&
           __atomic_load_n(&p->block, __ATOMIC_ACQUIRE) && !zc_leaving(p->vmm->va.context);
}

/* With the lock no block becomes ONE, and none that is ONE goes. */
static CUresult all_own(enum zc_fn fn, const char *why)
{
    CUresult result = CUDA_SUCCESS;
    const char *refused;
    ZC_DRIVER_HELD mine = __atomic_load_n(&zc_shared_ones, __ATOMIC_ACQUIRE) && zc_driver_lock();
    for (struct zc_shared *p;
         mine && result == CUDA_SUCCESS && (p = zc_shared_find(backing_is_one));) {
        __atomic_store_n(&p->stays_own, true, __ATOMIC_RELEASE);
        result = backing_change(p, why, false, &refused);
        if (result != CUDA_SUCCESS)
            zc_shared_refused(p, fn, result, refused);
    }
    return result;
}

/* For `kernels` there is memory behind all of them then, as behind others already.  Launches of
 * other threads wait for the lock until that is so. */
CUresult zc_shared_decide_all(enum zc_fn fn, bool kernels)
{
    CUresult result = CUDA_SUCCESS;
    const char *why;
    if (!__atomic_load_n(&zc_shared_undecided, __ATOMIC_ACQUIRE) || !zc_driver_lock())
        return CUDA_SUCCESS;
    __atomic_fetch_add(&zc_shared_undecided, 1, __ATOMIC_ACQ_REL);
    for (struct zc_shared *p;
         result == CUDA_SUCCESS && (p = zc_shared_find(backing_is_undecided));) {
        backing_decide(p, NULL);
        if (kernels)
            result = zc_lazy_attach(p->vmm, 0, p->vmm->span, &why);
        if (result != CUDA_SUCCESS)
            zc_lazy_diagnose(p->vmm, fn, result, why);
    }
    __atomic_fetch_sub(&zc_shared_undecided, 1, __ATOMIC_ACQ_REL);
    zc_driver_unlock();
    return result;
}

/* A stream that waits for the program would never let the device come to rest. */
CUresult zc_shared_drain(enum zc_fn fn)
{
    zc_shared_decide_all(fn, false);
    return all_own(fn, "a stream may wait for the CPU") ?: zc_grow_drain(fn);
}
