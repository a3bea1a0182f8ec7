/* SPDX-License-Identifier: MIT */
/* place/fallback.c for its tests: the places, limits and blocks are theirs. */
#ifndef TESTS_UNIT_PLACE_FALLBACK_TEST_H
#define TESTS_UNIT_PLACE_FALLBACK_TEST_H

#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/module.h"
#include "base/text.h"
#include "driver/stream.h"
#include "ledger/rules.h"
#include "managed/hint.h"
#include "memory/limits.h"
#include "memory/place.h"
#include "place/migrate.h"
#include "place/room.h"

/* The neighbours write what they are asked for, in the order of the questions. */
static char trace[512];
static unsigned no_limit, no_budget, no_device; /* Bits of places; true: there is none. */
static unsigned too_full, broken;               /* Bits of places that can't be made. */
static unsigned refuses;                        /* Of the driver: 1 the detaching, 2 the rest. */
static unsigned reclaims;                       /* Bits of limits that give way once asked. */
static uint64_t parted; /* Bytes in host memory of what is split; 0: none. */

static void note(const char *what, int place)
{
    size_t n = strlen(trace);
    snprintf(trace + n, sizeof(trace) - n, place < 0 ? "%s " : "%s:%s ", what,
             place < 0 ? "" : zc_place_name((enum zc_place_id)place));
}

/* All of the block, or with `parted` its part in a memory. */
static bool is_part(enum zc_place_id place, uint64_t bytes)
{
    return bytes == 5000 || (parted && bytes == (place == ZC_PLACE_MAPPED ? parted : 3000));
}

static bool fake_limits_take(enum zc_place_id place, int device, size_t bytes, const char **why)
{
    assert_true(device == 3 && is_part(place, bytes));
    note("take", (int)place);
    *why = "over its limit";
    return !(no_limit & 1u << place);
}

static void fake_limits_give(enum zc_place_id place, int device, size_t bytes)
{
    assert_true(device == 3 && (!bytes || is_part(place, bytes)));
    if (bytes)
        note("give", (int)place);
}

static unsigned fake_reclaim(int place)
{
    note("reclaim", place);
    unsigned some = reclaims & 1u << place;
    no_limit &= ~some;
    return some;
}

/* Blocks in both memories, which may give way. */
static struct {
    struct zc_block block;
    struct zc_movable record;
    uint64_t left, host_left; /* Of the budget, and of host memory. */
    unsigned looks, away;     /* Searches, and blocks that were asked to leave, */
    unsigned waits;
    uint64_t keeps; /* So much of the device. */
    uint64_t due;
    bool refuses, locked, elsewhere;
    CUdevice current;
} both = {.host_left = UINT64_MAX, .current = 3};

static bool fake_budget_take(const struct zc_rule *rule, int device, uint64_t bytes)
{
    if (both.record.vmm.moves)
        return !no_budget;
    assert_true(rule && device == 3 && is_part(ZC_PLACE_VMM, bytes));
    note("budget", -1);
    return !no_budget || bytes < 5000; /* A part is within it. */
}

static void fake_budget_give(const struct zc_rule *rule, int device, uint64_t bytes)
{
    assert_true(rule && device == 3 && is_part(ZC_PLACE_VMM, bytes));
    note("unbudget", -1);
}

static bool fake_device_room(int device, size_t bytes, const char **why)
{
    assert_true(device == 3 && bytes == 5000);
    note("room", -1);
    *why = no_device ? "max_device says no" : *why;
    return !no_device;
}

static uint64_t fake_least(const struct zc_rule *rule)
{
    return rule->spill < ZC_SPILL_MOVE ? UINT64_MAX : 5000;
}

static uint64_t fake_beyond(const struct zc_rule *rule, int device, bool counted, uint64_t bytes)
{
    assert_true(rule->spill >= ZC_SPILL_MOVE && device == 3 && bytes == 5000);
    return counted ? parted : 0;
}

static uint64_t fake_budget_left(const struct zc_rule *rule, int device)
{
    assert_true(rule && device == 3);
    return both.left;
}

static uint64_t fake_limits_left(enum zc_place_id place, int device)
{
    assert_int_equal(device, 3);
    return place == ZC_PLACE_MAPPED ? both.host_left : both.left;
}

static uint64_t fake_room_left(const struct zc_rule *rule, int device, bool counted)
{
    assert_true(rule && device == 3 && counted);
    return both.left;
}

static struct zc_vmm *fake_move_of(const struct zc_block *block)
{
    return block == &both.block ? &both.record.vmm : NULL;
}

static uint64_t fake_due(const struct zc_block *block)
{
    assert_non_null(block);
    return both.due;
}

static struct zc_policy two_rules;
static const struct zc_policy *fake_rules(void)
{
    return &two_rules;
}

static bool fake_watch(void)
{
    return !both.elsewhere;
}

