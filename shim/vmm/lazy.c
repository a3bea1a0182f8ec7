/* SPDX-License-Identifier: MIT */
/* vmm blocks that get their memory from the first call that could touch them. */
#include "vmm/lazy.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/message.h"
#include "base/own.h"
#include "driver/call.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/lock.h"
#include "ledger/rules.h"
#include "log/refusals.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "vmm/access.h"
#include "vmm/growth.h"

/* Only requests of at least this size, and of rules with `spill`, are checked against free memory:
 * asking the driver costs more than a smaller block is worth. */
#define ADMIT_FROM ((size_t)64 << 20)

/* Reuse the driver's last answer for 10 ms, minus what the program has allocated since: a growing
 * array asks many times in a row.  Even a fresh answer would not be certain, because other
 * processes may take the memory before it is attached. */
#define ANSWER_NS 10000000

static ZC_OWN struct {
    /* Blocks with something pending, newest first, with the driver lock.  So a call costs time only
     * for what is pending, however many blocks there are. */
    struct zc_vmm *open;
    uint64_t promised[ZC_DEVICES]; /* Bytes that blocks still have to get.  Atomic. */
    struct {
        int device;
        uint64_t ticks; /* When it came; 0: there is none. */
        uint64_t free;  /* Bytes. */
        uint64_t taken; /* Bytes that the program held then: when they grow, less is free. */
    } answer;           /* The driver's last one about free memory.  With the driver lock. */
} lazy;

uint64_t zc_lazy_promised(int device)
{
    return device < ZC_DEVICES ? __atomic_load_n(&lazy.promised[device], __ATOMIC_RELAXED) : 0;
}

void zc_lazy_keep_promise(const struct zc_vmm *v, size_t bytes)
{
    __atomic_fetch_sub(&lazy.promised[v->va.device], bytes, __ATOMIC_RELAXED);
}

static CUresult lazy_before_launch(const struct zc_launch *launch);

static void set_open(struct zc_vmm *v, bool now)
{
    bool listed = !zc_vmm_may_fetch(v); /* Launches map those that they name. */
    if (listed && now && !v->open)
        DL_PREPEND2(lazy.open, v, before, next);
    else if (listed && !now && v->open)
        DL_DELETE2(lazy.open, v, before, next);
    else if (!listed && now != v->open)
        __atomic_fetch_add(&zc_vmm_counts.away, now ? 1 : -1, __ATOMIC_RELEASE);
    __atomic_store_n(&v->open, now, __ATOMIC_RELEASE);
    zc_launch_call(ZC_LAUNCH_LAZY, lazy.open ? lazy_before_launch : NULL);
}

void zc_lazy_update(struct zc_vmm *v)
{
    set_open(v, !zc_vmm_whole(v) || zc_growth_pending(v->as_new) || zc_growth_pending(v->as_old));
}

/* Asks the driver for free bytes; 0 if it does not say. */
static uint64_t ask_free(int device)
{
    lazy.answer.taken = zc_limits_on_devices();
    lazy.answer.device = device;
    lazy.answer.ticks = zc_ticks();
    return lazy.answer.free = zc_device_free(device);
}

/* A lower bound of what is free on a device, from the last answer if that is recent; else 0. */
static uint64_t surely_free(int device)
{
    if (!lazy.answer.ticks || lazy.answer.device != device ||
        zc_ticks_to_ns(zc_ticks() - lazy.answer.ticks) > ANSWER_NS)
        return 0;
    uint64_t now = zc_limits_on_devices();
    uint64_t more = now > lazy.answer.taken ? now - lazy.answer.taken : 0;
    return lazy.answer.free > more ? lazy.answer.free - more : 0;
}

/* True if the current device has `wanted` bytes in free memory and in `idle`, which libzc could
 * give back. */
static bool lazy_has_room(int device, uint64_t wanted, uint64_t idle)
{
    return wanted <= idle || wanted - idle <= surely_free(device) ||
           wanted - idle <= ask_free(device);
}

/* Headroom must not take memory that was promised to other blocks, nor make other modules give
 * memory back. */
static size_t headroom(const struct zc_vmm *v)
{
    CUdevice device;
    size_t more = zc_growth_headroom(v);
    uint64_t wanted = zc_lazy_promised(v->va.device);
    bool fits = more && (wanted == zc_vmm_due(v) ||
                         (zc_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
                          device == v->va.device && lazy_has_room(device, wanted + more, 0)));
    return fits ? more : 0;
}

static CUresult lazy_attach(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    size_t held = v->held, more = to > held ? headroom(v) : 0;
    CUresult result = zc_vmm_attach(v, from, to, more, why);
    if (more && result != CUDA_SUCCESS)
        result = zc_vmm_attach(v, from, to, 0, why);
    zc_growth_count(v, held);
    if (more)
        lazy.answer.ticks = 0; /* Less is free now than limits show. */
    return result;
}

