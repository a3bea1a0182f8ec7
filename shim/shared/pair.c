/* SPDX-License-Identifier: MIT */
/* Pairs: finding a partner, and the life of both blocks. */
#include "shared/pair.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/module.h"
#include "fault/sigsegv.h"
#include "host/extent.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "memory/workers.h"
#include "shared/forks.h"
#include "shared/report.h"
#include "shared/view.h"

/* Programs round sizes up, mostly to 256 or 512 bytes, and never by more than a CPU page. */
#define ROUNDING ((size_t)4 << 10)

static struct zc_lock list = ZC_LOCK(ZC_RANK_PAIRS);
static struct zc_shared *pairs;   /* Live ones, in no order; under the lock. */
static struct zc_shared *resting; /* Ended ones, for reuse; under the lock. */
static uint64_t births;           /* Pairs made so far.  Atomic. */
uint32_t zc_shared_ends;
static uint32_t waiting;           /* Device blocks without a host block.  Atomic. */
static struct zc_pair_counts past; /* Counts of ended pairs.  Under the lock. */

/* A raw system call: the hooked functions would serve the program's view. */
static void set_mask(uint64_t mask, uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, old, sizeof(mask));
}

bool zc_shared_lock(struct zc_shared *p, struct zc_shared_hold *hold)
{
    zc_sigsegv_hold();
    set_mask(~(UINT64_C(1) << (SIGSEGV - 1)), &hold->mask);
    zc_shared_begin_work();
    zc_word_lock(&p->owner);
    if (__atomic_load_n(&p->extent, __ATOMIC_ACQUIRE) && p->era == zc_extent_era)
        return true;
    zc_shared_unlock(p, hold);
    return false;
}

void zc_shared_unlock(struct zc_shared *p, const struct zc_shared_hold *hold)
{
    zc_word_unlock(&p->owner);
    zc_shared_end_work();
    zc_sigsegv_release();
    set_mask(hold->mask, NULL);
}

struct zc_shared *zc_shared_at(uint64_t address)
{
    const struct zc_extent *e = zc_hostheap_owns(address) ? zc_hostheap_extent(address) : NULL;
    return e ? __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE) : NULL;
}

bool zc_shared_has_host(const struct zc_shared *p)
{
    return __atomic_load_n(&p->pages.host, __ATOMIC_ACQUIRE);
}

struct zc_shared *zc_shared_hosting(uint64_t address)
{
    struct zc_shared *p = zc_shared_at(address);
    return p && p->era == zc_extent_era && zc_shared_has_host(p) ? p : NULL;
}

static struct zc_shared *fresh(const struct zc_shared_want *want)
{
    struct zc_shared *p = NULL;
    if (zc_lock_take(&list)) {
        p = resting;
        if (p)
            resting = p->next;
        zc_lock_drop(&list);
    }
    if (!p)
        p = zc_arena_get(sizeof(*p));
    if (!p)
        return NULL;
    /* A late handler may hold the lock, and may drop it at any time, so `owner` is not cleared. */
    memset((char *)p + sizeof(p->owner), 0, sizeof(*p) - sizeof(p->owner));
    p->era = zc_extent_era;
    p->thread = zc_thread_id();
    p->birth = __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED);
    p->rule = want->rule;
    p->device_size = want->size;
    p->read_only = want->read_only;
    return p;
}

static void enlist(struct zc_shared *p)
{
    if (!zc_lock_take(&list))
        return;
    p->next = pairs;
    pairs = p;
    zc_lock_drop(&list);
}

/* Gives a pair its page records; false if there is no memory for them. */
static bool give_pages(struct zc_shared *p, struct zc_extent *e, uint64_t bytes)
{
    struct zc_coherent *c = &p->pages;
    c->base = zc_extent_base(e);
    c->pages = e->units;
    c->bytes = bytes;
    c->writable = !p->read_only;
    c->device = true;
    c->state = zc_arena_get(e->units);
    c->back = zc_arena_get(e->units * sizeof(*c->back));
    c->count[ZC_PAGE_ALONE] = e->units;
    return c->state && c->back;
}

