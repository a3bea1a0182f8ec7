/* SPDX-License-Identifier: MIT */
/* The ledger's entries for blocks of the host heap. */
#include "host/hostblock.h"

#include "base/life.h"
#include "host/hostheap.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/lines.h"

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
    bool pinned = mine && __atomic_load_n(&extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE;
    const struct zc_block like = {
        .base = base,
        .size = slot->size,
        .site = mine ? slot->site : 0, /* A child has its own table of sites. */
        .flags = ZC_BLOCK_HOST,
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

/* The host block that the ledger has for an address. */
static struct zc_block *known(uint64_t address)
{
    struct zc_block *b = zc_block_find(address);
    return b && (b->flags & ZC_BLOCK_HOST) ? b : NULL;
}

struct zc_block *zc_hostblock_find(uint64_t address)
{
    struct zc_block *b = zc_block_find(address);
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
    zc_block_remove(b);
}
