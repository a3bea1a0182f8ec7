/* SPDX-License-Identifier: MIT */
/* Device blocks of the place `shared`: their records, locks and counts. */
#include "shared/pair.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/module.h"
#include "base/own.h"
#include "fault/sigsegv.h"
#include "host/extent.h"
#include "host/memfile.h"
#include "host/overlay.h"
#include "ledger/site.h"
#include "shared/forks.h"
#include "shared/heat.h"
#include "shared/report.h"
#include "shared/view.h"
#include "vmm/vmm.h"

static ZC_LOCK(list, ZC_RANK_PAIRS);
static ZC_OWN struct zc_shared *pairs;    /* Live ones; under the lock. */
static ZC_OWN struct zc_shared *resting;  /* Ended ones, for reuse; under the lock. */
static ZC_OWN struct zc_pair_counts past; /* Of ended ones; under the lock. */
uint32_t zc_shared_ends;
ZC_OWN uint32_t zc_shared_ones;
ZC_OWN uint32_t zc_shared_outputs;

/* Raw: libzc's own hooks of the signal functions serve the program. */
static void set_mask(uint64_t mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, old, sizeof(mask));
}

void zc_shared_lock(struct zc_shared *p, struct zc_shared_hold *hold)
{
    zc_sigsegv_hold();
    set_mask(~(UINT64_C(1) << (SIGSEGV - 1)), &hold->mask);
    zc_shared_begin_work();
    zc_word_lock(&p->owner);
}

void zc_shared_unlock(struct zc_shared *p, const struct zc_shared_hold *hold)
{
    zc_word_unlock(&p->owner);
    zc_shared_end_work();
    zc_sigsegv_release();
    set_mask(hold->mask, NULL);
}

bool zc_shared_lock_host(struct zc_shared *p, const struct zc_extent *e,
                         struct zc_shared_hold *hold)
{
    if (!p || !e)
        return false;
    zc_shared_lock(p, hold);
    if (p->one && p->extent == e && p->era == zc_extent_era)
        return true;
    zc_shared_unlock(p, hold);
    return false;
}

struct zc_shared *zc_shared_of(const struct zc_block *block)
{
    struct zc_vmm *v = block && block->place == ZC_PLACE_SHARED ? zc_vmm_of(block) : NULL;
    return v ? v->pair : NULL;
}

struct zc_shared *zc_shared_at(uint64_t address)
{
    const struct zc_extent *e = zc_hostheap_owns(address) ? zc_hostheap_extent(address) : NULL;
    return e ? __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) : NULL;
}

void zc_shared_note(struct zc_shared *p, struct zc_block *block)
{
    p->device_id = block->id;
    p->device_size = block->size;
    p->device_site = zc_site_id(block->site);
    zc_heat_new(p);
    __atomic_store_n(&p->block, block, __ATOMIC_RELEASE);
}

uintptr_t zc_shared_address(const struct zc_shared *p)
{
    return (uintptr_t)p->vmm->va.base;
}

struct zc_shared *zc_shared_new(struct zc_vmm *v, const struct zc_rule *rule)
{
    if (!zc_lock_take(&list))
        return NULL;
    struct zc_shared *p = resting ? resting : zc_arena_get(sizeof(*p));
    if (p) {
        resting = resting ? p->next : NULL;
        /* A handler that came too late may hold the lock, and give it back at any time. */
        memset((char *)p + sizeof(p->owner), 0, sizeof(*p) - sizeof(p->owner));
        p->era = zc_extent_era;
        p->vmm = v;
        p->rule = rule;
        p->why = "no host block of place 'shared' was copied into it first";
        DL_PREPEND2(pairs, p, before, next);
    }
    zc_lock_drop(&list);
    return p;
}

struct zc_pair_counts zc_shared_counts(const struct zc_shared *p)
{
    return (struct zc_pair_counts){
        .pairs = 1,
        .elided_copies = p->elided_copies,
        .elided_bytes = p->elided_bytes,
        .parted_pages = p->parted + p->pages.parted,
        .merged_pages = p->merged + p->pages.merged,
        .faults = __atomic_load_n(&p->faults, __ATOMIC_RELAXED),
        .fault_ns = zc_ticks_to_ns(__atomic_load_n(&p->fault_ticks, __ATOMIC_RELAXED))};
}

