/* SPDX-License-Identifier: MIT */
/* Which places are tried in which order, what each try counts and gives back, and what is said of
 * those that were passed over. */
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
    bool refuses, locked, elsewhere;
    CUdevice current;
} both = {.host_left = UINT64_MAX, .current = 3};

static CUresult get_device(CUdevice *device)
{
    *device = both.current;
    return CUDA_SUCCESS;
}

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
    assert_true(rule->spill == ZC_SPILL_MOVE && device == 3 && bytes == 5000);
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

static struct zc_vmm *fake_move_of(const struct zc_block *block)
{
    return block == &both.block ? &both.record.vmm : NULL;
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
    return !both.refuses;
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
#define zc_budget_left fake_budget_left
#define zc_limits_left fake_limits_left
#define zc_migrate_watch fake_watch
#define zc_migrate_away fake_away
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

static const struct row {
    int list[4];    /* Ends with -1. */
    unsigned moves; /* 2: it never has room on the device. */
    struct {
        unsigned no_limit, no_budget, no_device, full, broken, reclaims;
    };
    int made, index; /* -1: none. */
    const char *trace, *why;
} rows[] = {
    {{P, -1}, 0, {0, 0, 0, 0, 0, 0}, P, 0, "budget take:mapped make:mapped ", ""},
    {{D, P, -1}, 0, {0, 0, 0, 0, 0, 0}, -1, 0, "budget room ", ""},
    {{D, P, -1},
     0,
     {0, 0, 1, 0, 0, 0},
     P,
     1,
     "budget room unbudget take:mapped make:mapped ",
     "device: max_device says no"},
    {{P, M, -1},
     0,
     {BIT(P), 0, 0, 0, 0, 0},
     M,
     1,
     "budget take:mapped reclaim:mapped unbudget take:managed make:managed ",
     "mapped: over its limit"},
    {{P, M, -1},
     0,
     {BIT(P), 0, 0, 0, 0, BIT(P)},
     P,
     0,
     "budget take:mapped reclaim:mapped take:mapped make:mapped ",
     ""},
    {{P, M, -1},
     0,
     {0, 1, 0, 0, 0, 0},
     M,
     1,
     "budget take:managed make:managed ",
     "mapped: over its budget"},
    {{P, M, -1},
     0,
     {0, 0, 0, 0, BIT(P) | BIT(M), 0},
     -1,
     2,
     "budget take:mapped make:mapped give:mapped unbudget take:managed make:managed give:managed ",
     "mapped: is broken; managed: is broken"},
    {{V, D, -1},
     0,
     {0, 0, 0, BIT(V), 0, 0},
     -1,
     1,
     "budget take:vmm make:vmm give:vmm unbudget room ",
     "vmm: has not so much"},
    {{S, P, -1},
     0,
     {0, 0, 0, 0, BIT(S), 0},
     -1,
     0,
     "budget take:shared make:shared give:shared room ",
     "shared: is broken"},
    {{S, P, -1},
     0,
     {0, 0, 1, 0, BIT(S), 0},
     P,
     1,
     "budget take:shared make:shared give:shared room unbudget take:mapped make:mapped ",
     "shared: is broken"},
    {{S, P, -1},
     0,
     {0, 1, 0, 0, 0, 0},
     P,
     1,
     "budget take:mapped make:mapped ",
     "shared: over its budget"},
    {{V, -1}, 1, {0, 0, 0, 0, 0, 0}, V, 0, "budget take:vmm make:vmm ", ""},
    {{V, -1},
     1,
     {0, 0, 0, BIT(V), 0, 0},
     V,
     0,
     "budget take:vmm make:vmm give:vmm unbudget take:mapped host:vmm ",
     "vmm: more than the device has free"},
    {{V, -1}, 1, {0, 1, 0, 0, 0, 0}, V, 0, "budget take:mapped host:vmm ", "vmm: over its budget"},
    {{V, -1},
     1,
     {BIT(V), 0, 0, 0, 0, 0},
     V,
     0,
     "budget take:vmm reclaim:vmm unbudget take:mapped host:vmm ",
     "vmm: over its limit"},
    {{V, P, -1},
     1,
     {0, 0, 0, 0, BIT(V), 0},
     P,
     1,
     "budget take:vmm make:vmm give:vmm unbudget take:mapped make:mapped ",
     "vmm: is broken"},
    {{V, -1},
     1,
     {0, 0, 0, BIT(V) | BIT(HOST), 0, 0},
     -1,
     1,
     "budget take:vmm make:vmm give:vmm unbudget take:mapped host:vmm give:mapped ",
     "vmm: has not so much"},
    {{V, -1},
     1,
     {0, 0, 0, BIT(V), BIT(HOST), 0},
     -1,
     1,
     "budget take:vmm make:vmm give:vmm unbudget take:mapped host:vmm give:mapped ",
     "vmm: is broken"},
    {{V, -1},
     1,
     {BIT(P), 0, 0, BIT(V), 0, 0},
     -1,
     1,
     "budget take:vmm make:vmm give:vmm unbudget take:mapped reclaim:mapped ",
     "vmm: over its limit"},
    {{P, V, -1},
     1,
     {BIT(P), 0, 0, 0, 0, 0},
     V,
     1,
     "budget take:mapped reclaim:mapped unbudget take:vmm make:vmm ",
     "mapped: over its limit"},
    {{H, P, -1},
     0,
     {0, 0, 0, 0, 0, 0},
     P,
     1,
     "budget unbudget take:mapped make:mapped ",
     "pinned: not possible for this request"},
    {{V, -1},
     2,
     {0, 1, 0, 0, 0, 0},
     V,
     0,
     "budget take:vmm take:mapped split:vmm ",
     "vmm: more than it may have of the device"},
    {{V, -1},
     2,
     {0, 0, 0, BIT(SPLIT), 0, 0},
     V,
     0,
     "budget take:vmm take:mapped split:vmm give:mapped give:vmm unbudget take:mapped host:vmm ",
     "vmm: more than it may have of the device"},
    {{V, M, -1},
     2,
     {0, 0, 0, BIT(HOST), BIT(SPLIT), 0},
     M,
     1,
     "budget take:vmm take:mapped split:vmm give:mapped give:vmm unbudget "
     "take:mapped host:vmm give:mapped take:managed make:managed ",
     "vmm: has not so much"},
    {{V, -1},
     2,
     {BIT(P), 0, 0, 0, 0, 0},
     -1,
     1,
     "budget take:vmm take:mapped reclaim:mapped give:vmm unbudget "
     "take:mapped reclaim:mapped ",
     "vmm: over its limit"},
    {{V, -1},
     2,
     {BIT(V), 0, 0, 0, 0, 0},
     V,
     0,
     "budget take:vmm reclaim:vmm unbudget take:mapped host:vmm ",
     "vmm: more than it may have of the device"},
    {{P, V, -1},
     2,
     {BIT(P), 0, 0, 0, 0, BIT(P)},
     P,
     0,
     "budget take:mapped reclaim:mapped take:mapped make:mapped ",
     ""},
};

static struct zc_rule rule_of(const struct row *r)
{
    struct zc_rule rule = {.spill = r->moves ? ZC_SPILL_MOVE : ZC_SPILL_NONE};
    while (r->list[rule.place.count] >= 0) {
        rule.place.item[rule.place.count] = (enum zc_place_id)r->list[rule.place.count];
        rule.place.count++;
    }
    return rule;
}

static void begin(const struct row *r)
{
    trace[0] = 0;
    no_limit = r->no_limit;
    no_budget = r->no_budget;
    no_device = r->no_device;
    too_full = r->full;
    broken = r->broken;
    reclaims = r->reclaims;
    parted = r->moves == 2 ? 2000 : 0;
}

static void places_are_tried_in_order_and_what_a_try_took_is_given_back(void **state)
{
    (void)state;
    for (const struct row *r = rows; r < rows + sizeof(rows) / sizeof(rows[0]); r++) {
        const struct zc_rule rule = rule_of(r);
        const struct zc_want want = {.size = 5000,
                                     .device = 3,
                                     .context = (CUcontext)trace,
                                     .rule = &rule,
                                     .api = ZC_API_cuMemAlloc};
        char why[256] = "unset";
        unsigned index = 9;
        begin(r);
        struct zc_backing *made = zc_place_try(&want, 0, &index, why, sizeof(why));
        assert_string_equal(trace, r->trace);
        assert_string_equal(why, r->why);
        assert_int_equal(index, r->index);
        assert_int_equal(made ? made->place : -1, r->made);
        if (made)
            assert_int_equal(made->room, 5000);
        if (made)
            zc_place_release(made, false);
    }
}

static void a_second_try_begins_where_it_is_told_and_takes_no_budget(void **state)
{
    (void)state;
    const struct row row = {.list = {P, M, -1}};
    const struct zc_rule rule = rule_of(&row);
    const struct zc_want want = {.size = 5000,
                                 .device = 3,
                                 .context = (CUcontext)trace,
                                 .rule = &rule,
                                 .api = ZC_API_cuMemAlloc};
    char why[256];
    unsigned index;
    begin(&row);
    struct zc_backing *made = zc_place_try(&want, 1, &index, why, sizeof(why));
    assert_string_equal(trace, "take:managed make:managed ");
    assert_int_equal(index, 1);
    zc_place_release(made, false);
    no_memory = true;
    begin(&row);
    assert_null(zc_place_try(&want, 1, &index, why, sizeof(why)));
    assert_string_equal(trace, "");
    assert_string_equal(why, "managed: libzc has no memory for its record");
    no_memory = false;
}

/* Host memory that the program asked for is never device memory, and some only the driver makes. */
static void requests_for_host_memory_get_what_they_may_be(void **state)
{
    static const struct {
        int place;
        unsigned flags;
        const char *why;
    } of[] = {{S, 0, "not built into this version"},
              {V, 0, "not possible for this request"},
              {H, CU_MEMHOSTALLOC_WRITECOMBINED, "only the driver makes write-combined memory"},
              {D, 0, "not possible for this request"},
              {H, 0, NULL}};
    (void)state;
    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        const struct row row = {.list = {of[i].place, -1}};
        const struct zc_rule rule = rule_of(&row);
        const struct zc_want want = {.size = 5000,
                                     .device = 3,
                                     .context = (CUcontext)trace,
                                     .rule = &rule,
                                     .flags = of[i].flags,
                                     .api = ZC_API_cuMemHostAlloc};
        char why[256];
        unsigned index;
        begin(&row);
        struct zc_backing *made = zc_place_try(&want, 0, &index, why, sizeof(why));
        assert_int_equal(made != NULL, !of[i].why);
        if (!strstr(why, of[i].why ? of[i].why : ""))
            fail_msg("%s", why);
        assert_null(strstr(trace, "room"));
        if (made)
            zc_place_release(made, false);
    }
}

