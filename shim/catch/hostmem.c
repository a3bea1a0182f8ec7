/* Requests of libc's malloc family: which rule has them, and the life of the blocks. */
#include "catch/hostmem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/message.h"
#include "catch/life.h"
#include "catch/request.h"
#include "catch/rules.h"
#include "catch/stay.h"
#include "ledger/object.h"
#include "ledger/site.h"
#include "log/counters.h"
#include "log/log.h"
#include "place/ability.h"
#include "place/extent.h"
#include "place/hostheap.h"
#include "place/limits.h"
#include "place/node.h"
#include "place/workers.h"
#include "shared/pair.h"

/* Different reasons why requests stay pageable; a reason is a string constant. */
#define CAUSES 8

static uint32_t ready;                       /* 1: the threshold is the policy's; atomic. */
static uint32_t opening;                     /* 1: a thread is getting ready, or did; atomic. */
static const char *causes[CAUSES];           /* Reasons met, each once; atomic. */
static const struct zc_rule *blamed[CAUSES]; /* Rule of the first request with that reason. */

static bool reachable; /* Every GPU reaches libc's memory; false before CUDA is up.  Atomic. */

static bool pairs;     /* Device blocks may move in with host blocks; written before `ready`. */
static const char *disabled; /* Why nothing is converted in this process, or NULL. */

static const uint64_t host_apis =
    UINT64_C(1) << ZC_API_malloc | UINT64_C(1) << ZC_API_calloc | UINT64_C(1) << ZC_API_realloc |
    UINT64_C(1) << ZC_API_reallocarray | UINT64_C(1) << ZC_API_aligned_alloc |
    UINT64_C(1) << ZC_API_posix_memalign | UINT64_C(1) << ZC_API_memalign |
    UINT64_C(1) << ZC_API_valloc | UINT64_C(1) << ZC_API_pvalloc;

static bool on(void)
{
    return __atomic_load_n(&zc_life_state, __ATOMIC_ACQUIRE) == ZC_LIFE_ON;
}

static bool has_place(const struct zc_rule *rule, enum zc_place_id place)
{
    for (unsigned i = 0; i < rule->place.count; i++)
        if (rule->place.item[i] == place)
            return true;
    return false;
}

/* Whether a rule for one of these requests names the place. */
static bool asks_for(const struct zc_policy *policy, enum zc_place_id place, uint64_t apis)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if ((policy->rules[i].apis & apis) && has_place(&policy->rules[i], place))
            return true;
    return false;
}

static bool converts(const struct zc_rule *rule)
{
    return (rule->apis & host_apis) &&
           (has_place(rule, ZC_PLACE_PINNED) || has_place(rule, ZC_PLACE_SHARED));
}

/* Whether blocks of the rule that stay with libc are to be known. */
static bool tells_copies(const struct zc_rule *rule)
{
    return (rule->apis & host_apis) && has_place(rule, ZC_PLACE_PAGEABLE) &&
           (rule->given & ZC_KEY_BIT(ZC_KEY_RULE_PAGEABLE_COPY));
}

/* The first rule that converts, or NULL. */
static const struct zc_rule *first_rule(const struct zc_policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (converts(&policy->rules[i]))
            return &policy->rules[i];
    return NULL;
}

/* The smallest size of the rules of that kind. */
static size_t smallest(const struct zc_policy *policy, bool (*kind)(const struct zc_rule *rule))
{
    uint64_t least = SIZE_MAX;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct zc_rule *rule = &policy->rules[i];
        uint64_t low = rule->size.count ? SIZE_MAX : 0;
        if (!kind(rule))
            continue;
        for (size_t r = 0; r < rule->size.count; r++)
            if (rule->size.item[r].low < low && rule->size.item[r].high >= ZC_HOST_MIN)
                low = rule->size.item[r].low;
        if (low < least)
            least = low;
    }
    return least == SIZE_MAX || least > ZC_HOST_MIN ? least : ZC_HOST_MIN;
}

static void note_cause(const char *why, const struct zc_rule *rule)
{
    for (unsigned i = 0; i < CAUSES; i++) {
        const char *there = NULL;
        if (__atomic_compare_exchange_n(&causes[i], &there, why, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&blamed[i], rule, __ATOMIC_RELEASE);
            if (on())
                zc_hostmem_announce();
            return;
        }
        if (there == why)
            return;
    }
}

void zc_hostmem_announce(void)
{
    for (unsigned i = 0; i < CAUSES; i++) {
        const char *why = __atomic_load_n(&causes[i], __ATOMIC_ACQUIRE);
        const struct zc_rule *rule = __atomic_exchange_n(&blamed[i], NULL, __ATOMIC_ACQ_REL);
        if (why && rule)
            zc_message(ZC_WARN, "fallback",
                       "requests of rule %s (%s:%u) stay pageable: %s",
                       rule->name, zc_rules()->file, rule->line, why);
    }
}

void zc_hostmem_disable(const char *why)
{
    disabled = why;
}

/* The first large request of the process reads the policy. */
static bool prepare(void)
{
    const char *why = "";
    if (__builtin_expect(__atomic_load_n(&ready, __ATOMIC_ACQUIRE), 1))
        return true;
    if (!zc_rules_load())
        return false; /* Another thread is at it, or this one in a signal handler. */
    if (__atomic_exchange_n(&opening, 1, __ATOMIC_ACQ_REL))
        return false;
    size_t threshold = smallest(zc_rules(), converts), told = smallest(zc_rules(), tells_copies);
    pairs = asks_for(zc_rules(), ZC_PLACE_SHARED, ~host_apis);
    if (threshold != SIZE_MAX) {
        zc_limits_start(zc_rules());
        if (disabled || !zc_hostheap_open(&why)) {
            note_cause(disabled ? disabled : why, first_rule(zc_rules()));
            threshold = SIZE_MAX;
        }
    }
    if (told < ZC_STAY_MIN)
        told = ZC_STAY_MIN;
    if (!disabled && told < threshold)
        threshold = told;
    __atomic_store_n(&zc_hostheap.threshold, threshold, __ATOMIC_RELAXED);
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    return true;
}

