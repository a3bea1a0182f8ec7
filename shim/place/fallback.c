/* SPDX-License-Identifier: MIT */
/* Tries the places of a rule's list in order. */

#include "place/fallback.h"
#include "base/arena.h"
#include "base/life.h"
#include "base/message.h"
#include "base/module.h"
#include "base/own.h"
#include "base/text.h"
#include "driver/lock.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "ledger/rules.h"
#include "managed/hint.h"
#include "memory/limits.h"
#include "memory/place.h"
#include "place/migrate.h"
#include "place/room.h"

/* Most requests in a row that blocks in both memories are not looked at for, and most milliseconds
 * that one waits for the GPU to rest. */
#define PASS_MOST 63u
#define WAIT_MS 500u

/* Weights leave for a request of at least such a part of them: to bring them again takes as long as
 * so many kernels that use its memory over the link. */
#define LEAST_PART 16u

static const struct zc_place *const places[ZC_PLACE_COUNT] = {
    [ZC_PLACE_MAPPED] = &zc_place_mapped, [ZC_PLACE_MANAGED] = &zc_place_managed,
    [ZC_PLACE_VMM] = &zc_place_vmm,       [ZC_PLACE_PINNED] = &zc_place_pinned,
    [ZC_PLACE_SHARED] = &zc_place_shared,
};

const struct zc_place *zc_place_of(enum zc_place_id id)
{
    return id < ZC_PLACE_COUNT ? places[id] : NULL;
}

_Static_assert(sizeof(struct zc_backing) <= 64, "memory for each live block is bounded");
_Static_assert(ZC_API_COUNT <= 32 && ZC_PLACE_COUNT <= 8 && ZC_KIND_COUNT <= 16,
               "fields of struct zc_block are wide enough");

static CUresult make_at(const struct zc_place *place, const struct zc_want *want, size_t spilled,
                        struct zc_backing *out, const char **why)
{
    *out = (struct zc_backing){.size = want->size,
                               .spilled = spilled,
                               .place = (uint8_t)place->id,
                               .device = (int8_t)want->device,
                               .context = want->context,
                               .flags = (uint8_t)want->flags};
    CUresult result = place->make(want, out, why);
    out->room = out->room > out->size ? out->room : out->size;
    return result;
}

/* 2^32 divided by the golden ratio: multiples of it, modulo 2^32, part that range evenly. */
#define SPREAD 2654435769u

/* Blocks that may leave the device, in turn: those that are in both memories; weights whose host
 * copy is there, the one that is due last first; and weights that no launch has used, each some
 * blocks from the others that left.  So what has to come for launches in that order can come while
 * they use what is there. */
struct yielding {
    const struct zc_rule *of; /* Only those that count against its budget; NULL: all, */
    CUdevice device;          /* on a device. */
    uint64_t lacks;           /* So many bytes are to leave, */
    uint64_t bytes;           /* of so many on the device. */
    uint64_t weights;         /* Weights of at most so many bytes may leave, too. */
    struct zc_block *next;    /* The one at the least turn. */
    uint64_t turn;
};

/* 0: it may not leave. */
static uint64_t turn_of(const struct zc_block *block, const struct zc_movable *m, uint64_t weights)
{
    const struct zc_vmm *v = &m->vmm;
    uint64_t due = zc_migrate_due(block);
    if (zc_block_spilled(block))
        return due && zc_block_spilled(block) < block->size ? 1 : 0;
    if (!due || block->size > weights || !zc_vmm_is_fetched(v) || !(v->va.reads || !m->last))
        return 0;
    return v->va.reads ? UINT64_MAX / 2 - due
                       : UINT64_MAX / 2 + (uint32_t)((uint32_t)block->id * SPREAD);
}

static ZC_OWN struct {
    unsigned vain;   /* So many requests pass after one that none gave way to, with the lock; */
    unsigned passed; /* so many have.  Atomic. */
} yields;

