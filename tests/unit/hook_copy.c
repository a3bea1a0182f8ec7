/* SPDX-License-Identifier: MIT */
/* The life of a copy: its maker, its count, its line in the log. */
#include "hook_copy_test.h"

static struct zc_extent extent;

static struct zc_copy plain(void)
{
    struct zc_copy c = ours();
    near_block.flags = 0;
    return c;
}

static void memory_of_the_drivers_is_counted_and_nothing_else(void **state)
{
    (void)state;
    struct zc_copy c = plain();
    c.on = false;
    assert_false(zc_copy_begin(&c));
    c.result = CUDA_ERROR_NOT_READY;
    assert_int_equal(zc_copy_end(&c), CUDA_ERROR_NOT_READY);
    assert_int_equal(has.resolved + has.recorded, 0);
    c = plain();
    assert_false(zc_copy_begin(&c));
    assert_int_equal(zc_copy_end(&c), CUDA_SUCCESS);
    assert_true(has.resolved == 1 && has.plans == 0 && !c.planned && has.held == 0);
    assert_true(has.recorded == 1 && has.tidied == 1 && has.notes == 1 && has.waits == 0);
    assert_true(has.last[0].outcome == ZC_MOVED && has.last[0].bytes == SIZE);
    assert_int_equal(has.sites + has.logged + has.sources, 0);
    c.bytes = 0;
    assert_int_equal(zc_copy_end(&c), CUDA_SUCCESS);
    assert_int_equal(has.recorded, 1);
}

static void what_a_capture_holds_counts_at_its_launches(void **state)
{
    (void)state;
    struct zc_copy c = plain();
    for (unsigned i = 0; i < 8; i++) {
        has.recorded = 0;
        zc_captures = (int)(i & 1);
        c.async = i & 2;
        has.captured = i & 4;
        assert_int_equal(zc_copy_end(&c), CUDA_SUCCESS);
        assert_int_equal(has.recorded, i != 7);
    }
}

static void links_hear_of_small_copies_where_they_wait_for_large_ones(void **state)
{
    (void)state;
    struct zc_copy c = plain();
    zc_copy_begin(&c);
    assert_int_equal(has.small, 0);
    zc_rules_read.links = ZC_LINKS_IDLE;
    zc_copy_begin(&c);
    assert_int_equal(has.small, 1);
    c.bytes = ZC_LINKS_LEAST;
    zc_copy_begin(&c);
    assert_int_equal(has.small, 1);
}

static void a_copy_is_planned_for_memory_of_libzcs_and_large_ones(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        anew(NULL);
        has.plan[0] = ZC_WAY_FORWARD;
        struct zc_copy c = plain();
        struct zc_operand *b = i & 1 ? &c.dst : &c.src;
        struct zc_block *block = i & 1 ? &near_block : &far_block;
        block->flags = i / 2 == 0 ? ZC_BLOCK_CONVERTED : i / 2 == 3 ? ZC_BLOCK_ADOPTED : 0;
        b->extent = i / 2 == 1 ? &extent : NULL;
        b->in_margin = i / 2 == 2;
        assert_false(zc_copy_begin(&c));
        assert_true(c.planned && has.held == 1 && has.visited == 1 && has.plans == 1);
        assert_int_equal(c.way, ZC_WAY_FORWARD);
        assert_true(has.facts[0] & ZC_FACT_OURS);
        assert_int_equal(has.facts[0] & ZC_FACT_LEAVES, i / 2 == 2 ? ZC_FACT_LEAVES : 0);
        assert_int_equal(has.facts[0] & ZC_FACT_LARGE, 0);
    }
    anew(NULL);
    struct zc_copy c = plain();
    has.large = true;
    assert_false(zc_copy_begin(&c));
    assert_true(c.planned && has.held == 1 && has.visited == 0 && has.plans == 1);
    assert_int_equal(has.facts[0], ZC_FACT_LARGE);
    anew(NULL);
    c = ours();
    c.bytes = 0; /* The driver knows best. */
    assert_false(zc_copy_begin(&c));
    assert_true(c.planned && has.held == 1 && has.visited == 0 && has.plans == 0);
}