/* A block that the driver refuses to take back stays, and counts. */
static void a_block_is_given_back_in_its_context_unless_that_is_gone(void **state)
{
    static const struct {
        int place;
        unsigned spilled;
        bool gone, detached;
        unsigned refuses;
        CUresult result;
        const char *trace;
    } of[] = {
        {P, 0, 0, 0, 0, CUDA_SUCCESS,
         "unhint lend detach:mapped leave lend unmake:mapped leave give:mapped "},
        {P, 0, 0, 1, 0, CUDA_SUCCESS, "unhint lend unmake:mapped leave give:mapped "},
        {P, 0, 1, 0, 0, CUDA_SUCCESS, "unhint forget:mapped give:mapped "},
        {M, 0, 0, 0, 0, CUDA_SUCCESS, "unhint lend unmake:managed leave give:managed "},
        {H, 0, 0, 0, 0, CUDA_SUCCESS, "unhint lend unmake:pinned leave "},
        {V, 5000, 0, 1, 0, CUDA_SUCCESS, "unhint lend unmake:vmm leave give:mapped "},
        {V, 2000, 0, 1, 0, CUDA_SUCCESS, "unhint lend unmake:vmm leave give:mapped give:vmm "},
        {P, 0, 0, 0, 1, CUDA_ERROR_UNKNOWN, "unhint lend detach:mapped leave release "},
        {P, 0, 0, 1, 2, CUDA_ERROR_UNKNOWN, "unhint lend unmake:mapped leave give:mapped release "},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct zc_backing *b = zc_arena_get(sizeof(*b));
        *b = (struct zc_backing){.size = 5000,
                                 .device = 3,
                                 .place = (uint8_t)of[i].place,
                                 .detached = of[i].detached,
                                 .context = (CUcontext)trace};
        b->spilled = of[i].spilled;
        parted = 2000;
        trace[0] = 0;
        refuses = of[i].refuses;
        assert_int_equal(zc_place_release(b, of[i].gone), of[i].result);
        assert_string_equal(trace, of[i].trace);
    }
    refuses = 0;
}

