/* SPDX-License-Identifier: MIT */
/* Requests of libc's malloc family: which go to the host heap, and their blocks there. */
#include "place/hostmem.h"

#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "base/life.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/text.h"
#include "driver/real.h"
#include "driver/stream.h"
#include "host/hostblock.h"
#include "host/hostheap.h"
#include "host/pinned.h"
#include "host/visits.h"
#include "ledger/object.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "memory/workers.h"
#include "place/lessons.h"
#include "shared/backing.h"
#include "shared/early.h"

static ZC_LOCK(opening, ZC_RANK_OPENING);
static struct {
    uint32_t ready;     /* 1: the threshold is the policy's; atomic. */
    size_t least;       /* Smaller requests match no rule; set before `ready`, as is `shares`. */
    bool shares;        /* Device blocks may be one with host blocks. */
    const char *left;   /* Why libc's requests are not converted, or NULL.  Atomic. */
    const void *behind; /* The malloc behind libzc's; atomic. */
} hostrules;

static const uint64_t host_apis =
    UINT64_C(1) << ZC_API_malloc | UINT64_C(1) << ZC_API_calloc | UINT64_C(1) << ZC_API_realloc |
    UINT64_C(1) << ZC_API_reallocarray | UINT64_C(1) << ZC_API_aligned_alloc |
    UINT64_C(1) << ZC_API_posix_memalign | UINT64_C(1) << ZC_API_memalign |
    UINT64_C(1) << ZC_API_valloc | UINT64_C(1) << ZC_API_pvalloc;

/* Whether device blocks of the rule may be one with host blocks. */
static bool promises(const struct zc_rule *rule)
{
    return (rule->apis & ~host_apis) && zc_rule_has_place(rule, ZC_PLACE_SHARED) &&
           rule->access == ZC_ACCESS_READ;
}

static bool converts(const struct zc_rule *rule)
{
    return (rule->apis & host_apis) &&
           (zc_rule_has_place(rule, ZC_PLACE_PINNED) || zc_rule_has_place(rule, ZC_PLACE_SHARED));
}

/* The first rule of a kind, or NULL. */
static const struct zc_rule *first_rule(bool (*kind)(const struct zc_rule *rule))
{
    const struct zc_policy *policy = zc_rules();
    for (size_t i = 0; i < policy->rule_count; i++)
        if (kind(&policy->rules[i]))
            return &policy->rules[i];
    return NULL;
}

/* The smallest size of those rules. */
static size_t smallest(const struct zc_policy *policy)
{
    uint64_t least = SIZE_MAX;
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct zc_rule *rule = &policy->rules[i];
        uint64_t low = rule->size.count ? SIZE_MAX : 0;
        if (!converts(rule))
            continue;
        for (size_t r = 0; r < rule->size.count; r++)
            if (rule->size.item[r].low < low && rule->size.item[r].high >= ZC_HOST_MIN)
                low = rule->size.item[r].low;
        if (low < least)
            least = low;
    }
    return least == SIZE_MAX || least > ZC_HOST_MIN ? least : ZC_HOST_MIN;
}

/* Tells why a request of the rule stayed pageable; each reason, a string constant, once. */
static void note_cause(const char *why, const struct zc_rule *rule)
{
    if (zc_message_first(why))
        zc_message(ZC_WARN, "fallback", "requests of rule %s (%s:%u) stay pageable: %s", rule->name,
                   zc_rules()->file, rule->line, why);
}

void zc_hostmem_leave(const char *why)
{
    __atomic_store_n(&hostrules.left, why, __ATOMIC_RELEASE);
}

void zc_hostmem_behind(const void *its)
{
    __atomic_store_n(&hostrules.behind, its, __ATOMIC_RELEASE);
}

/* Not in the first malloc, which the thread sanitizer calls before its own functions work. */
static void look_behind(void)
{
    static char why[256];
    const void *its = __atomic_load_n(&hostrules.behind, __ATOMIC_ACQUIRE);
    struct zc_object allocator = {.name = NULL}, libc = {.name = NULL};
    if (!its || !zc_object_find((uint64_t)(uintptr_t)its, &allocator) || !allocator.name ||
        !zc_object_find((uint64_t)(uintptr_t)gnu_get_libc_version, &libc) ||
        allocator.start == libc.start)
        return;
    struct zc_text t = zc_text_on(why, sizeof(why));
    zc_text_fmt(&t,
                "%s serves malloc behind libzc, and its own functions must know every block; "
                "preload libzc without it, or copy by threads (pageable_copy = parallel)",
                allocator.name);
    zc_text_cstr(&t);
    zc_hostmem_leave(why);
}