static uint32_t facts_of(struct zc_copy *c)
{
    has.plans = 0;
    has.plan[0] = ZC_WAY_FORWARD;
    assert_false(zc_copy_begin(c));
    return has.facts[0];
}

static void a_plan_gets_the_facts_of_the_call_and_the_process(void **state)
{
    (void)state;
    struct zc_copy c = ours();
    assert_int_equal(facts_of(&c), ZC_FACT_OURS);
    c.async = true;
    assert_int_equal(facts_of(&c), ZC_FACT_OURS | ZC_FACT_ASYNC);
    c.async = false;
    zc_captures = 1;
    assert_int_equal(facts_of(&c), ZC_FACT_OURS | ZC_FACT_CAPTURE);
    zc_captures = 0;
    has.pair = true;
    assert_int_equal(facts_of(&c), ZC_FACT_OURS | ZC_FACT_SHARED);
    has.pair = false;
    has.border = FAR;
    assert_int_equal(facts_of(&c), ZC_FACT_OURS | ZC_FACT_BORDER);
    has.large = has.pair = true; /* Of memory that is not libzc's neither counts. */
    near_block.flags = 0;
    assert_int_equal(facts_of(&c), ZC_FACT_LARGE);
}

static void ranges_that_leave_their_blocks_are_told_to_the_plan(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        struct zc_copy c = ours();
        struct zc_operand *b = i ? &c.dst : &c.src;
        struct zc_block *block = i ? &near_block : &far_block;
        near_block.flags = far_block.flags = ZC_BLOCK_CONVERTED;
        b->address += 16;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
        b->span -= 16;
        assert_false(facts_of(&c) & ZC_FACT_LEAVES);
        b->span++;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
        b->span--;
        block->flags |= ZC_BLOCK_QUARANTINED;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
        block->flags = ZC_BLOCK_QUARANTINED;
        (i ? &far_block : &near_block)->flags = ZC_BLOCK_CONVERTED;
        assert_false(facts_of(&c) & ZC_FACT_LEAVES); /* The driver looks at its own. */
        b->asked = ZC_KIND_PINNED;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
        block->flags = 0;
        assert_false(facts_of(&c) & ZC_FACT_LEAVES);
        b->block = NULL;
        assert_false(facts_of(&c) & ZC_FACT_LEAVES);
        has.refused_at = b->address;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
        has.refused_at = 0;
        b->in_margin = true;
        assert_true(facts_of(&c) & ZC_FACT_LEAVES);
    }
    struct zc_copy c = ours();
    has.refused_at = 0;
    c.shape = ZC_SHAPE_PREFETCH; /* Of pageable memory alone. */
    assert_true(facts_of(&c) & ZC_FACT_LEAVES);
    c.dst.extent = &extent;
    assert_false(facts_of(&c) & ZC_FACT_LEAVES);
}

static void questions_are_asked_until_there_is_a_way(void **state)
{
    (void)state;
    struct zc_copy c = ours();
    has.plan[0] = ZC_WAY_ASK_PAIR;
    has.plan[1] = ZC_WAY_ASK_THREADS;
    has.plan[2] = ZC_WAY_CPU;
    has.answers = ZC_FACT_READY_KNOWN;
    assert_true(zc_copy_begin(&c));
    assert_true(has.asked == 2 && has.plans == 3 && has.cpu == 1);
    assert_int_equal(has.facts[2], ZC_FACT_OURS | ZC_FACT_READY_KNOWN);
    anew(NULL); /* Another thread changes what the plan was made of. */
    c = ours();
    has.retries = 2;
    has.plan[0] = has.plan[1] = ZC_WAY_CPU;
    has.plan[2] = ZC_WAY_REMAP;
    assert_true(zc_copy_begin(&c));
    assert_true(has.kept == 3 && has.plans == 3 && has.cpu == 0 && has.visited == 1);
}