static void find_yielding(struct zc_block *block, void *arg)
{
    struct yielding *s = arg;
    const struct zc_vmm *v = block->place == ZC_PLACE_VMM ? zc_move_of(block) : NULL;
    uint64_t turn = v ? turn_of(block, zc_movable(v), s->weights) : 0;
    uint64_t front = block->size - zc_block_spilled(block);
    uint64_t needs = front < block->size && front > s->lacks ? s->lacks : front;
    bool counts = !s->of || ((block->flags & ZC_BLOCK_BUDGET) && block->rule >= 0 &&
                             &zc_rules()->rules[block->rule] == s->of);
    if (!turn || !counts || block->device != s->device ||
        (!v->va.reads && zc_limits_left(ZC_PLACE_MAPPED, block->device) < needs))
        return;
    s->bytes += front;
    if (s->next && turn > s->turn)
        return;
    s->next = block;
    s->turn = turn;
}

/* One of them gives way to a request, as far as that needs, where all of them together give what it
 * lacks beside `left`; NULL: half of it to any that the current device lacks memory for.  After
 * requests in vain ever more are let pass; NULL is none, as that of a block is made behind it. */
static bool give_way(const struct zc_want *want, bool budget, uint64_t bytes, uint64_t left)
{
    uint64_t lacks = bytes > left ? bytes - left : 1;
    struct yielding s = {.of = want && budget ? want->rule : NULL,
                         .device = want ? want->device : 0,
                         .lacks = want ? lacks : UINT64_MAX};
    if (want && want->rule->spill == ZC_SPILL_FETCH)
        s.weights = LEAST_PART * want->size;
    bool urgent = !want || !zc_place_hosts(want->rule);
    if (!__atomic_load_n(&zc_vmm_counts.spilled, __ATOMIC_RELAXED) || zc_life_closing() ||
        (!want && zc_real.cuCtxGetDevice(&s.device) != CUDA_SUCCESS) || !zc_driver_lock())
        return false;
    bool gave = false;
    bool looks = __atomic_fetch_add(&yields.passed, 1, __ATOMIC_RELAXED) >= yields.vain || urgent;
    if (looks) {
        zc_block_each(find_yielding, &s);
        uint64_t front = s.turn == 1 ? s.next->size - zc_block_spilled(s.next) : 0;
        uint64_t keeps = !want ? front / 2 : front > lacks ? front - lacks : 0;
        gave = s.next && s.bytes + left >= bytes && zc_migrate_away(s.next, keeps, WAIT_MS);
    }
    if (looks && (want || gave)) {
        __atomic_store_n(&yields.passed, 0, __ATOMIC_RELAXED);
        yields.vain = gave ? 0 : yields.vain < PASS_MOST ? 2 * yields.vain + 1 : PASS_MOST;
    }
    zc_driver_unlock();
    return gave;
}

/* If the limit is reached, memory of deferred frees that nobody uses any more may be the reason:
 * gives that back and tries once more. */
static bool take_limit(enum zc_place_id limit, const struct zc_want *want, size_t bytes,
                       const char **why)
{
    int device = want->device;
    bool taken = !bytes || zc_limits_take(limit, device, bytes, why) ||
                 (zc_modules_reclaim(limit) && zc_limits_take(limit, device, bytes, why));
    while (!taken && (limit == ZC_PLACE_VMM || limit == ZC_PLACE_SHARED) &&
           give_way(want, false, bytes, zc_limits_left(limit, device)))
        taken = zc_limits_take(limit, device, bytes, why);
    return taken;
}

static bool take_budget(const struct zc_want *want, uint64_t bytes)
{
    const struct zc_rule *rule = want->rule;
    bool taken = zc_budget_take(rule, want->device, bytes);
    while (!taken && rule->spill >= ZC_SPILL_MOVE &&
           give_way(want, true, bytes, zc_budget_left(rule, want->device)))
        taken = zc_budget_take(rule, want->device, bytes);
    return taken;
}

/* Makes a block the place's, but for `spilled` bytes at its end, which are host memory at its
 * addresses; with `counted` what is the place's counts against the rule's budget.  NOT_PERMITTED: a
 * limit is reached; OUT_OF_MEMORY: the device, or the host, has not so much. */