void zc_hostmem_reset(void)
{
    if (!ready)
        opening = 0;
}

bool zc_hostmem_open(void)
{
    return prepare() && zc_hostheap.bytes;
}

static const struct zc_rule *match(const struct zc_hostmem_ask *ask, uint32_t *site)
{
    const struct zc_policy *policy = zc_rules();
    struct zc_request request = {.api = ask->api, .size = ask->size, .device = -1};
    if (!(policy->apis & (UINT64_C(1) << ask->api)))
        return NULL;
    if (policy->needs & (ZC_NEED_SITE | ZC_NEED_MODULE))
        *site = zc_site_here(ask->frame, ask->pc);
    const struct zc_rule *rule = zc_rules_match(&request, *site);
    if (rule && !*site)
        *site = zc_site_here(ask->frame, ask->pc);
    return rule;
}

/* The driver's own memory stays what the driver knows it to be. */
static bool from_driver(const void *pc)
{
    struct zc_object object = {.name = NULL};
    if (!zc_object_find((uint64_t)(uintptr_t)pc, &object) || !object.name)
        return false;
    const char *slash = strrchr(object.name, '/');
    return strncmp(slash ? slash + 1 : object.name, "libcuda.so", 10) == 0;
}

/* Why libc's memory cannot be what the rule names first. */
static const char *passed_over(const struct zc_rule *rule)
{
    return rule->place.item[0] == ZC_PLACE_MANAGED ? "managed: requests of libc make no CUDA call"
                                                   : NULL;
}

/* The pair that a host block is the host side of, or NULL. */
static struct zc_shared *pair_of(uint64_t address)
{
    struct zc_shared *pair = zc_shared_at(address);
    return pair && pair->era == zc_extent_era && zc_shared_has_host(pair) ? pair : NULL;
}

static struct zc_block *enter(uintptr_t base, const struct zc_slot *slot,
                              const struct zc_extent *extent)
{
    bool mine = zc_hostheap_mine(extent);
    struct zc_shared *pair = pair_of(base);
    bool pinned =
        pair || (mine && __atomic_load_n(&extent->pin, __ATOMIC_ACQUIRE) == ZC_PIN_DONE);
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
        zc_log_alloc(b, &(struct zc_log_request){.rule = rule->name, .line = (int)rule->line,
                                                 .why = passed_over(rule)});
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
    if (!b && !pair_of(address))
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
                                      .spread = !pairs};
    struct zc_slot *slot = NULL;
    const char *why = "";
    uint32_t nth = ordinal(site);
    void *p = zc_shared_join(ask->size, site, nth, ask->zero, &slot);
    if (!p)
        p = zc_hostheap_get(&want, &slot, &why);
    if (!p) {
        note_cause(why, rule);
        return NULL;
    }
    slot->nth = nth;
    settle(p, slot, ask, site, rule);
    __atomic_store_n(&slot->thread, zc_thread_id(), __ATOMIC_RELEASE);
    return p;
}

/* Where every GPU reaches all host memory, libc's own is what `managed` asks for (CUDA C++
 * Programming Guide, "Unified Memory"). */
static bool reached(void)
{
    return __atomic_load_n(&reachable, __ATOMIC_RELAXED);
}

void zc_hostmem_ask_devices(void)
{
    int devices = 0;
    if (!asks_for(zc_rules(), ZC_PLACE_MANAGED, host_apis))
        return;
    bool all = zc_real.cuDeviceGetCount && zc_real.cuDeviceGetCount(&devices) == CUDA_SUCCESS;
    for (int d = 0; d < devices; d++)
        all = all && zc_device_has(d, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
    __atomic_store_n(&reachable, all && devices > 0, __ATOMIC_RELAXED);
}

/* The rule that takes the request, or NULL. */
static const struct zc_rule *choose(const struct zc_hostmem_ask *ask, uint32_t *site)
{
    const struct zc_rule *rule = match(ask, site);
    return rule && !from_driver(ask->pc) ? rule : NULL;
}

/* Whether its requests go to the host heap: the first place of the list that can be had. */
static bool to_heap(const struct zc_rule *rule)
{
    for (unsigned i = 0; i < rule->place.count && zc_hostheap.bytes; i++) {
        enum zc_place_id place = rule->place.item[i];
        if (place == ZC_PLACE_PINNED || place == ZC_PLACE_SHARED)
            return true;
        if (place == ZC_PLACE_PAGEABLE || (place == ZC_PLACE_MANAGED && reached()))
            return false;
    }
    return false;
}

static void *stay(const struct zc_hostmem_ask *ask, const struct zc_rule *rule)
{
    if (ask->stays && ask->size >= ZC_STAY_MIN && tells_copies(rule))
        *ask->stays = rule;
    return NULL;
}

void *zc_hostmem_get(const struct zc_hostmem_ask *ask)
{
    uint32_t site = 0;
    int saved = errno;
    void *p = NULL;
    if (prepare() && ask->size >= zc_hostheap.threshold && ask->alignment <= ZC_HOST_UNIT) {
        const struct zc_rule *rule = choose(ask, &site);
        if (rule && to_heap(rule))
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
    if (alone)
        zc_shared_host_gone(extent);
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
    const struct zc_rule *rule = choose(ask, &site);
    if (!rule)
        return NULL;
    if (!to_heap(rule))
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