/* All of struct zc_pair_counts is 64-bit counts, so that it is summed as an array of them. */
static void add_totals(struct zc_pair_counts *t, const struct zc_shared *p)
{
    struct zc_pair_counts one = zc_shared_counts(p);
    uint64_t *sum = (uint64_t *)t;
    const uint64_t *count = (const uint64_t *)&one;
    for (size_t i = 0; i < sizeof(one) / sizeof(*count); i++)
        sum[i] += count[i];
}

void zc_shared_end(struct zc_shared *p)
{
    if (!zc_lock_take(&list))
        return;
    add_totals(&past, p);
    DL_DELETE2(pairs, p, before, next);
    p->next = resting;
    resting = p;
    zc_lock_drop(&list);
}

void zc_shared_each(void (*visit)(struct zc_shared *pair, void *arg), void *arg)
{
    if (!zc_lock_take(&list))
        return;
    for (struct zc_shared *p = pairs; p; p = p->next)
        visit(p, arg);
    zc_lock_drop(&list);
}

void zc_shared_totals(struct zc_pair_counts *out)
{
    *out = past;
    if (!zc_lock_take(&list))
        return;
    *out = past;
    for (const struct zc_shared *p = pairs; p; p = p->next)
        add_totals(out, p);
    zc_lock_drop(&list);
}

void zc_shared_resize(struct zc_extent *e, size_t size)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    struct zc_shared_hold hold;
    if (!zc_shared_lock_host(p, e, &hold))
        return;
    p->pages.bytes = size;
    zc_shared_unlock(p, &hold);
}

/* The extent's memory is the device block's now, and no other host block's. */
void zc_shared_host_gone(struct zc_extent *e)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    struct zc_shared_hold hold;
    if (!zc_shared_lock_host(p, e, &hold))
        return;
    p->extent = NULL;
    __atomic_store_n(&e->odd, true, __ATOMIC_RELEASE);
    __atomic_store_n(&e->pin, ZC_PIN_NONE, __ATOMIC_RELEASE);
    __atomic_store_n(&e->shared, NULL, __ATOMIC_RELEASE);
    __atomic_fetch_add(&zc_shared_ends, 1, __ATOMIC_SEQ_CST);
    zc_shared_unlock(p, &hold);
}

/* Without a pair the pages become what malloc's always were. */
static bool exile_alone(struct zc_extent *e, uintptr_t low, uintptr_t high, bool keep)
{
    zc_shared_begin_work(); /* A fork does the same to all of it. */
    bool done = zc_memfile_freeze(e);
    __atomic_store_n(&e->stale, true, __ATOMIC_RELEASE);
    for (uintptr_t end; low < high && done; low = end) {
        int rights = zc_overlay_run(e, low, high, &end);
        done = (rights & ZC_OVERLAY_FOREIGN) || zc_view_part(low, end - low, keep) == end - low;
        if (!done)
            zc_view_protect(low, end - low, ZC_VIEW_OPEN);
    }
    zc_shared_end_work();
    return done;
}

bool zc_shared_exile(struct zc_extent *e, uintptr_t low, uintptr_t high, bool keep)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    struct zc_shared_hold hold;
    if (!zc_shared_lock_host(p, e, &hold))
        return exile_alone(e, low, high, keep);
    uintptr_t base = p->pages.host;
    bool done = zc_coherent_exile(&p->pages, low - base, high - base, keep);
    zc_shared_unlock(p, &hold);
    return done;
}

/* A child has the host blocks as they are at the fork.  Who holds a pair's lock is about to give it
 * back: under it nothing waits.  All pairs are looked at, because one is counted a little later. */
static void freeze(struct zc_shared *p, void *unused)
{
    struct zc_shared_hold hold;
    (void)unused;
    if (!zc_shared_lock_host(p, p->extent, &hold))
        return;
    if (!zc_coherent_freeze(&p->pages))
        zc_shared_stuck(p);
    zc_shared_unlock(p, &hold);
}

static void before_fork(void)
{
    zc_shared_each(freeze, NULL);
}

/* The host blocks are the child's own, and what the driver knows is not there. */
static void open_for_child(struct zc_shared *p, void *unused)
{
    bool is_private;
    (void)unused;
    if (!p->one || !p->extent)
        return;
    zc_coherent_end(&p->pages, &is_private);
    p->extent->odd = p->extent->frozen = true; /* And what is private stays so. */
    p->extent->shared = NULL;
}

static void inherit(void)
{
    zc_shared_each(open_for_child, NULL);
}

const struct zc_module zc_module_pairs = {.before_fork = before_fork, .inherit = inherit};