static CUresult try_place(const struct zc_place *place, const struct zc_want *want, size_t spilled,
                          bool counted, struct zc_backing *out, const char **why)
{
    size_t placed = want->size - spilled, own = place->counts ? 0 : placed;
    size_t budget = counted ? placed : 0;
    CUresult result = CUDA_ERROR_NOT_PERMITTED;
    *why = "over its budget";
    if (budget && !take_budget(want, budget))
        return result;
    if (take_limit(place->id, want, own, why)) {
        if (take_limit(ZC_PLACE_MAPPED, want, spilled, why)) {
            result = make_at(place, want, spilled, out, why);
            if (result == CUDA_SUCCESS)
                return result;
            zc_limits_give(ZC_PLACE_MAPPED, want->device, spilled);
        }
        zc_limits_give(place->id, want->device, own);
    }
    if (budget)
        zc_budget_give(want->rule, want->device, budget);
    return result;
}

/* The device, then host memory, of a block that may move between both; what can never be whole on
 * the device is in both at first, where it may leave.  If it is host memory, *why is what the
 * device lacked. */
static bool try_both(const struct zc_want *want, bool counted, struct zc_backing *out,
                     const char **why)
{
    size_t beyond = zc_room_beyond(want->rule, want->device, counted, want->size);
    beyond = beyond && zc_migrate_watch() ? beyond : 0;
    CUresult result = try_place(&zc_place_vmm, want, beyond, counted, out, why);
    /* Launches of other threads may take what leaves, as long as they go on. */
    uint64_t tries = want->size / zc_room_least(want->rule) + 1;
    while (result == CUDA_ERROR_OUT_OF_MEMORY && !beyond && want->rule->spill == ZC_SPILL_FETCH &&
           tries-- &&
           give_way(want, false, want->size, zc_room_left(want->rule, want->device, counted)))
        result = try_place(&zc_place_vmm, want, 0, counted, out, why);
    if (beyond && result == CUDA_SUCCESS) /* One that may give way at once. */
        __atomic_store_n(&yields.passed, PASS_MOST, __ATOMIC_RELAXED);
    bool full = result == CUDA_ERROR_OUT_OF_MEMORY;
    *why = beyond ? "more than it may have of the device"
           : full ? "more than the device has free"
                  : *why;
    if (result == CUDA_SUCCESS || (!beyond && !full && result != CUDA_ERROR_NOT_PERMITTED))
        return result == CUDA_SUCCESS;
    const char *lacked = *why;
    result = try_place(&zc_place_vmm, want, want->size, counted, out, why);
    *why = result == CUDA_SUCCESS ? lacked : *why;
    return result == CUDA_SUCCESS;
}

CUresult zc_place_detach(struct zc_backing *backing)
{
    const struct zc_place *place = zc_place_of(backing->place);
    if (backing->detached || !place->detach)
        return CUDA_SUCCESS;
    bool pushed = zc_context_push_if_none(backing->context);
    CUresult result = place->detach(backing);
    zc_context_pop(pushed);
    backing->detached = result == CUDA_SUCCESS;
    return result;
}

/* For calls that can't return an error. */
static void say_stays(const struct zc_backing *backing, CUresult result)
{
    if (result != CUDA_ERROR_DEINITIALIZED && zc_message_first("release"))
        zc_message(ZC_WARN, "refused",
                   "the driver does not take back %B of '%s' that the program has freed (code %u): "
                   "it stays allocated",
                   (uint64_t)backing->size, zc_place_name(backing->place), (unsigned)result);
}

/* Undoes try_place(). */
static CUresult untry(struct zc_backing *backing, bool gone)
{
    const struct zc_place *place = zc_place_of(backing->place);
    CUresult result = gone ? CUDA_SUCCESS : zc_place_detach(backing);
    if (result == CUDA_SUCCESS) {
        bool pushed = !gone && zc_context_push_if_none(backing->context);
        result = place->unmake ? place->unmake(backing, gone) : CUDA_SUCCESS;
        zc_context_pop(pushed);
        size_t spilled = zc_spilled(backing), own = place->counts ? 0 : backing->size - spilled;
        zc_limits_give(ZC_PLACE_MAPPED, backing->device, spilled);
        zc_limits_give(place->id, backing->device, own);
    }
    if (result != CUDA_SUCCESS)
        say_stays(backing, result);
    return result;
}