static void take_pages(struct zc_coherent *c)
{
    zc_arena_put(c->state, c->pages);
    zc_arena_put(c->back, c->pages * sizeof(*c->back));
}

struct zc_pair_counts zc_shared_counts(const struct zc_shared *p)
{
    return (struct zc_pair_counts){
        .pairs = 1,
        .elided_copies = p->elided_copies,
        .elided_bytes = p->elided_bytes,
        .parted_pages = p->pages.parted,
        .merged_pages = p->pages.merged,
        .faults = __atomic_load_n(&p->faults, __ATOMIC_RELAXED),
        .fault_ns = zc_ticks_to_ns(__atomic_load_n(&p->fault_ticks, __ATOMIC_RELAXED)),
        .conflicts = __atomic_load_n(&p->conflicts, __ATOMIC_RELAXED)};
}

/* struct zc_pair_counts holds only 64-bit counts, so it is summed as an array. */
static void add_totals(struct zc_pair_counts *t, const struct zc_shared *p)
{
    struct zc_pair_counts one = zc_shared_counts(p);
    uint64_t *sum = (uint64_t *)t;
    const uint64_t *count = (const uint64_t *)&one;
    for (size_t i = 0; i < sizeof(one) / sizeof(*count); i++)
        sum[i] += count[i];
}

static void rest(struct zc_shared *p)
{
    if (!zc_lock_take(&list))
        return;
    p->next = resting;
    resting = p;
    zc_lock_drop(&list);
}

/* True if the caller must end a pair that is over.  Two threads that free both sides at once may
 * both find it over; the first one ends it.  Under the lock. */
static bool must_end(struct zc_shared *p, bool over)
{
    bool mine = over && !p->ending;
    p->ending = p->ending || over;
    return mine;
}

/* Ends a pair: both sides are gone, or the rest needs no care.  The extent belongs to the heap
 * alone at once, because another thread may free the host block meanwhile, and a third may get its
 * addresses.  Once the lock was held, nobody uses the page records any more. */
static void end(struct zc_shared *p)
{
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        return;
    /* Counted twice: before and after.  A handler that finds no pair sees the first count, and one
     * that looked too early sees the second. */
    __atomic_fetch_add(&zc_shared_ends, 1, __ATOMIC_SEQ_CST);
    zc_hostheap_unshare(p->extent);
    __atomic_fetch_add(&zc_shared_ends, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&p->extent, NULL, __ATOMIC_RELEASE);
    zc_shared_unlock(p, &hold);
    take_pages(&p->pages);
    if (!zc_lock_take(&list))
        return;
    for (struct zc_shared **at = &pairs; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    add_totals(&past, p);
    p->next = resting;
    resting = p;
    zc_lock_drop(&list);
}

/* Which host block to look for.  Blocks of the same thread come first, because threads that
 * allocate side by side mean their own; and blocks of the same size come first. */
struct choice {
    const struct zc_shared_want *want;
    uint32_t thread; /* 0: any. */
    bool rounded;    /* Sizes that programs round up may differ. */
};

static bool sizes_meet(size_t host, size_t device, bool rounded)
{
    return host == device || (rounded && host < device && device - host < ROUNDING);
}

/* True if a host block may be the partner.  Small blocks share their extent with others, and a
 * padded device block would reach into the next one. */
static bool accepts(const struct zc_extent *e, void *arg)
{
    const struct choice *c = arg;
    const struct zc_pair *pair = &c->want->rule->pair;
    const struct zc_slot *slot = &e->slot[0];
    uint32_t pin = __atomic_load_n(&e->pin, __ATOMIC_ACQUIRE);
    uint32_t thread = __atomic_load_n(&slot->thread, __ATOMIC_ACQUIRE);
    /* Nobody may wait for copies of such a block, so some may be running. */
    bool overlaps = zc_rules()->rules[slot->rule].async == ZC_ASYNC_OVERLAP;
    if (!thread || (c->thread && thread != c->thread) || overlaps || e->odd ||
        (pin != ZC_PIN_NONE && pin != ZC_PIN_DONE) || c->want->size > zc_extent_span(e))
        return false;
    if (!pair->by_site)
        return sizes_meet(slot->size, c->want->size, c->rounded);
    return zc_site_id(slot->site) == pair->site && (!pair->nth || pair->nth == slot->nth) &&
           slot->size <= c->want->size;
}

static struct zc_extent *find_host(const struct zc_shared_want *want)
{
    uint32_t me = zc_thread_id();
    struct choice choices[] = {
        {want, me, false}, {want, me, true}, {want, 0, false}, {want, 0, true}};
    struct zc_extent *e = NULL;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]) && !e; i++)
        e = zc_hostheap_pair(accepts, &choices[i]);
    return e;
}