static void a_block_is_detached_once(void **state)
{
    struct zc_backing b = {.place = ZC_PLACE_MAPPED, .context = (CUcontext)trace};
    (void)state;
    trace[0] = 0;
    refuses = 1;
    assert_int_equal(zc_place_detach(&b), CUDA_ERROR_UNKNOWN);
    assert_false(b.detached);
    refuses = 0;
    assert_int_equal(zc_place_detach(&b), CUDA_SUCCESS);
    assert_true(b.detached);
    assert_int_equal(zc_place_detach(&b), CUDA_SUCCESS);
    assert_string_equal(trace, "lend detach:mapped leave lend detach:mapped leave ");
}

static void a_rule_may_give_host_memory_by_its_places_or_where_blocks_move(void **state)
{
    static const struct {
        int list[4];
        unsigned moves;
        bool hosts;
    } of[] = {{{D, -1}, 0, false}, {{P, -1}, 0, true},      {{D, M, -1}, 0, true},
              {{V, -1}, 0, false}, {{V, -1}, 1, true},      {{V, D, -1}, 0, false},
              {{D, -1}, 1, false}, {{D, V, S, -1}, 0, true}};
    (void)state;
    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct row row = {.moves = of[i].moves};
        memcpy(row.list, of[i].list, sizeof(row.list));
        const struct zc_rule rule = rule_of(&row);
        assert_int_equal(zc_place_hosts(&rule), of[i].hosts);
    }
    assert_null(zc_place_of(ZC_PLACE_COUNT));
    assert_null(zc_place_of(ZC_PLACE_DEVICE));
    for (enum zc_place_id id = 0; id < ZC_PLACE_COUNT; id++)
        if (zc_place_of(id))
            assert_int_equal(zc_place_of(id)->id, id);
}