static bool fake_driver_lock(void)
{
    return !both.locked;
}

static void fake_driver_unlock(void)
{
    assert_false(both.locked);
}

static void fake_each(void (*visit)(struct zc_block *block, void *arg), void *arg)
{
    both.looks++;
    visit(&both.block, arg);
}

static bool fake_away(struct zc_block *block, uint64_t keeps, unsigned most_ms)
{
    assert_ptr_equal(block, &both.block);
    assert_true(most_ms == both.waits);
    both.away++;
    both.keeps = keeps;
    no_budget = both.refuses ? no_budget : 0;
    return !both.refuses && both.away < 100;
}

static bool fake_push(CUcontext context)
{
    assert_ptr_equal(context, trace);
    note("lend", -1);
    return true;
}

static void fake_pop(bool pushed)
{
    if (pushed)
        note("leave", -1);
}

static void fake_unhint(struct zc_backing *b)
{
    (void)b;
    note("unhint", -1);
}

static bool fake_first(const char *code)
{
    note(code, -1);
    return false;
}

static bool no_memory; /* For a record. */

static void *fake_get(size_t bytes)
{
    return no_memory ? NULL : zc_arena_get(bytes);
}

#define zc_arena_get fake_get
#define zc_place_mapped fake_mapped
#define zc_place_managed fake_managed
#define zc_place_vmm fake_vmm
#define zc_place_pinned fake_pinned
#define zc_place_shared fake_shared
static const struct zc_place fake_mapped, fake_managed, fake_vmm, fake_pinned, fake_shared;
#define zc_limits_take fake_limits_take
#define zc_limits_give fake_limits_give
#define zc_modules_reclaim fake_reclaim
#define zc_budget_take fake_budget_take
#define zc_budget_give fake_budget_give
#define zc_limits_device_room fake_device_room
#define zc_room_least fake_least
#define zc_room_beyond fake_beyond
#define zc_room_left fake_room_left
#define zc_budget_left fake_budget_left
#define zc_limits_left fake_limits_left
#define zc_migrate_watch fake_watch
#define zc_migrate_away fake_away
#define zc_migrate_due fake_due
#define zc_block_each fake_each
#define zc_move_of fake_move_of
#define zc_rules fake_rules
#define zc_driver_lock fake_driver_lock
#define zc_driver_unlock fake_driver_unlock
#define zc_context_push_if_none fake_push
#define zc_context_pop fake_pop
#define zc_hint_unmake fake_unhint
#define zc_message_first fake_first
#include "../../shim/place/fallback.c"

static CUresult make(enum zc_place_id id, struct zc_backing *out, const char **why)
{
    bool hosted = out->spilled == 5000, split = out->spilled && !hosted;
    unsigned bit = 1u << (hosted ? ZC_PLACE_COUNT : split ? ZC_PLACE_COUNT + 1 : id);
    note(hosted ? "host" : split ? "split" : "make", (int)id);
    assert_true(out->size == 5000 && out->place == id && out->device == 3 && out->flags == 0);
    assert_true((!split || out->spilled == parted) && out->context == (CUcontext)trace);
    *why = too_full & bit ? "has not so much" : "is broken";
    return too_full & bit ? CUDA_ERROR_OUT_OF_MEMORY
           : broken & bit ? CUDA_ERROR_NOT_SUPPORTED
                          : CUDA_SUCCESS;
}

static CUresult detach(struct zc_backing *backing)
{
    note("detach", backing->place);
    return refuses & 1 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult unmake(struct zc_backing *backing, bool gone)
{
    note(gone ? "forget" : "unmake", backing->place);
    return refuses & 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

#define FAKE(name, ID, ...)                                                                        \
    static CUresult make_##name(const struct zc_want *want, struct zc_backing *out,                \
                                const char **why)                                                  \
    {                                                                                              \
        assert_non_null(want->rule);                                                               \
        return make(ID, out, why);                                                                 \
    }                                                                                              \
    static const struct zc_place fake_##name = {                                                   \
        .id = ID, .make = make_##name, .unmake = unmake, __VA_ARGS__}
FAKE(mapped, ZC_PLACE_MAPPED, .detach = detach);
FAKE(managed, ZC_PLACE_MANAGED, .detach = NULL);
FAKE(vmm, ZC_PLACE_VMM, .detach = detach);
FAKE(pinned, ZC_PLACE_PINNED, .counts = true);
FAKE(shared, ZC_PLACE_SHARED, .detach = detach);

enum { D = ZC_PLACE_DEVICE, P = ZC_PLACE_MAPPED, M = ZC_PLACE_MANAGED };
enum { V = ZC_PLACE_VMM, S = ZC_PLACE_SHARED, H = ZC_PLACE_PINNED };
enum { HOST = ZC_PLACE_COUNT, SPLIT = ZC_PLACE_COUNT + 1 };
#define BIT(place) (1u << (place))

#endif
