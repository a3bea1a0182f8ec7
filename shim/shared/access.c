/* SPDX-License-Identifier: MIT */
/* Faults, system calls and launches that touch pairs. */
#include "shared/access.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/module.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "fault/fault.h"
#include "host/extent.h"
#include "host/overlay.h"
#include "shared/report.h"
#include "shared/view.h"

#define BATCH 32

uint32_t zc_shared_writable;

/* The value of zc_shared_ends when this thread last tried again. */
static __thread uint32_t ends __attribute__((tls_model("initial-exec")));

/* A pair may have closed a page for a moment, and have ended before the handler looked.  So the
 * first fault of a thread after an end is tried again; if it is the program's own, it comes
 * back. */
static bool ended_since(void)
{
    return __atomic_load_n(&zc_shared_ends, __ATOMIC_ACQUIRE) != ends;
}

static bool owns(uintptr_t address)
{
    return zc_shared_at(address) || (zc_hostheap_owns(address) && ended_since());
}

/* The state of a page, read without the lock.  The pair may just have ended and be reused; then the
 * page needs nothing. */
static enum zc_page state_at(const struct zc_shared *p, uint64_t offset)
{
    if (offset >> ZC_HOST_UNIT_SHIFT >= p->pages.pages)
        return ZC_PAGE_ALONE;
    return (enum zc_page)__atomic_load_n(&p->pages.state[offset >> ZC_HOST_UNIT_SHIFT],
                                         __ATOMIC_RELAXED);
}

static bool permits(enum zc_page state, bool write)
{
    bool lost = state == ZC_PAGE_AHEAD || state == ZC_PAGE_AWAY;
    return !lost && (state != ZC_PAGE_SAME || !write);
}

/* The lock may be held by this very thread, or by one that waits for it, in a copy over a page that
 * another mapping has closed for a moment.  So an access that needs nothing from the pair does not
 * wait for the lock, but is tried again. */
static bool try_again(const struct zc_shared *p, uintptr_t address, bool write)
{
    return __atomic_load_n(&p->owner, __ATOMIC_ACQUIRE) &&
           permits(state_at(p, address - p->pages.base), write);
}

/* If the pair has ended and is reused meanwhile, the access is tried again. */
static enum zc_effect serve(struct zc_shared *p, uintptr_t address, bool write)
{
    struct zc_shared_hold hold;
    enum zc_effect v = ZC_EFFECT_DONE;
    if (p->era != zc_extent_era)
        return ZC_EFFECT_CONFLICT; /* The child has everything except the lost pages. */
    if (!zc_shared_lock(p, &hold))
        return v;
    uint64_t offset = address - p->pages.base;
    if (offset >> ZC_HOST_UNIT_SHIFT < p->pages.pages)
        v = zc_coherent_touch(&p->pages, offset, write);
    zc_shared_unlock(p, &hold);
    return v;
}

void zc_shared_resolve_lost(struct zc_shared *p, uint64_t offset, bool write)
{
    __atomic_fetch_add(&p->conflicts, 1, __ATOMIC_RELAXED);
    zc_shared_conflict(p, write ? ZC_CULPRIT_WRITE : ZC_CULPRIT_READ, offset);
    abort();
}

static bool program_permits(uintptr_t address, bool write)
{
    const struct zc_extent *e = zc_hostheap_extent(address);
    return e && zc_overlay_permits(e, address, write);
}

static bool fault(uintptr_t address, bool write)
{
    uint64_t start = zc_ticks();
    struct zc_shared *p = zc_shared_at(address);
    if (!p) {
        bool again = ended_since();
        ends = __atomic_load_n(&zc_shared_ends, __ATOMIC_ACQUIRE);
        return again;
    }
    bool mine = p->era == zc_extent_era;
    if (mine && !zc_overlay_permits(zc_hostheap_extent(address), address, write))
        return false;
    if (mine && try_again(p, address, write))
        return true;
    enum zc_effect v = serve(p, address, write);
    if (v == ZC_EFFECT_CONFLICT)
        zc_shared_resolve_lost(p, address - p->pages.base, write);
    zc_shared_must_be_open(p, v);
    __atomic_fetch_add(&p->faults, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&p->fault_ticks, zc_ticks() - start, __ATOMIC_RELAXED);
    return true;
}

static bool must_open(const struct zc_shared *p, uint64_t offset, bool write)
{
    return !permits(state_at(p, offset), write);
}

static bool open_range(uintptr_t low, uintptr_t high, bool write)
{
    bool changed = false;
    uintptr_t at = low;
    while (at < high) {
        struct zc_shared *p = zc_shared_at(at);
        if (p && must_open(p, at - p->pages.base, write))
            changed |= fault(at, write);
        at = (at | (ZC_HOST_UNIT - 1)) + 1;
    }
    return changed;
}

