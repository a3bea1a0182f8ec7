/* SPDX-License-Identifier: MIT */
/* Which places are tried in which order, what each try counts and gives back, and what is said of
 * those that were passed over. */
#include "place_fallback_test.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_tried_in_order_and_what_a_try_took_is_given_back),
        cmocka_unit_test(a_second_try_begins_where_it_is_told_and_takes_no_budget),
        cmocka_unit_test(requests_for_host_memory_get_what_they_may_be),
        cmocka_unit_test(a_block_is_given_back_in_its_context_unless_that_is_gone),
        cmocka_unit_test(a_block_is_detached_once),
        cmocka_unit_test(a_rule_may_give_host_memory_by_its_places_or_where_blocks_move),
    };
    return RUN_TESTS(tests);
}