bool zc_place_hosts(const struct zc_rule *rule)
{
    for (unsigned i = 0; i < rule->place.count; i++)
        if (rule->place.item[i] != ZC_PLACE_DEVICE &&
            (rule->place.item[i] != ZC_PLACE_VMM || rule->spill >= ZC_SPILL_MOVE))
            return true;
    return false;
}

/* Why a request can never have this place, whatever the limits are; NULL if it can. */
static const char *unfit(const struct zc_want *want, enum zc_place_id place)
{
    if (!(zc_api_places(want->api) & ZC_FIT_BIT(place)))
        return "not possible for this request";
    /* Only the driver can make write-combining pages. */
    if (zc_want_host(want) && (want->flags & CU_MEMHOSTALLOC_WRITECOMBINED))
        return "only the driver makes write-combined memory";
    return place == ZC_PLACE_SHARED && zc_want_host(want) ? "not built into this version" : NULL;
}

/* Whether a request for device memory may have that, by the program's own call. */
static bool fallback_on_device(const struct zc_want *want, const char **why)
{
    *why = "over max_device";
    bool room = false, may = !zc_want_host(want);
    while (may && !(room = zc_limits_device_room(want->device, want->size, why)))
        may = give_way(want, false, want->size, zc_limits_left(ZC_PLACE_DEVICE, want->device));
    return room;
}

struct zc_backing *zc_place_try(const struct zc_want *want, unsigned first, unsigned *index_out,
                                char *why, size_t why_cap)
{
    const struct zc_place_list *list = &want->rule->place;
    struct zc_backing *made = NULL;
    struct zc_text text = zc_text_on(why, why_cap);
    const char *reason = "";
    for (unsigned i = first; i < list->count; i++) {
        enum zc_place_id place = list->item[i];
        bool moves = place == ZC_PLACE_VMM && want->size >= zc_room_least(want->rule);
        bool within = i > 0 || moves || take_budget(want, want->size);
        *index_out = i;
        reason = within ? unfit(want, place) : "over its budget";
        if (!reason && place == ZC_PLACE_DEVICE && fallback_on_device(want, &reason))
            break;
        if (!reason && !made && !(made = zc_arena_get(sizeof(*made))))
            reason = "libzc has no memory for its record";
        bool taken = !reason && (moves ? try_both(want, i == 0, made, &reason)
                                       : try_place(zc_place_of(place), want, 0, false, made,
                                                   &reason) == CUDA_SUCCESS);
        if (!taken || zc_spilled(made))
            zc_text_fmt(&text, "%s%s: %s", text.len ? "; " : "", zc_place_name(place), reason);
        if (taken) {
            zc_text_cstr(&text);
            return made;
        }
        /* A block that can't be shared becomes what the program asked for. */
        if (within && place == ZC_PLACE_SHARED && fallback_on_device(want, &reason))
            break;
        if (within && i == 0 && !moves)
            zc_budget_give(want->rule, want->device, want->size);
        *index_out = i + 1;
    }
    zc_arena_put(made, sizeof(*made));
    zc_text_cstr(&text);
    return NULL;
}

CUresult zc_place_release(struct zc_backing *backing, bool gone)
{
    zc_hint_unmake(backing);
    CUresult result = untry(backing, gone);
    zc_arena_put(backing, sizeof(*backing));
    return result;
}

/* The driver has no memory, or none beside what is managed. */
static unsigned fallback_yield(int place)
{
    return (place == ZC_PLACE_COUNT || place == ZC_PLACE_MANAGED) && give_way(NULL, false, 0, 0);
}

const struct zc_module zc_module_fallback = {.yield = fallback_yield};
