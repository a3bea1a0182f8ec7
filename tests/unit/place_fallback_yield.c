/* SPDX-License-Identifier: MIT */
/* Which blocks give way to a request that has no room, and how often they are looked for. */
#include "place_fallback_test.h"

static CUresult get_device(CUdevice *device)
{
    *device = both.current;
    return CUDA_SUCCESS;
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
    both.due = 1;
    both.host_left = UINT64_MAX;
    both.refuses = true;
    both.waits = 500;
    both.away = 0;
    zc_real.cuCtxGetDevice = get_device;
    __atomic_store_n(&zc_vmm_counts.spilled, 1, __ATOMIC_RELAXED);
    yields.vain = 0;
    yields.passed = 5;
    assert_false(fallback_yield(ZC_PLACE_COUNT)); /* The request behind it is looked for. */
    assert_true(yields.vain == 0 && yields.passed == 6 && both.away-- == 1);
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
        both.due = !of[i].stays;
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

/* Those in both memories, weights with a host copy, the one due last first, and unused ones. */
static void weights_leave_in_turn(void **state)
{
    const struct zc_rule fetch = {.spill = ZC_SPILL_FETCH};
    struct zc_movable m = {.vmm = {.moves = true, .rule = &fetch}};
    struct zc_block b = {.size = 9 * ZC_BLOCK_UNIT, .id = 7, .place = ZC_PLACE_VMM};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        both.due = i != 5 && i != 7; /* A block that is being freed may not move. */
        m.vmm.filled = i > 0;
        m.last = (i == 2);
        b.flags = i > 2 && i < 7 ? ZC_BLOCK_SPILLED : 0;
        b.behind = i > 3 ? 3u << ZC_BLOCK_BEHIND_BITS : 0;
        assert_int_equal(turn_of(&b, &m, i == 1 ? b.size - 1 : b.size), i == 4 || i == 6);
    }
    both.due = 1;
    uint64_t unused = turn_of(&b, &m, b.size);
    m.vmm.va.reads = true;
    m.last = 5;
    uint64_t before = turn_of(&b, &m, b.size);
    both.due++;
    assert_true(1 < turn_of(&b, &m, b.size) && turn_of(&b, &m, b.size) < before && before < unused);
    m.vmm.va.reads = false;
    m.last = 0;
    for (unsigned at = 0, least = 0; at < 64; at++) { /* A quarter: one of each three to five. */
        b.id = 100 + at;
        if (turn_of(&b, &m, b.size) - UINT64_MAX / 2 >= 1u << 30)
            continue;
        assert_true(at - least <= 5 && (!least || at - least >= 3));
        least = at;
    }
}

static void weights_give_way_whole(void **state)
{
    struct zc_rule rules[] = {{.spill = ZC_SPILL_FETCH}, {.spill = ZC_SPILL_MOVE}};
    (void)state;
    two_rules.rules = rules;
    both.due = 1;
    for (unsigned i = 0; i < 7; i++) {
        both.record = (struct zc_movable){.vmm = {.moves = true, .rule = rules, .filled = true}};
        both.record.vmm.va.reads = i < 2 || i > 4;
        both.record.last = i < 2 || i > 4;
        both.block = (struct zc_block){.size = 9000, .device = 3, .place = ZC_PLACE_VMM};
        both.block.size = i < 5 ? 9000 : i == 5 ? 16 * 5000 : 16 * 5000 + 1;
        both.block.flags = ZC_BLOCK_BUDGET;
        both.block.rule = (i == 4);
        both.left = both.keeps = 0;
        both.host_left = i == 2 ? 8999 : i == 3 ? 9000 : 0;
        yields.vain = 0;
        bool leaves = i == 0 || i == 3 || i == 5;
        assert_int_equal(give_budget(rules, i == 1 ? 9001 : 5000), leaves);
        assert_true(both.away == leaves && both.keeps == 0);
    }
    both.record = (struct zc_movable){.vmm = {.moves = true}};
}

/* Launches of other threads may bring back what leaves, again and again. */
static void a_request_on_a_full_device_ends_though_others_take_what_leaves(void **state)
{
    struct zc_rule fetch = {.spill = ZC_SPILL_FETCH, .place = {.count = 1, .item = {ZC_PLACE_VMM}}};
    const struct zc_want want = {.size = 5000,
                                 .device = 3,
                                 .context = (CUcontext)trace,
                                 .rule = &fetch,
                                 .api = ZC_API_cuMemAlloc};
    char why[256];
    unsigned index;
    (void)state;
    both.record = (struct zc_movable){.vmm = {.moves = true, .rule = &fetch, .filled = true}};
    both.record.vmm.va.reads = true;
    both.block = (struct zc_block){.size = 9000, .device = 3, .place = ZC_PLACE_VMM};
    both.due = 1;
    both.left = both.away = yields.vain = 0;
    __atomic_store_n(&zc_vmm_counts.spilled, 1, __ATOMIC_RELAXED);
    no_budget = 0;
    too_full = BIT(V);
    struct zc_backing *made = zc_place_try(&want, 0, &index, why, sizeof(why));
    assert_int_equal(both.away, 2);
    assert_int_equal(zc_spilled(made), 5000);
    zc_place_release(made, false);
    both.record = (struct zc_movable){.vmm = {.moves = true}};
    too_full = 0;
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
        cmocka_unit_test(a_block_gives_way_where_that_helps),
        cmocka_unit_test(weights_leave_in_turn),
        cmocka_unit_test(weights_give_way_whole),
        cmocka_unit_test(a_request_on_a_full_device_ends_though_others_take_what_leaves),
        cmocka_unit_test(after_requests_in_vain_ever_more_are_let_pass),
        cmocka_unit_test(a_request_without_host_memory_is_looked_for_each_time),
    };
    return RUN_TESTS(tests);
}