static struct zc_lock opening = ZC_LOCK(ZC_RANK_FAULTS);

bool zc_shared_access_open(const char **why)
{
    static const struct zc_fault_ops ops = {owns, fault, program_permits, open_range};
    const char *reason = "called from a signal handler";
    if (zc_lock_take(&opening)) {
        reason = NULL;
        if (zc_view_open(&reason))
            reason = zc_fault_start(&ops);
        zc_lock_drop(&opening);
    }
    *why = reason ? reason : *why;
    return !reason;
}

/* Pages that are kept stay so until the driver has read them, whatever other threads copy and
 * launch. */
static void keep_page(struct zc_shared *p, uintptr_t address)
{
    struct zc_shared_hold hold;
    if (p->era != zc_extent_era || !zc_shared_lock(p, &hold))
        return;
    uint64_t at = address - p->pages.base;
    enum zc_effect v = zc_coherent_keep(&p->pages, at, at + 1, NULL);
    zc_shared_unlock(p, &hold);
    if (v == ZC_EFFECT_CONFLICT)
        zc_shared_resolve_lost(p, at, false);
    zc_shared_must_be_open(p, v);
}

void zc_shared_lend(const void *memory, size_t n)
{
    uintptr_t at = (uintptr_t)memory, end = at + n < at ? UINTPTR_MAX : at + n;
    while (at < end && zc_hostheap_owns(at)) {
        struct zc_shared *p = zc_shared_at(at);
        if (p && p->pages.writable && state_at(p, at - p->pages.base) != ZC_PAGE_KEPT)
            keep_page(p, at);
        at = (at | (ZC_HOST_UNIT - 1)) + 1;
    }
}

struct batch {
    struct zc_shared *pair[BATCH];
    unsigned count;
};

/* Collects pairs that kernels may write to while a host block needs protection from that. */
static void collect(struct zc_shared *p, void *arg)
{
    struct batch *b = arg;
    bool exposed = zc_shared_has_host(p) ? zc_coherent_exposed(&p->pages) : !p->written;
    if (p->pages.writable && __atomic_load_n(&p->pages.device, __ATOMIC_ACQUIRE) && exposed &&
        b->count < BATCH)
        b->pair[b->count++] = p;
}

static enum zc_effect close_pair(struct zc_shared *p)
{
    struct zc_shared_hold hold;
    enum zc_effect v = ZC_EFFECT_DONE;
    if (!zc_shared_lock(p, &hold))
        return v;
    p->written = true;
    if (p->pages.host)
        v = zc_coherent_launch(&p->pages);
    zc_shared_unlock(p, &hold);
    return v;
}

/* Calls that write memory without being launches.  Their rows in driver.def follow each other. */
static bool writes(enum zc_fn fn)
{
    return fn >= ZC_FN_cuStreamWriteValue32 && fn <= ZC_FN_cuStreamBatchMemOp_v2_ptsz;
}

/* Captured work runs later, when its graph is launched. */
static CUresult before_launch(const struct zc_launch *launch)
{
    struct batch b;
    if (!__atomic_load_n(&zc_shared_writable, __ATOMIC_ACQUIRE) ||
        (!launch->kernels && !writes(launch->fn)))
        return CUDA_SUCCESS;
    if (zc_capture_holds(launch->stream, launch->flavour))
        return CUDA_SUCCESS;
    do {
        b.count = 0;
        zc_shared_each(collect, &b);
        for (unsigned i = 0; i < b.count; i++)
            if (close_pair(b.pair[i]) != ZC_EFFECT_DONE) {
                zc_shared_stuck(b.pair[i]);
                return zc_shared_refused(b.pair[i], launch->fn, CUDA_ERROR_OUT_OF_MEMORY,
                                         "no memory to keep the host block apart");
            }
    } while (b.count == BATCH);
    return CUDA_SUCCESS;
}

/* Needed for read-only pairs, too: a launch may be the first call to report a kernel that wrote. */
void zc_shared_access_watch(const struct zc_shared *p)
{
    if (p->pages.writable)
        __atomic_fetch_add(&zc_shared_writable, 1, __ATOMIC_ACQ_REL);
    zc_launch_call(ZC_LAUNCH_SHARED, before_launch);
}

void zc_shared_access_unwatch(const struct zc_shared *p)
{
    if (p->pages.writable)
        __atomic_fetch_sub(&zc_shared_writable, 1, __ATOMIC_ACQ_REL);
}

static void in_child(void)
{
    zc_lock_reset(&opening);
    zc_shared_writable = 0;
}

const struct zc_module zc_module_shared_access = {.child = in_child};