static struct zc_extent *own_extent(const struct zc_shared_want *want, const char **why)
{
    const struct zc_host_want wanted = {
        .size = want->size, .alignment = ZC_HOST_UNIT, .node = want->node};
    struct zc_slot *slot;
    void *memory = zc_hostheap_get(&wanted, &slot, why);
    return memory ? zc_hostheap_extent((uintptr_t)memory) : NULL;
}

struct zc_shared *zc_shared_make(const struct zc_shared_want *want, const char **why)
{
    struct zc_shared *p = fresh(want);
    *why = "no memory";
    if (!p)
        return NULL;
    struct zc_extent *e = find_host(want);
    bool host = e;
    if (!e && (e = own_extent(want, why)))
        zc_hostheap_vacate(e);
    if (e && !give_pages(p, e, host ? e->slot[0].size : want->size)) {
        take_pages(&p->pages);
        if (host)
            zc_hostheap_unclaim(e);
        zc_hostheap_revive(e);
        e = NULL;
    }
    if (!e) {
        rest(p);
        return NULL;
    }
    p->pages.host = p->paired = host;
    return p;
}

/* From the extent on the pair can be locked, even by a thread that still holds the object of an
 * earlier pair. */
void zc_shared_publish(struct zc_shared *p)
{
    struct zc_extent *e = zc_hostheap_extent(p->pages.base);
    __atomic_store_n(&p->extent, e, __ATOMIC_RELEASE);
    __atomic_store_n(&e->shared, p, __ATOMIC_SEQ_CST);
    enlist(p);
    if (!p->pages.host)
        __atomic_fetch_add(&waiting, 1, __ATOMIC_RELEASE);
}

void zc_shared_drop(struct zc_shared *p)
{
    struct zc_extent *e = zc_hostheap_extent(p->pages.base);
    take_pages(&p->pages);
    zc_hostheap_revive(e);
    rest(p);
}

void zc_shared_note_device(struct zc_shared *p, const struct zc_block *block)
{
    p->device_id = block->id;
    p->device_site = zc_site_id(block->site);
}

void zc_shared_note_host(struct zc_shared *p, struct zc_block *block)
{
    p->host_id = block->id;
    p->host_site = zc_site_id(block->site);
    __atomic_store_n(&p->host_block, block, __ATOMIC_RELEASE);
}

void zc_shared_forget_host(const struct zc_block *block)
{
    struct zc_shared *p = zc_shared_at(zc_block_address(block));
    if (p && __atomic_load_n(&p->host_block, __ATOMIC_ACQUIRE) == block)
        __atomic_store_n(&p->host_block, NULL, __ATOMIC_RELEASE);
}

bool zc_shared_resize(struct zc_extent *e, size_t size)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    struct zc_shared_hold hold;
    if (!p || !zc_hostheap_mine(e))
        return true;
    if (!zc_shared_lock(p, &hold))
        return false;
    bool fits = size <= p->device_size && p->extent == e;
    if (fits)
        p->pages.bytes = size;
    zc_shared_unlock(p, &hold);
    return fits;
}

