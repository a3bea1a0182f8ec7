/* SPDX-License-Identifier: MIT */
/* Tries the places of a rule's list in order. */

#include "place/fallback.h"
#include "base/arena.h"
#include "base/message.h"
#include "base/module.h"
#include "base/text.h"
#include "driver/stream.h"
#include "host/hostheap.h"
#include "managed/hint.h"
#include "memory/budget.h"
#include "memory/limits.h"
#include "memory/place.h"
#include "place/room.h"

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

static CUresult make_at(const struct zc_place *place, const struct zc_want *want, bool spills,
                        struct zc_backing *out, const char **why)
{
    *out = (struct zc_backing){.size = want->size,
                               .spilled = spills ? want->size : 0,
                               .place = (uint8_t)place->id,
                               .device = (int8_t)want->device,
                               .context = want->context,
                               .flags = (uint8_t)want->flags};
    CUresult result = place->make(want, out, why);
    out->room = out->room > out->size ? out->room : out->size;
    return result;
}

/* The place against whose limit a block counts; ZC_PLACE_COUNT where the place itself sees to
 * that. */
static enum zc_place_id limit_of(const struct zc_place *place, bool spills)
{
    return spills ? ZC_PLACE_MAPPED : place->counts ? ZC_PLACE_COUNT : place->id;
}

/* If the limit is reached, memory of deferred frees that nobody uses any more may be the reason:
 * gives that back and tries once more. */
static bool take_limit(enum zc_place_id limit, const struct zc_want *want, const char **why)
{
    return limit == ZC_PLACE_COUNT || zc_limits_take(limit, want->device, want->size, why) ||
           (zc_modules_reclaim(limit) && zc_limits_take(limit, want->device, want->size, why));
}

static void give_limit(enum zc_place_id limit, int device, size_t bytes)
{
    if (limit != ZC_PLACE_COUNT)
        zc_limits_give(limit, device, bytes);
}

/* Makes a block the place's, or with `spills` host memory at its addresses; with `counted` one that
 * is the place's counts against the rule's budget.  NOT_PERMITTED: a limit is reached;
 * OUT_OF_MEMORY: the device, or the host, has not so much. */
static CUresult try_place(const struct zc_place *place, const struct zc_want *want, bool spills,
                          bool counted, struct zc_backing *out, const char **why)
{
    enum zc_place_id limit = limit_of(place, spills);
    CUresult result = CUDA_ERROR_NOT_PERMITTED;
    counted = counted && !spills;
    *why = "over its budget";
    if (counted && !zc_budget_take(want->rule, want->device, want->size))
        return result;
    if (take_limit(limit, want, why)) {
        result = make_at(place, want, spills, out, why);
        if (result == CUDA_SUCCESS)
            return result;
        give_limit(limit, want->device, want->size);
    }
    if (counted)
        zc_budget_give(want->rule, want->size);
    return result;
}

/* The device, then host memory, of a block that may move between both.  If it is host memory, *why
 * is what the device lacked. */
static bool try_both(const struct zc_want *want, bool counted, struct zc_backing *out,
                     const char **why)
{
    const char *refused;
    CUresult result = try_place(&zc_place_vmm, want, false, counted, out, why);
    bool full = result == CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS || (!full && result != CUDA_ERROR_NOT_PERMITTED))
        return result == CUDA_SUCCESS;
    *why = full ? "more than the device has free" : *why;
    result = try_place(&zc_place_vmm, want, true, counted, out, &refused);
    *why = result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ? *why : refused;
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
        give_limit(limit_of(place, zc_spilled(backing)), backing->device, backing->size);
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
    return !zc_want_host(want) && zc_limits_device_room(want->device, want->size, why);
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
        bool within = i > 0 || moves || zc_budget_take(want->rule, want->device, want->size);
        *index_out = i;
        reason = within ? unfit(want, place) : "over its budget";
        if (!reason && place == ZC_PLACE_DEVICE && fallback_on_device(want, &reason))
            break;
        if (!reason && !made && !(made = zc_arena_get(sizeof(*made))))
            reason = "libzc has no memory for its record";
        bool taken = !reason && (moves ? try_both(want, i == 0, made, &reason)
                                       : try_place(zc_place_of(place), want, false, false, made,
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
            zc_budget_give(want->rule, want->size);
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