static void each_way_has_its_maker_and_its_count(void **state)
{
    static const struct {
        enum zc_way way;
        bool answered, waits;
        int outcome; /* -1: it does not count. */
        unsigned *maker;
    } rows[] = {{ZC_WAY_FORWARD, false, false, ZC_MOVED, &has.stales},
                {ZC_WAY_FORWARD_WAIT, false, true, -1, &has.stales},
                {ZC_WAY_REFUSE, true, false, -1, &has.refusals},
                {ZC_WAY_SPLIT, true, false, -1, &has.parts},
                {ZC_WAY_REMAP, true, false, -1, &has.kept},
                {ZC_WAY_CPU, true, false, ZC_CPU, &has.cpu},
                {ZC_WAY_CPU_WAIT, true, false, ZC_CPU, &has.cpu},
                {ZC_WAY_CPU_ORDERED, true, false, ZC_CPU, &has.cpu},
                {ZC_WAY_CPU_STAGED, true, false, ZC_CPU, &has.cpu},
                {ZC_WAY_RING, true, false, ZC_MOVED, &has.ring},
                {ZC_WAY_THREADS, true, false, ZC_MOVED, &has.threaded},
                {ZC_WAY_LINKS, true, false, ZC_MOVED, &has.over_links}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        struct zc_copy c = ours();
        has.threads = has.linked = true;
        has.plan[0] = rows[i].way;
        assert_int_equal(zc_copy_begin(&c), rows[i].answered);
        assert_int_equal(*rows[i].maker, 1);
        assert_int_equal(c.way, rows[i].way);
        unsigned made = has.stales + has.refusals + has.parts + has.cpu + has.ring + has.threaded +
                        has.over_links;
        assert_int_equal(made, rows[i].way != ZC_WAY_REMAP);
        CUresult result = zc_copy_end(&c);
        assert_int_equal(result, rows[i].way == ZC_WAY_REFUSE ? CUDA_ERROR_INVALID_CONTEXT
                                 : rows[i].waits              ? CUDA_ERROR_ECC_UNCORRECTABLE
                                                              : CUDA_SUCCESS);
        assert_int_equal(has.recorded, rows[i].outcome >= 0);
        assert_true(rows[i].outcome < 0 || (int)has.last[0].outcome == rows[i].outcome);
        assert_true(has.released == 1 && has.ended_sides == 1 && has.tidied == 1);
        assert_int_equal(has.waits, rows[i].waits);
    }
}

static void what_threads_and_links_can_not_make_the_driver_does(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        struct zc_copy c = ours();
        has.plan[0] = i & 1 ? ZC_WAY_THREADS : ZC_WAY_LINKS;
        has.stale = i & 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        has.threads = !(i & 1);
        has.linked = i & 1;
        assert_int_equal(zc_copy_begin(&c), i >> 1);
        assert_int_equal(c.result, has.stale);
        assert_true(i & 2 || c.way == ZC_WAY_FORWARD);
    }
}

static void a_pair_is_planned_anew_until_its_state_holds(void **state)
{
    (void)state;
    struct zc_copy c = ours();
    has.plan[0] = has.plan[1] = ZC_WAY_PAIR;
    has.idle_pair = true;
    assert_true(zc_copy_begin(&c));
    assert_true(has.pair_copies == 2 && has.plans == 2);
    c.part[ZC_MOVED] = 0;
    c.part[ZC_CPU] = 100;
    c.part[ZC_ELIDED] = SIZE - 100;
    assert_int_equal(zc_copy_end(&c), CUDA_SUCCESS);
    assert_int_equal(has.recorded, 2); /* One call of several outcomes. */
    assert_true(has.last[0].outcome == ZC_CPU && has.last[0].bytes == 100);
    assert_true(!has.last[0].continues && has.last[0].ticks == 5);
    assert_true(has.last[1].outcome == ZC_ELIDED && has.last[1].bytes == SIZE - 100);
    assert_true(has.last[1].continues && has.last[1].ticks == 0);
    c.part[ZC_MOVED] = 7;
    has.recorded = 0;
    assert_int_equal(zc_copy_end(&c), CUDA_SUCCESS);
    assert_true(has.recorded == 3 && has.last[0].bytes == 7);
}