bool zc_shared_leave(struct zc_shared *p, bool pinned)
{
    struct zc_coherent *c = &p->pages;
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        return false;
    uint32_t aside = c->count[ZC_PAGE_APART] + c->count[ZC_PAGE_KEPT] + c->count[ZC_PAGE_AWAY];
    bool may = !pinned || (!p->read_only && !aside);
    enum zc_effect v = ZC_EFFECT_DONE;
    if (may)
        v = zc_coherent_device_gone(c);
    p->leaving = may;
    zc_shared_unlock(p, &hold);
    zc_shared_must_be_open(p, v);
    return may;
}

void zc_shared_device_gone(struct zc_shared *p)
{
    struct zc_shared_hold hold;
    if (!zc_shared_lock(p, &hold))
        return;
    bool host = p->pages.host, waited = !__atomic_exchange_n(&p->paired, true, __ATOMIC_ACQ_REL);
    enum zc_effect v = ZC_EFFECT_DONE;
    if (!host) /* The host block may be gone meanwhile, with lost pages left closed. */
        v = zc_coherent_host_gone(&p->pages);
    bool lost = host && p->pages.count[ZC_PAGE_ALONE] != p->pages.pages;
    bool ends = must_end(p, !lost);
    p->leaving = false;
    zc_shared_unlock(p, &hold);
    zc_shared_must_be_open(p, v);
    if (waited)
        __atomic_fetch_sub(&waiting, 1, __ATOMIC_RELEASE);
    if (ends)
        end(p);
}

void zc_shared_host_gone(struct zc_extent *e)
{
    struct zc_shared *p = __atomic_load_n(&e->shared, __ATOMIC_ACQUIRE);
    struct zc_shared_hold hold;
    if (!p)
        return;
    if (!zc_hostheap_mine(e)) {
        zc_shared_leave_inherited(e, p);
        return;
    }
    if (!zc_shared_lock(p, &hold))
        return;
    if (p->extent != e) { /* The pair has just ended, and the object belongs to another one. */
        zc_shared_unlock(p, &hold);
        return;
    }
    bool device = p->pages.device || p->leaving;
    enum zc_effect v = ZC_EFFECT_DONE;
    if (p->leaving) /* The driver is working on its pages. */
        p->pages.host = false;
    else
        v = zc_coherent_host_gone(&p->pages);
    __atomic_store_n(&p->host_block, NULL, __ATOMIC_RELEASE);
    p->written = true;
    bool ends = must_end(p, !device);
    zc_shared_unlock(p, &hold);
    zc_shared_must_be_open(p, v);
    if (ends)
        end(p);
}

/* A new host block that looks for a waiting device block. */
struct newcomer {
    size_t size;
    uint32_t site, nth;
};

static bool meets(const struct zc_shared *p, const struct newcomer *new, bool rounded)
{
    const struct zc_pair *pair = &p->rule->pair;
    if (!pair->by_site)
        return sizes_meet(new->size, p->device_size, rounded);
    return zc_site_id(new->site) == pair->site && (!pair->nth || pair->nth == new->nth) &&
           new->size <= p->device_size;
}

/* The oldest waiting pair, of one thread or of any.  The list has the newest in front. */
static struct zc_shared *oldest_waiting(const struct newcomer *new, uint32_t thread, bool rounded)
{
    struct zc_shared *found = NULL;
    for (struct zc_shared *p = pairs; p; p = p->next)
        if (!p->paired && p->era == zc_extent_era && (!thread || p->thread == thread) &&
            meets(p, new, rounded))
            found = p;
    return found;
}

/* Under the list's lock, so that no other thread can claim the same pair. */
static struct zc_shared *claim_waiting(const struct newcomer *new, uint64_t *birth)
{
    struct zc_shared *p = NULL;
    if (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) || !zc_lock_take(&list))
        return NULL;
    for (unsigned i = 0; i < 4 && !p; i++)
        p = oldest_waiting(new, i < 2 ? zc_thread_id() : 0, i % 2);
    if (p) {
        p->paired = true;
        *birth = p->birth;
        __atomic_fetch_sub(&waiting, 1, __ATOMIC_RELEASE);
    }
    zc_lock_drop(&list);
    return p;
}

