/* SPDX-License-Identifier: MIT */
/* The ledger's entries for blocks of the host heap. */
#include "shared/hostblock.h"

#include "base/life.h"
#include "host/extent.h"
#include "host/hostheap.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/log.h"
#include "shared/pair.h"

static bool on(void)
{
    return __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
}

/* Why libc's memory can't have the first place that the rule names. */
static const char *passed_over(const struct zc_rule *rule)
{
    return rule->place.item[0] == ZC_PLACE_MANAGED ? "managed: requests of libc make no CUDA call"
                                                   : NULL;
}

struct zc_block *zc_hostblock_enter(uintptr_t base, const struct zc_slot *slot,
                                    const struct zc_extent *extent)
{
    bool mine = zc_hostheap_mine(extent);
    struct zc_shared *pair = zc_shared_hosting(base);
    bool pinned = pair || (mine && __atomic_load_n(&extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE);
    const struct zc_block like = {
        .base = base + (pair ? zc_block_shadow : 0),
        .size = slot->size,
        .site = mine ? slot->site : 0, /* A child has its own table of sites. */
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
        /* A block is entered at its first use, maybe by another thread. */
        zc_log_alloc(b, &(struct zc_log_request){
                            .rule = rule->name, .line = (int)rule->line, .why = passed_over(rule)});
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

/* The host block that the ledger has for an address; a hidden one is known to its pair. */
static struct zc_block *known(uint64_t address)
{
    const struct zc_shared *pair = zc_shared_at(address);
    bool mine = pair && pair->era == zc_extent_era;
    struct zc_block *b = mine ? __atomic_load_n(&pair->host_block, __ATOMIC_ACQUIRE) : NULL;
    if (!b)
        b = zc_block_find(address);
    return b && (b->flags & ZC_BLOCK_HOST) ? b : NULL;
}

void zc_hostblock_hide(struct zc_shared *pair)
{
    struct zc_block *b = known(pair->pages.base);
    if (!b) {
        zc_hostblock_find(pair->pages.base);
        return;
    }
    zc_shared_note_host(pair, b);
    zc_block_shift(b, true);
    __atomic_store_n(&b->real, (uint8_t)ZC_KIND_PINNED, __ATOMIC_RELAXED);
}

void zc_hostblock_unhide(struct zc_shared *pair)
{
    struct zc_block *b = __atomic_load_n(&pair->host_block, __ATOMIC_ACQUIRE);
    if (b)
        zc_block_shift(b, false);
    __atomic_store_n(&pair->host_block, NULL, __ATOMIC_RELEASE);
}

struct zc_block *zc_hostblock_find(uint64_t address)
{
    struct zc_block *b = known(address);
    if (!b && !zc_shared_hosting(address))
        b = zc_block_find(address);
    const struct zc_slot *slot = b ? NULL : zc_hostblock_slot((void *)zc_hostheap_block(address));
    uintptr_t base = slot ? zc_hostheap_block(address) : 0;
    return b || !base
               ? b
               : zc_hostblock_enter(base, zc_hostheap_slot((void *)base), zc_hostheap_extent(base));
}

void zc_hostblock_unlist(uint64_t address, bool say)
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