static void a_value_that_libzc_does_not_know_is_the_drivers_once_all_is_ready(void **state)
{
    (void)state;
    struct zc_copy c = plain();
    c.unknown = true;
    assert_false(zc_copy_begin(&c));
    assert_true(has.unknowns == 1 && has.resolved == 2 && has.held == 1 && c.planned);
    c = plain();
    c.unknown = true;
    has.unknown = CUDA_ERROR_UNKNOWN;
    assert_true(zc_copy_begin(&c));
    assert_int_equal(c.result, CUDA_ERROR_UNKNOWN);
    assert_int_equal(has.held, 1);
}

static struct zc_plain_copy quick(bool is, enum zc_side ds, CUdeviceptr dst, enum zc_side ss,
                                  CUdeviceptr src, uint64_t bytes)
{
    struct zc_plain_copy c;
    memset(&c, 1, sizeof(c));
    assert_int_equal(zc_copy_quick(&c, ds, dst, ss, src, bytes), is);
    return c;
}

static void small_copies_of_the_drivers_memory_are_only_counted(void **state)
{
    (void)state;
    const enum zc_side D = ZC_SIDE_DEVICE, H = ZC_SIDE_HOST;
    const uint64_t most = ZC_SOURCE_LEAST - 1;
    far_block.device = near_block.device = 1;
    has.found[0] = &near_block;
    has.found[1] = &far_block;
    near_block.size = far_block.size = 4 * SIZE;
    struct zc_plain_copy c = quick(true, D, AT, D, FAR, most);
    assert_true(c.bytes == most && c.dst == &near_block && c.src == &far_block);
    assert_int_equal(c.flow, zc_flow(ZC_DIR_DTOD, ZC_KIND_DEVICE, ZC_KIND_DEVICE));
    far_block.device = 2;
    zc_index_sequence += 2;
    c = quick(true, D, AT, D, FAR, 8);
    assert_int_equal(c.flow, zc_flow(ZC_DIR_PTOP, ZC_KIND_DEVICE, ZC_KIND_DEVICE));
    c = quick(true, D, AT, H, 8, 8);
    assert_int_equal(c.flow, zc_flow(ZC_DIR_HTOD, ZC_KIND_PAGEABLE, ZC_KIND_DEVICE));
    assert_null(c.src);
    c = quick(true, H, 8, D, FAR, 8);
    assert_int_equal(c.flow, zc_flow(ZC_DIR_DTOH, ZC_KIND_DEVICE, ZC_KIND_PAGEABLE));
    c = quick(true, D, AT, ZC_SIDE_NONE, 0, 8);
    assert_int_equal(c.flow, zc_flow(ZC_DIR_MEMSET, ZC_KIND_DEVICE, ZC_KIND_DEVICE));
    assert_null(c.src);
    quick(false, D, AT, D, FAR, 0);
    quick(false, D, AT, D, FAR, most + 1);
    quick(false, D, 8, D, FAR, 8);
    quick(false, D, AT, D, 8, 8);
    quick(false, D, AT, ZC_SIDE_ANY, 8, 8);
    for (unsigned i = 0; i < 8; i++) {
        struct zc_block *b = i & 1 ? &near_block : &far_block;
        b->flags = i / 2 == 0   ? ZC_BLOCK_CONVERTED
                   : i / 2 == 1 ? ZC_BLOCK_ADOPTED
                   : i / 2 == 2 ? ZC_BLOCK_HOST
                                : 0;
        b->real = i / 2 == 3 ? ZC_KIND_PINNED : b->asked;
        zc_index_sequence += 2;
        quick(false, D, AT, D, FAR, 8);
        b->flags = 0;
        b->real = b->asked;
    }
    for (unsigned i = 0; i < 2; i++) { /* Looked up, and known. */
        quick(true, D, AT, D, FAR, 8);
        has.level = ZC_LOG_ALLOCS;
        quick(false, D, AT, D, FAR, 8);
        has.level = ZC_LOG_SUMMARY;
        zc_captures = 1;
        quick(false, D, AT, D, FAR, 8);
        zc_captures = 0;
        zc_rules_read.links = ZC_LINKS_IDLE;
        quick(false, D, AT, D, FAR, 8);
        zc_rules_read.links = 2;
        zc_life_state = ZC_LIFE_PASS;
        quick(false, D, AT, D, FAR, 8);
        zc_life_state = ZC_LIFE_ON;
    }
}