/* Blocks are looked for each time. */
static void a_request_without_host_memory_is_looked_for_each_time(void **state)
{
    struct zc_rule strict = {.place = {.count = 1, .item = {ZC_PLACE_VMM}}};
    const struct zc_want want = {.size = 5000, .device = 3, .rule = &strict};
    (void)state;
    both.block = (struct zc_block){.size = 9 * ZC_BLOCK_UNIT,
                                   .flags = ZC_BLOCK_SPILLED,
                                   .behind = 2u << ZC_BLOCK_BEHIND_BITS,
                                   .device = 3,
                                   .place = ZC_PLACE_VMM};
    both.record.stays = false;
    both.host_left = UINT64_MAX;
    both.refuses = true;
    both.waits = 500;
    both.away = 0;
    zc_real.cuCtxGetDevice = get_device;
    __atomic_store_n(&zc_vmm_counts.spilled, 1, __ATOMIC_RELAXED);
    yields.vain = 0;
    for (unsigned i = 0; i < 9; i++) {
        assert_false(give_way(&want, false, 1, 0));
        assert_int_equal(both.keeps, 2 * ZC_BLOCK_UNIT - 1);
        assert_false(fallback_yield(ZC_PLACE_COUNT) || fallback_yield(ZC_PLACE_MANAGED));
        assert_int_equal(both.keeps, ZC_BLOCK_UNIT);
        both.current = i == 8 ? 4 : 3;
    }
    assert_false(fallback_yield(ZC_PLACE_COUNT)); /* Another device has it. */
    both.current = 3;
    give_way(&want, false, 5, 5); /* Somebody has given that back meanwhile. */
    assert_true(--both.away == 27 && both.keeps == 2 * ZC_BLOCK_UNIT - 1);
    assert_int_equal(both.away, 27);
    assert_false(fallback_yield(ZC_PLACE_VMM) || fallback_yield(ZC_PLACE_PINNED));
    assert_int_equal(both.away, 27);
    both.refuses = false;
    __atomic_store_n(&zc_vmm_counts.spilled, 0, __ATOMIC_RELAXED);
}

static bool give_budget(const struct zc_rule *rule, uint64_t bytes)
{
    const struct zc_want want = {.size = 5000, .device = 3, .rule = rule};
    no_budget = 1;
    both.waits = 500;
    both.away = both.looks = 0;
    return take_budget(&want, bytes);
}