CUresult zc_lazy_attach(struct zc_vmm *v, size_t from, size_t to, const char **why)
{
    size_t due = zc_vmm_due(v);
    CUstreamCaptureMode before = zc_capture_relax();
    CUresult result = v->moves ? zc_vmm_arrive(v) : zc_growth_detach(v, why);
    if (result == CUDA_SUCCESS)
        result = v->moves ? lazy_attach(v, 0, v->span, why) : lazy_attach(v, from, to, why);
    zc_capture_restore(before);
    zc_lazy_keep_promise(v, due - zc_vmm_due(v));
    zc_lazy_update(v);
    return result;
}

CUresult zc_lazy_diagnose(const struct zc_vmm *v, enum zc_fn fn, CUresult code, const char *why)
{
    const struct zc_block *b = zc_block_find(v->va.base);
    if (zc_error_unrelated(code) || !b || b->rule < 0)
        return code;
    const struct zc_policy *policy = zc_rules();
    const struct zc_rule *rule = &policy->rules[b->rule];
    zc_refusal_count(policy, rule);
    zc_message(ZC_ERROR, "late",
               "%s returned %u: block %U (%B at %x) gets its memory lazily by rule %s (%s:%u), and "
               "%s; with 'commit = eager' and without 'grow' its request takes the next place",
               zc_fn_name(fn), (unsigned)code, b->id, b->size, b->base, rule->name, policy->file,
               rule->line, why);
    return code;
}

/* A launch can touch every block. */
static CUresult lazy_before_launch(const struct zc_launch *launch)
{
    CUresult result = CUDA_SUCCESS;
    const char *why = "";
    ZC_DRIVER_HELD mine = !zc_await_host(launch->fn) && zc_driver_lock();
    for (struct zc_vmm *v = mine ? lazy.open : NULL, *next; v && result == CUDA_SUCCESS; v = next) {
        next = v->next;
        if (zc_leaving(v->va.context))
            continue;
        result = zc_lazy_attach(v, 0, v->span, &why);
        if (result != CUDA_SUCCESS)
            zc_lazy_diagnose(v, launch->fn, result, why);
    }
    return result;
}

void zc_lazy_suspend(struct zc_vmm *v)
{
    set_open(v, false);
}

CUresult zc_lazy_create(struct zc_vmm *v)
{
    size_t due = zc_vmm_due(v);
    CUresult result = zc_vmm_create(v, 0);
    zc_lazy_keep_promise(v, due - zc_vmm_due(v));
    return result;
}

CUresult zc_lazy_empty(struct zc_vmm *v)
{
    size_t due = zc_vmm_due(v);
    CUresult result = zc_va_unmap(&v->va);
    if (result == CUDA_SUCCESS)
        zc_vmm_drop_chunks(v, 0);
    __atomic_fetch_add(&lazy.promised[v->va.device], zc_vmm_due(v) - due, __ATOMIC_RELAXED);
    zc_lazy_update(v);
    return result;
}

/* True if the device could hold a block besides everything that was promised.  Looks at all growing
 * blocks only if they decide it. */
static bool lazy_fits(const struct zc_vmm *v)
{
    if (v->rule->spill != ZC_SPILL_NONE)
        lazy.answer.ticks = 0; /* Blocks take more than limits count. */
    else if (zc_vmm_due(v) < ADMIT_FROM)
        return true;
    uint64_t wanted = zc_lazy_promised(v->va.device) + zc_vmm_due(v);
    return lazy_has_room(v->va.device, wanted, 0) ||
           (v->grows && lazy_has_room(v->va.device, wanted,
                                      zc_growth_largest(v->va.device, v->va.context, v->span)));
}

void zc_lazy_before_request(int device, size_t bytes)
{
    const char *why;
    uint64_t wanted = zc_lazy_promised(device);
    if (!wanted || !zc_driver_lock())
        return;
    wanted = bytes < SIZE_MAX / 2 ? wanted + zc_va_round_up(bytes, ZC_BLOCK_UNIT) : UINT64_MAX;
    bool room = lazy_has_room(device, wanted, 0) ||
                lazy_has_room(device, wanted, zc_growth_largest(device, NULL, SIZE_MAX));
    for (struct zc_vmm *v = room ? NULL : lazy.open, *next; v; v = next) {
        next = v->next;
        if (v->va.device == device)
            zc_lazy_attach(v, 0, v->span, &why); /* If this fails, the block stays lazy. */
    }
    zc_driver_unlock();
}

/* With the lock, because launches of other threads look at every entered block. */
CUresult zc_lazy_admit(struct zc_vmm *v, const char **why)
{
    bool given = v->va.base;
    if (!zc_driver_lock()) {
        *why = "called from a signal handler";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *why = "more than the device has free";
    CUresult result = lazy_fits(v) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && v->grows)
        zc_growth_enter(v);
    if (result == CUDA_SUCCESS && !v->as_new)
        result = zc_access_reserve(&v->va, v->span, v->granularity, v->grows, why);
    if (result == CUDA_SUCCESS)
        __atomic_fetch_add(&lazy.promised[v->va.device], zc_vmm_due(v), __ATOMIC_RELAXED);
    if (result == CUDA_SUCCESS && !given)
        zc_lazy_update(v);
    zc_driver_unlock();
    return result;
}

void zc_lazy_forget(struct zc_vmm *v)
{
    zc_lazy_suspend(v);
    zc_lazy_keep_promise(v, zc_vmm_due(v));
    zc_growth_leave(v);
}