static void get_ready(void)
{
    const char *why = "";
    size_t threshold = smallest(zc_rules());
    hostrules.shares = first_rule(promises);
    if (threshold != SIZE_MAX) {
        zc_limits_start(zc_rules());
        look_behind();
        const char *left = __atomic_load_n(&hostrules.left, __ATOMIC_ACQUIRE);
        if (left || !zc_hostheap_open(&why)) {
            note_cause(left ? left : why, first_rule(converts));
            threshold = SIZE_MAX;
        }
    }
    hostrules.least = threshold;
    __atomic_store_n(&zc_hostheap.threshold, threshold, __ATOMIC_RELAXED);
    __atomic_store_n(&hostrules.ready, 1, __ATOMIC_RELEASE);
}

bool zc_hostmem_ready(void)
{
    if (__builtin_expect(__atomic_load_n(&hostrules.ready, __ATOMIC_ACQUIRE), 1))
        return true;
    if (!zc_rules_load())
        return false;
    /* Without rules there is nothing to open, and a child is not told to reset the lock. */
    bool locked = zc_rules_in_use();
    if (locked && !zc_lock_take(&opening))
        return false;
    if (!hostrules.ready)
        get_ready();
    if (locked)
        zc_lock_drop(&opening);
    return true;
}

bool zc_hostmem_open(const struct zc_rule *rule)
{
    return zc_rule_has_place(rule, ZC_PLACE_SHARED) && zc_hostmem_ready() && zc_hostheap.bytes;
}

static const struct zc_rule *rule_for(const struct zc_hostmem_request *request, uint32_t *site)
{
    const struct zc_policy *policy = zc_rules();
    struct zc_match match = {.api = request->api, .size = request->size, .device = -1};
    if (request->size < hostrules.least || !(policy->apis & (UINT64_C(1) << request->api)))
        return NULL;
    if (policy->needs & (ZC_NEED_SITE | ZC_NEED_MODULE))
        *site = zc_site_here(request->frame, request->pc);
    return zc_rules_match(&match, *site);
}

/* The driver's own memory must stay as the driver knows it. */
static bool from_driver(const void *pc)
{
    struct zc_object object = {.name = NULL};
    return zc_object_find((uint64_t)(uintptr_t)pc, &object) && zc_object_is_driver(&object);
}

/* No device ever reads the memory of a child that inherited CUDA, such as a worker that loads data.
 */
static bool stays_left(const struct zc_rule *rule)
{
    const char *why = __atomic_load_n(&hostrules.left, __ATOMIC_ACQUIRE);
    if (why)
        note_cause(why, rule);
    return why || zc_life_inherited();
}

static bool to_heap(const struct zc_rule *rule)
{
    for (unsigned i = 0; i < rule->place.count && zc_hostheap.bytes; i++) {
        enum zc_place_id place = rule->place.item[i];
        if (place == ZC_PLACE_PINNED || place == ZC_PLACE_SHARED)
            return !stays_left(rule);
        if (place == ZC_PLACE_PAGEABLE)
            return false;
    }
    return false;
}

/* The rule that matches a request, if its requests go to the host heap by the first place of its
 * list that is possible; else NULL, as for the driver's own.  `anew`: it resizes no block. */
static const struct zc_rule *rule_of_request(const struct zc_hostmem_request *request, bool anew,
                                             uint32_t *site)
{
    const struct zc_rule *rule = rule_for(request, site);
    bool learns = anew && zc_lessons_concern(rule, request->api, request->size);
    if ((rule || learns) && !*site)
        *site = zc_site_here(request->frame, request->pc);
    if (learns)
        rule = zc_lessons_rule(rule, request->size, *site);
    return rule && !from_driver(request->pc) && to_heap(rule) ? rule : NULL;
}

/* True if device blocks may be one with the rule's host blocks. */
static bool shares(const struct zc_rule *rule)
{
    return hostrules.shares && zc_rule_has_place(rule, ZC_PLACE_SHARED);
}

void zc_hostmem_start(void)
{
    const struct zc_rule *rule = first_rule(converts);
    if (rule)
        stays_left(rule);
    zc_hostblock_list();
    if (zc_lessons_start() && zc_hostmem_ready() && hostrules.least != SIZE_MAX &&
        hostrules.least > ZC_LESSONS_LEAST)
        __atomic_store_n(&zc_hostheap.threshold, ZC_LESSONS_LEAST, __ATOMIC_RELAXED);
}

/* Records the owner of the memory at `p`.  False if the ledger has no memory for that. */
static bool fill_slot(void *p, struct zc_slot *slot, const struct zc_hostmem_request *request,
                      uint32_t site, const struct zc_rule *rule)
{
    __atomic_store_n(&slot->size, request->size, __ATOMIC_RELAXED);
    slot->site = site;
    slot->rule = (int16_t)(rule - zc_rules()->rules);
    slot->api = (uint8_t)request->api;
    return zc_hostblock_enter(p, slot);
}