/* Under the pair's lock, so that the device block can't go before the host block is in. */
static struct zc_slot *move_in(struct zc_shared *p, size_t size)
{
    p->pages.bytes = size;
    if (!p->pages.device || zc_coherent_join(&p->pages, p->written) != ZC_EFFECT_DONE)
        return NULL;
    return zc_hostheap_occupy(p->extent, size);
}

void *zc_shared_join(size_t size, uint32_t site, uint32_t nth, bool zero, struct zc_slot **slot_out)
{
    const struct newcomer new = {size, site, nth};
    uint64_t birth;
    struct zc_shared *p = claim_waiting(&new, &birth);
    struct zc_shared_hold hold;
    if (!p || !zc_shared_lock(p, &hold))
        return NULL;
    void *memory = (void *)p->pages.base;
    bool dirty = !p->written;
    *slot_out = p->birth == birth ? move_in(p, size) : NULL;
    zc_shared_unlock(p, &hold);
    if (*slot_out && zero && dirty)
        zc_workers_zero(memory, size);
    return *slot_out ? memory : NULL;
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

/* The child opens the pages that it may have, and remembers to whom the rest belong.  A thread that
 * held a lock does not exist in the child. */
static void inherit(void)
{
    zc_lock_reset(&list);
    zc_shared_each(zc_shared_inherit, NULL);
}

static void in_child(void)
{
    zc_lock_reset(&list);
    pairs = resting = NULL;
    waiting = 0;
    memset(&past, 0, sizeof(past));
}

#define KEPT_MAX 32 /* Further ones are reported under the name of the last. */

/* Opens the parent's pages.  False if some stay closed because their content is lost. */
static bool open_pages(const struct zc_coherent *c)
{
    bool all = true;
    for (uint32_t page = 0; page < c->pages; page++) {
        uintptr_t at = c->base + ((uint64_t)page << ZC_HOST_UNIT_SHIFT);
        bool lost = c->state[page] == ZC_PAGE_AWAY || c->state[page] == ZC_PAGE_AHEAD;
        all = !(c->host && lost) && zc_view_protect(at, ZC_HOST_UNIT, ZC_VIEW_OPEN) && all;
    }
    return all;
}

void zc_shared_inherit(struct zc_shared *p, void *unused)
{
    static struct zc_shared kept[KEPT_MAX];
    static unsigned count;
    struct zc_extent *e = p->extent;
    struct zc_shared *rest = NULL;
    (void)unused;
    if (!e)
        return;
    if (!open_pages(&p->pages)) {
        rest = &kept[count < KEPT_MAX ? count++ : KEPT_MAX - 1];
        *rest = (struct zc_shared){.pages = {.base = p->pages.base, .device = true},
                                   .era = p->era,
                                   .rule = p->rule,
                                   .device_size = p->device_size,
                                   .device_id = p->device_id,
                                   .host_id = p->host_id,
                                   .device_site = p->device_site,
                                   .host_site = p->host_site};
    }
    __atomic_store_n(&e->shared, rest, __ATOMIC_RELEASE);
}

void zc_shared_leave_inherited(struct zc_extent *e, struct zc_shared *p)
{
    for (uint64_t at = 0; at < zc_extent_span(e); at += ZC_HOST_UNIT)
        if (!zc_view_protect(zc_extent_base(e) + at, ZC_HOST_UNIT, ZC_VIEW_OPEN))
            zc_shared_must_be_open(p, ZC_EFFECT_REFUSED);
    __atomic_store_n(&e->shared, NULL, __ATOMIC_RELEASE);
}

const struct zc_module zc_module_pairs = {.inherit = inherit, .child = in_child};
