/* Blocks of libc's malloc family that lie in the host heap: how they come, change and go. */
#include "hook/hostmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/message.h"
#include "base/life.h"
#include "hook/request.h"
#include "ledger/rules.h"
#include "host/stay.h"
#include "ledger/site.h"
#include "ledger/counters.h"
#include "log/log.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "memory/node.h"
#include "host/overlay.h"
#include "memory/workers.h"
#include "shared/pair.h"

static bool on(void)
{
    return __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
}

/* Why libc's memory cannot be what the rule names first. */
static const char *passed_over(const struct zc_rule *rule)
{
    return rule->place.item[0] == ZC_PLACE_MANAGED ? "managed: requests of libc make no CUDA call"
                                                   : NULL;
}

static struct zc_block *enter(uintptr_t base, const struct zc_slot *slot,
                              const struct zc_extent *extent)
{
    bool mine = zc_hostheap_mine(extent);
    struct zc_shared *pair = zc_shared_hosting(base);
    bool pinned = pair || (mine && __atomic_load_n(&extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE);
    const struct zc_block like = {
        .base = base + (pair ? zc_block_shadow : 0),
        .size = slot->size,
        .site = mine ? slot->site : 0, /* A child has a table of sites of its own. */
        .flags = ZC_BLOCK_HOST | (pair ? ZC_BLOCK_SHADOW : 0),
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
    if (pair)
        zc_shared_note_host(pair, b);
    if (zc_log_level() >= ZC_LOG_ALLOCS) {
        const struct zc_rule *rule = &zc_rules()->rules[slot->rule];
        if (zc_site_is_new(b->site))
            zc_log_site(b->site);
        /* Blocks are entered at their first use, by whichever thread that is. */
        zc_log_alloc(b, &(struct zc_log_request){
                            .rule = rule->name, .line = (int)rule->line, .why = passed_over(rule)});
    }
    return b;
}

/* The slot of a live block of libc's.  Pinned memory that the program asked the driver for lies in
 * the heap too, and is nothing to libc. */
static struct zc_slot *libc_slot(const void *p)
{
    struct zc_slot *slot = zc_hostheap_slot(p);
    return slot && !zc_hostheap_extent((uintptr_t)p)->owner ? slot : NULL;
}

/* The host block that the ledger has for an address: its pair knows it while it is hidden. */
static struct zc_block *known(uint64_t address)
{
    const struct zc_shared *pair = zc_shared_at(address);
    bool mine = pair && pair->era == zc_extent_era;
    struct zc_block *b = mine ? __atomic_load_n(&pair->host_block, __ATOMIC_ACQUIRE) : NULL;
    if (!b)
        b = zc_block_find(address);
    return b && (b->flags & ZC_BLOCK_HOST) ? b : NULL;
}

void zc_hostmem_hide(struct zc_shared *pair)
{
    struct zc_block *b = known(pair->pages.base);
    if (!b) {
        zc_hostmem_block(pair->pages.base);
        return;
    }
    zc_shared_note_host(pair, b);
    zc_block_shift(b, true);
    __atomic_store_n(&b->real, (uint8_t)ZC_KIND_PINNED, __ATOMIC_RELAXED);
}

void zc_hostmem_unhide(struct zc_shared *pair)
{
    struct zc_block *b = __atomic_load_n(&pair->host_block, __ATOMIC_ACQUIRE);
    if (b)
        zc_block_shift(b, false);
    __atomic_store_n(&pair->host_block, NULL, __ATOMIC_RELEASE);
}

struct zc_block *zc_hostmem_block(uint64_t address)
{
    struct zc_block *b = known(address);
    if (!b && !zc_shared_hosting(address))
        b = zc_block_find(address);
    const struct zc_slot *slot = b ? NULL : libc_slot((void *)zc_hostheap_block(address));
    uintptr_t base = slot ? zc_hostheap_block(address) : 0;
    return b || !base ? b : enter(base, zc_hostheap_slot((void *)base), zc_hostheap_extent(base));
}

static void unlist(uint64_t address, bool say)
{
    struct zc_block *b = on() ? known(address) : NULL;
    if (!b || !zc_block_claim(b))
        return;
    if (say && zc_log_level() >= ZC_LOG_ALLOCS)
        zc_log_free(b);
    zc_site_note_free(b->site);
    zc_shared_forget_host(b);
    zc_block_remove(b);
}

void zc_hostmem_forget(uint64_t address)
{
    unlist(address, false);
}

/* Writes down whose the memory at `p` is from here on. */
static void settle(void *p, struct zc_slot *slot, const struct zc_hostmem_ask *ask, uint32_t site,
                   const struct zc_rule *rule)
{
    slot->size = ask->size;
    slot->site = site;
    slot->rule = (int16_t)(rule - zc_rules()->rules);
    slot->api = (uint8_t)ask->api;
    if (on())
        enter((uintptr_t)p, slot, zc_hostheap_extent((uintptr_t)p));
}

static int node_of(const struct zc_rule *rule)
{
    if (!(rule->given & ZC_KEY_BIT(ZC_KEY_NUMA)))
        return ZC_NODE_ANY;
    return rule->numa.local ? ZC_NODE_LOCAL : (int)rule->numa.node;
}

/* Which request of its site it is, from 1: rules that pair blocks may name it. */
static uint32_t ordinal(uint32_t site)
{
    static uint32_t asked[ZC_COUNTERS_SITES];
    return __atomic_add_fetch(&asked[site < ZC_COUNTERS_SITES ? site : 0], 1, __ATOMIC_RELAXED);
}

static void *place(const struct zc_hostmem_ask *ask, uint32_t site, const struct zc_rule *rule)
{
    const struct zc_host_want want = {.size = ask->size,
                                      .alignment = ask->alignment,
                                      .node = node_of(rule),
                                      .zero = ask->zero,
                                      .spread = !zc_hostrule_pairs()};
    struct zc_slot *slot = NULL;
    const char *why = "";
    uint32_t nth = ordinal(site);
    void *p = zc_shared_join(ask->size, site, nth, ask->zero, &slot);
    if (!p)
        p = zc_hostheap_get(&want, &slot, &why);
    if (!p) {
        zc_hostrule_note(why, rule);
        return NULL;
    }
    slot->nth = nth;
    settle(p, slot, ask, site, rule);
    __atomic_store_n(&slot->thread, zc_thread_id(), __ATOMIC_RELEASE);
    return p;
}

static void *stay(const struct zc_hostmem_ask *ask, const struct zc_rule *rule)
{
    if (ask->stays && ask->size >= ZC_STAY_MIN && zc_hostrule_tells_copies(rule))
        *ask->stays = rule;
    return NULL;
}

void *zc_hostmem_get(const struct zc_hostmem_ask *ask)
{
    uint32_t site = 0;
    int saved = errno;
    void *p = NULL;
    if (zc_hostrule_ready() && ask->size >= zc_hostheap.threshold &&
        ask->alignment <= ZC_HOST_UNIT) {
        const struct zc_rule *rule = zc_hostrule_of(ask, &site);
        if (rule && zc_hostrule_to_heap(rule))
            p = place(ask, site, rule);
        if (rule && !p)
            stay(ask, rule);
    }
    errno = saved;
    return p;
}

void zc_hostmem_put(void *p)
{
    int saved = errno;
    if (!libc_slot(p)) {
        zc_message(ZC_ERROR, "free", "free(): %p is no block of libc's", p);
        abort();
    }
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    unlist((uint64_t)(uintptr_t)p, true);
    if (alone) {
        zc_overlay_drop(extent); /* What the pair opens now is nobody's. */
        zc_shared_host_gone(extent);
    }
    zc_hostheap_put(p);
    errno = saved;
}

size_t zc_hostmem_size(const void *p)
{
    const struct zc_slot *slot = libc_slot(p);
    return slot ? slot->size : 0;
}

/* Far below its room a block moves, so that shrinking gives memory back. */
static bool fits_in_place(void *p, const struct zc_hostmem_ask *ask)
{
    size_t room = zc_hostheap_room(p);
    return ask->size <= room && ask->size >= room / 2 &&
           zc_shared_resize(zc_hostheap_extent((uintptr_t)p), ask->size);
}

static void *resize(void *p, struct zc_slot *slot, const struct zc_hostmem_ask *ask)
{
    uint32_t site = 0;
    const struct zc_rule *rule = zc_hostrule_of(ask, &site);
    if (!rule)
        return NULL;
    if (!zc_hostrule_to_heap(rule))
        return stay(ask, rule);
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool stays = extent->node == node_of(rule), alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    /* Before its addresses may be another block's.  If all fails, its next transfer enters it. */
    unlist((uint64_t)(uintptr_t)p, true);
    void *moved = fits_in_place(p, ask) ? p
                  : stays               ? zc_hostheap_resize(p, ask->size, &slot)
                                        : NULL;
    if (moved)
        settle(moved, slot, ask, site, rule);
    if (alone && (!moved || moved == p))
        zc_hostheap_unclaim(extent);
    if (moved)
        return moved;
    moved = place(ask, site, rule);
    if (moved) {
        zc_workers_copy(moved, p, slot->size < ask->size ? slot->size : ask->size);
        zc_hostmem_put(p);
    }
    return moved ? moved : stay(ask, rule);
}

void *zc_hostmem_resize(void *p, const struct zc_hostmem_ask *ask)
{
    struct zc_slot *slot = libc_slot(p);
    int saved = errno;
    void *out = slot && ask->size >= zc_hostheap.threshold ? resize(p, slot, ask) : NULL;
    errno = saved;
    return out;
}