/* Its own rule's budget is what a request of 5000 bytes lacks, of which 3000 are left. */
static void a_block_gives_way_where_that_helps(void **state)
{
    const struct zc_rule moves = {.spill = ZC_SPILL_MOVE,
                                  .place = {.count = 1, .item = {ZC_PLACE_VMM}}};
    struct zc_rule rules[] = {moves, moves};
    static const struct {
        unsigned rule, flags, away;
        uint64_t front, left, host_left;
        bool stays;
    } of[] = {{0, ZC_BLOCK_BUDGET, 1, 2000, 3000, 2000, 0},
              {0, ZC_BLOCK_BUDGET, 1, 2700, 3000, 2000, 0},
              {0, ZC_BLOCK_BUDGET, 0, 2700, 3000, 1999, 0},
              {1, ZC_BLOCK_BUDGET, 0, 2000, 3000, 2000, 0},
              {0, 0, 0, 2000, 3000, 2000, 0},
              {0, ZC_BLOCK_BUDGET, 0, 2000, 2999, 2000, 0},
              {0, ZC_BLOCK_BUDGET, 0, 2000, 3000, 1999, 0},
              {0, ZC_BLOCK_BUDGET, 0, 2000, 3000, 2000, 1},
              {0, ZC_BLOCK_BUDGET, 0, 0, 5000, 2000, 0},
              {0, ZC_BLOCK_BUDGET, 0, 9000, 3000, 9000, 0}};
    (void)state;
    two_rules.rules = rules;
    both.record.vmm.moves = true;
    __atomic_store_n(&zc_vmm_counts.spilled, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        uint64_t unit = ZC_BLOCK_UNIT;
        both.block = (struct zc_block){.size = 9000 * unit,
                                       .flags = (uint16_t)of[i].flags,
                                       .rule = (int16_t)of[i].rule,
                                       .device = 3,
                                       .place = ZC_PLACE_VMM};
        if (of[i].front < 9000) {
            both.block.flags |= ZC_BLOCK_SPILLED;
            both.block.behind = (uint32_t)of[i].front << ZC_BLOCK_BEHIND_BITS;
        }
        both.record.stays = of[i].stays;
        both.left = of[i].left * unit;
        both.host_left = of[i].host_left * unit;
        yields.vain = 0;
        assert_int_equal(give_budget(&rules[0], 5000 * unit), of[i].away);
        assert_int_equal(both.away, of[i].away);
        assert_int_equal(both.looks, 1);
        if (of[i].away) /* No more leaves than what lacks. */
            assert_int_equal(both.keeps, (of[i].front - 2000) * unit);
    }
}

/* Each look goes through all blocks, and may wait for the GPU. */
static void after_requests_in_vain_ever_more_are_let_pass(void **state)
{
    struct zc_rule moves = {.spill = ZC_SPILL_MOVE, .place = {.count = 1, .item = {ZC_PLACE_VMM}}};
    struct zc_rule none = {.spill = ZC_SPILL_NONE};
    unsigned looks = 0;
    (void)state;
    yields.vain = 0;
    both.refuses = true;
    for (unsigned i = 0; i < 63 + 10 * 64; i++) {
        assert_false(give_budget(&moves, 1000));
        looks += both.looks;
        assert_false(give_budget(&none, 1000));
        assert_int_equal(both.looks, 0);
    }
    assert_int_equal(looks, 6 + 10);
    both.locked = true;
    assert_false(give_budget(&moves, 1000));
    both.locked = both.refuses = false;
    __atomic_store_n(&zc_vmm_counts.spilled, 0, __ATOMIC_RELAXED);
    yields.vain = 0;
    assert_false(give_budget(&moves, 1000));
    assert_int_equal(both.looks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_tried_in_order_and_what_a_try_took_is_given_back),
        cmocka_unit_test(a_second_try_begins_where_it_is_told_and_takes_no_budget),
        cmocka_unit_test(requests_for_host_memory_get_what_they_may_be),
        cmocka_unit_test(a_block_is_given_back_in_its_context_unless_that_is_gone),
        cmocka_unit_test(a_block_is_detached_once),
        cmocka_unit_test(a_rule_may_give_host_memory_by_its_places_or_where_blocks_move),
        cmocka_unit_test(a_block_gives_way_where_that_helps),
        cmocka_unit_test(after_requests_in_vain_ever_more_are_let_pass),
        cmocka_unit_test(a_request_without_host_memory_is_looked_for_each_time),
    };
    return RUN_TESTS(tests);
}
