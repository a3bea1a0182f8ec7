/* SPDX-License-Identifier: MIT */
/* The ledger's entries for blocks of the host heap. */
#include "host/hostblock.h"

#include "base/own.h"
#include "host/hostheap.h"
#include "host/extent.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/lines.h"

/* The ledger has all blocks.  Changes under the heap's lock; atomic. */
static ZC_OWN bool listing;

static struct zc_block *enter_block(uintptr_t base, const struct zc_slot *slot,
                                    const struct zc_extent *extent)
{
    bool mine = zc_hostheap_mine(extent);
    bool pinned = zc_extent_registered(extent);
    const struct zc_block like = {
        .base = base,
        .size = slot->size,
        .site = mine ? slot->site : 0, /* A child has its own table of sites. */
        .flags = ZC_BLOCK_HOST | (pinned ? ZC_BLOCK_CAME_PINNED : 0),
        .device = -1,
        .rule = slot->rule,
        .api = slot->api,
        .place = ZC_PLACE_PINNED,
        .asked = ZC_KIND_PAGEABLE,
        .real = pinned ? ZC_KIND_PINNED : ZC_KIND_PAGEABLE,
    };
    struct zc_block *b = zc_block_add(&like);
    if (!b)
        return NULL;
    if (zc_log_level() >= ZC_LOG_ALLOCS) {
        const struct zc_rule *rule = &zc_rules()->rules[slot->rule];
        if (zc_site_is_new(b->site))
            zc_log_site(b->site);
        /* Maybe by another thread than the one that asked for it. */
        zc_log_alloc(b, &(struct zc_log_request){.rule = rule->name, .line = rule->line});
    }
    return b;
}

/* Pinned memory that the program asked the driver for is in the heap too, and has no slot for
 * libc. */
struct zc_slot *zc_hostblock_slot(const void *p)
{
    struct zc_slot *slot = zc_hostheap_slot(p);
    return slot && !zc_hostheap_extent((uintptr_t)p)->owner ? slot : NULL;
}

/* Whoever enters blocks that are not its own holds the heap's lock: at the start, and where a
 * registration of the program's ends.  Returns whether the ledger has all blocks. */
static bool set_known(const struct zc_extent *e, struct zc_slot *slot, bool known)
{
    ZC_HEAP_HELD mine = (!__atomic_load_n(&listing, __ATOMIC_ACQUIRE) ||
                         __atomic_load_n(&e->program, __ATOMIC_ACQUIRE)) &&
                        zc_heap_lock();
    slot->known = known;
    return __atomic_load_n(&listing, __ATOMIC_ACQUIRE);
}

bool zc_hostblock_enter(void *p, struct zc_slot *slot)
{
    const struct zc_extent *e = zc_hostheap_extent((uintptr_t)p);
    if (!set_known(e, slot, true) || enter_block((uintptr_t)p, slot, e))
        return true;
    slot->known = false;
    return false;
}

void zc_hostblock_unlist(uint64_t address, bool say)
{
    struct zc_block *b = zc_block_find(address);
    if (!b || !(b->flags & ZC_BLOCK_HOST) || !zc_block_claim(b))
        return;
    if (say && zc_log_level() >= ZC_LOG_ALLOCS)
        zc_log_block(b, false);
    zc_site_note_free(b->site);
    zc_block_remove(b);
}

void zc_hostblock_leave(void *p)
{
    if (set_known(zc_hostheap_extent((uintptr_t)p), zc_hostblock_slot(p), false))
        zc_hostblock_unlist((uint64_t)(uintptr_t)p, true);
}

/* Under the heap's lock.  False if a block could not be entered. */
static bool list_extent(const struct zc_extent *e)
{
    bool block = e->use == ZC_EXTENT_BLOCK, done = true;
    if (e->owner || (!block && e->use != ZC_EXTENT_SLAB))
        return true;
    for (unsigned i = 0; i < (block ? 1 : ZC_HOST_SLOTS); i++) {
        const struct zc_slot *slot = &e->slot[i];
        uintptr_t base = zc_extent_base(e) + (block ? e->lead : i * e->step);
        if (slot->size && slot->known && !zc_block_find(base))
            done &= enter_block(base, slot, e) != NULL;
    }
    return done;
}

static void list_first(struct zc_extent *e, void *unused)
{
    (void)unused;
    if (!list_extent(e))
        __atomic_store_n(&e->pin, ZC_PIN_REFUSED, __ATOMIC_RELEASE);
}

void zc_hostblock_list(void)
{
    if (!zc_heap_lock())
        return;
    zc_extent_each(list_first, NULL);
    __atomic_store_n(&listing, true, __ATOMIC_RELEASE);
    zc_heap_unlock();
}

bool zc_hostblock_relist(const struct zc_extent *e)
{
    ZC_HEAP_HELD mine = zc_heap_lock();
    return mine && list_extent(e);
}