/* So many look-ups it takes. */
static struct zc_plain_copy looks(unsigned most, enum zc_side ds, CUdeviceptr dst, enum zc_side ss,
                                  CUdeviceptr src, uint64_t bytes)
{
    has.looks = 0;
    struct zc_plain_copy c = quick(true, ds, dst, ss, src, bytes);
    assert_int_equal(has.looks, most);
    return c;
}

static void a_small_copy_is_known_again_while_no_block_comes_or_goes(void **state)
{
    (void)state;
    const enum zc_side D = ZC_SIDE_DEVICE, H = ZC_SIDE_HOST;
    has.found[0] = &near_block;
    has.found[1] = &far_block;
    looks(2, D, AT, D, FAR, 8);
    struct zc_plain_copy c = looks(0, D, AT + 8, D, FAR + 16, 24);
    assert_true(c.bytes == 24 && c.dst == &near_block && c.src == &far_block);
    assert_true(c.cell[0] == &has.cell && c.sequence == zc_index_sequence);
    looks(2, D, FAR, D, AT, 8); /* Another one, and both are known. */
    looks(0, D, AT, D, FAR, 8);
    looks(0, D, FAR, D, AT, 8);
    looks(2, D, AT, H, 8, 8);
    looks(2, D, AT, H, 9, 8); /* Of a range of its own. */
    looks(0, D, AT, H, 9, 8);
    quick(false, D, AT, D, 9, 8); /* No device memory there. */
    looks(1, D, AT, ZC_SIDE_NONE, 0, 8);
    looks(0, D, AT, ZC_SIDE_NONE, 0, 8);
    zc_index_sequence += 2;
    has.found[0] = &far_block;
    looks(1, D, FAR, ZC_SIDE_NONE, 0, 8);
    quick(false, D, AT, ZC_SIDE_NONE, 0, 8);
    has.found[0] = &near_block;
    has.changes = 2;
    looks(2, D, AT, D, FAR, 8); /* The index changed between both sides. */
    looks(2, D, AT, D, FAR, 8);
    has.no_cells = true;
    zc_index_sequence += 2;
    c = looks(2, D, AT, D, FAR, 8);
    assert_true(c.sequence != zc_index_sequence);
    looks(2, D, AT, D, FAR, 8);
}

/* Whatever entry a page's hash chooses. */
static void the_byte_behind_a_block_is_not_of_it(void **state)
{
    (void)state;
    const enum zc_side D = ZC_SIDE_DEVICE;
    has.found[0] = &near_block;
    has.found[1] = &far_block;
    far_block.size = 64 * ZC_BLOCK_PAGE;
    for (unsigned i = 0; i < 64; i++)
        quick(true, D, AT, D, FAR + i * ZC_BLOCK_PAGE, 8);
    for (unsigned i = 0; i < 64; i++) {
        quick(false, D, AT + SIZE, D, FAR + i * ZC_BLOCK_PAGE, 8);
        quick(false, D, AT - 1, D, FAR + i * ZC_BLOCK_PAGE, 8);
    }
}