static void *hostmem_place(const struct zc_hostmem_request *request, uint32_t site,
                           const struct zc_rule *rule)
{
    if (!zc_lessons_may_round(request->size))
        return NULL;
    const struct zc_host_want want = {.size = request->size,
                                      .alignment = request->alignment,
                                      .zero = request->zero,
                                      .shareable = shares(rule),
                                      .spread = !shares(rule)};
    struct zc_slot *slot = NULL;
    const char *why = "";
    void *p = zc_hostheap_get(&want, &slot, &why);
    if (!p) {
        note_cause(why, rule);
        return NULL;
    }
    if (!fill_slot(p, slot, request, site, rule)) {
        zc_hostheap_put(p);
        return NULL;
    }
    if (want.shareable)
        zc_early_want(zc_hostheap_extent((uintptr_t)p));
    return p;
}

void *zc_hostmem_get(const struct zc_hostmem_request *request)
{
    uint32_t site = 0;
    ZC_KEEPS_ERRNO;
    const struct zc_rule *rule = NULL;
    if (zc_hostmem_ready() && request->size >= zc_hostheap.threshold &&
        request->alignment <= ZC_HOST_UNIT)
        rule = rule_of_request(request, true, &site);
    return rule ? hostmem_place(request, site, rule) : NULL;
}

void zc_hostmem_put(void *p)
{
    ZC_KEEPS_ERRNO;
    const struct zc_slot *slot = zc_hostblock_slot(p);
    if (!slot) {
        zc_message(ZC_URGENT, "free", "free(): %p is no block of libc's", p);
        abort();
    }
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    zc_lessons_end(p);
    zc_hostblock_leave(p);
    if (alone) {
        zc_early_freed(extent);
        zc_shared_host_gone(extent);
    }
    zc_hostheap_put(p);
}

size_t zc_hostmem_size(const void *p)
{
    const struct zc_slot *slot = zc_hostblock_slot(p);
    return slot ? slot->size : 0;
}

/* A block that shrinks far below its room moves, so that memory is given back. */
static bool fits_in_place(const void *p, const struct zc_hostmem_request *request)
{
    size_t room = zc_hostheap_room(p);
    return request->size <= room && request->size >= room / 2;
}

static void *hostmem_resize(void *p, struct zc_slot *slot, const struct zc_hostmem_request *request)
{
    uint32_t site = 0;
    const struct zc_rule *rule = rule_of_request(request, false, &site);
    if (!rule)
        return NULL;
    struct zc_extent *extent = zc_hostheap_extent((uintptr_t)p);
    bool alone = extent->use == ZC_EXTENT_BLOCK;
    if (alone)
        zc_hostheap_claim(extent);
    /* Before another block can get its addresses. */
    zc_hostblock_leave(p);
    void *moved = fits_in_place(p, request) ? p : zc_hostheap_resize(p, request->size, &slot);
    if (moved)
        fill_slot(moved, slot, request, site, rule);
    if (alone && (!moved || moved == p))
        zc_hostheap_unclaim(extent);
    if (moved)
        return moved;
    moved = hostmem_place(request, site, rule);
    if (moved) {
        zc_workers_copy(moved, p, slot->size < request->size ? slot->size : request->size);
        zc_hostmem_put(p);
    } else {
        zc_hostblock_enter(p, slot);
    }
    return moved;
}

void *zc_hostmem_resize(void *p, const struct zc_hostmem_request *request)
{
    struct zc_slot *slot = zc_hostblock_slot(p);
    ZC_KEEPS_ERRNO;
    return slot && request->size >= zc_hostheap.threshold ? hostmem_resize(p, slot, request) : NULL;
}

CUresult zc_hostmem_yield(void *p, size_t bytes, unsigned flags, enum zc_fn fn)
{
    struct zc_shared *pair = zc_shared_at((uint64_t)(uintptr_t)p);
    CUresult state = pair ? zc_stream_state() : CUDA_SUCCESS;
    if (state == CUDA_SUCCESS)
        state = zc_shared_to_own(pair, fn, "the program registers its host block");
    if (state != CUDA_SUCCESS || !zc_hostmem_owns(p) || !bytes)
        return state;
    if (zc_pinned_freed((CUdeviceptr)p, bytes))
        return zc_stream_refusal();
    return zc_pinned_yield((CUdeviceptr)p, bytes, flags, fn);
}

void zc_hostmem_return(void *p, size_t bytes)
{
    if (zc_hostmem_owns(p) && bytes)
        zc_pinned_return((CUdeviceptr)p, bytes);
}

void zc_hostmem_fit(bool all)
{
    ZC_KEEPS_ERRNO;
    zc_hostheap_fit(all);
}