/* As a handler would, at any point. */
static void a_copy_in_the_middle_of_what_is_remembered_changes_nothing(void **state)
{
    (void)state;
    const enum zc_side D = ZC_SIDE_DEVICE;
    has.found[0] = &near_block;
    has.found[1] = &far_block;
    looks(2, D, AT, D, FAR, 8);
    quick_last.changes++;
    looks(0, D, AT, D, FAR, 8);
    zc_index_sequence += 2;
    looks(2, D, AT, D, FAR, 8);
    looks(2, D, AT, D, FAR, 8);
    quick_last.changes++;
    last_of(AT, FAR)->copy.sequence = BUSY;
    looks(2, D, AT, D, FAR, 8);
    looks(0, D, AT, D, FAR, 8);
}

static void the_log_has_what_the_level_says(void **state)
{
    (void)state;
    struct zc_copy c = plain();
    c.bytes = ZC_SOURCE_LEAST;
    for (unsigned i = 0; i < 8; i++) {
        has.sources = has.sites = has.logged = has.recorded = 0;
        has.level = i & 1 ? ZC_LOG_EVENTS : ZC_LOG_ALLOCS;
        has.site_is_new = i & 2;
        c.dst.asked = i & 4 ? ZC_KIND_PAGEABLE : ZC_KIND_DEVICE;
        c.src.asked = ZC_KIND_DEVICE;
        zc_copy_end(&c);
        assert_int_equal(has.logged, i & 1);
        assert_int_equal(has.sites, i >> 1 & 1);
        assert_int_equal(has.sources, i >> 2);
    }
    c.dst.asked = ZC_KIND_DEVICE;
    c.src.asked = ZC_KIND_PAGEABLE;
    has.sources = has.recorded = 0;
    zc_copy_end(&c);
    assert_int_equal(has.sources, 1);
    c.bytes--; /* Too small to be told apart. */
    zc_copy_end(&c);
    assert_int_equal(has.sources, 1);
}

/* The block may have been registered between the plan and the driver's call. */
static void a_copy_of_pageable_memory_is_complete_at_its_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        anew(NULL);
        struct zc_copy c = ours();
        has.plan[0] = i & 1 ? ZC_WAY_FORWARD : ZC_WAY_CPU;
        has.staged = i & 2;
        c.async = i & 4;
        zc_copy_begin(&c);
        c.facts |= i & 8 ? ZC_FACT_CAPTURED : 0;
        c.result = i & 16 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
        CUresult result = zc_copy_end(&c);
        assert_int_equal(has.waits, i == 7);
        assert_int_equal(result, i == 7   ? CUDA_ERROR_ECC_UNCORRECTABLE
                                 : i & 16 ? CUDA_ERROR_NOT_READY
                                          : CUDA_SUCCESS);
        assert_int_equal(has.recorded, i < 16 && i != 7);
        assert_int_equal(has.diagnosed, i >= 16 || i == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_of_the_drivers_is_counted_and_nothing_else),
        TEST(what_a_capture_holds_counts_at_its_launches),
        TEST(links_hear_of_small_copies_where_they_wait_for_large_ones),
        TEST(a_copy_is_planned_for_memory_of_libzcs_and_large_ones),
        TEST(a_plan_gets_the_facts_of_the_call_and_the_process),
        TEST(ranges_that_leave_their_blocks_are_told_to_the_plan),
        TEST(questions_are_asked_until_there_is_a_way),
        TEST(each_way_has_its_maker_and_its_count),
        TEST(what_threads_and_links_can_not_make_the_driver_does),
        TEST(a_pair_is_planned_anew_until_its_state_holds),
        TEST(a_value_that_libzc_does_not_know_is_the_drivers_once_all_is_ready),
        TEST(small_copies_of_the_drivers_memory_are_only_counted),
        TEST(a_small_copy_is_known_again_while_no_block_comes_or_goes),
        TEST(the_byte_behind_a_block_is_not_of_it),
        TEST(a_copy_in_the_middle_of_what_is_remembered_changes_nothing),
        TEST(the_log_has_what_the_level_says),
        TEST(a_copy_of_pageable_memory_is_complete_at_its_end),
    };
    return RUN_TESTS(tests);
}
