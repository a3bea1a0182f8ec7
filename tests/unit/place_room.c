/* SPDX-License-Identifier: MIT */
/* Room that is told to a block that comes to a device, and to the program. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/module.h"
#include "memory/device.h"
#include "memory/limits.h"
#include "real_test.h"
#include "vmm/lazy.h"

static struct {
    uint64_t budget, budget_most, left, most, promised, device, managed, mapped;
    size_t total; /* Of the device; 0: it has no such memory. */
    bool bound, holds;
    CUresult answers;
    unsigned asked, before;
} has;

static uint64_t fake_budget(const struct zc_rule *rule, int device)
{
    assert_true(rule && device == 3);
    return has.budget;
}

static uint64_t fake_budget_most(const struct zc_rule *rule, int device)
{
    assert_true(rule && device == 3);
    return has.budget_most;
}

static uint64_t fake_left(enum zc_place_id place, int device)
{
    assert_true(place == ZC_PLACE_DEVICE && device == 3);
    return has.left;
}

static uint64_t fake_most(int device)
{
    assert_int_equal(device, 3);
    return has.most;
}

static uint64_t fake_used(enum zc_place_id place, int device)
{
    assert_int_equal(device, 3);
    return place == ZC_PLACE_MANAGED  ? has.managed
           : place == ZC_PLACE_MAPPED ? has.mapped
                                      : 1000000;
}

static uint64_t fake_promised(int device)
{
    assert_int_equal(device, 3);
    return has.promised;
}

static uint64_t fake_free(int device)
{
    assert_int_equal(device, 3);
    has.asked++;
    return has.device;
}

static bool fake_bound(void)
{
    return has.bound;
}

static bool fake_holds(int device, size_t bytes, bool anywhere)
{
    assert_true(device == 3 && bytes == 77 && anywhere);
    return has.holds;
}

static void fake_before(int device, size_t bytes)
{
    assert_true(device == 3 && bytes == 77);
    has.before++;
}

static const struct zc_vmm_facts *fake_facts(int device)
{
    static struct zc_vmm_facts facts;
    assert_int_equal(device, 3);
    facts.total = has.total;
    return facts.total ? &facts : NULL;
}

static CUresult get_total(size_t *total, CUdevice device)
{
    *total = 64 * 100 + (size_t)device;
    return has.answers;
}

#define zc_budget_left fake_budget
#define zc_budget_most fake_budget_most
#define zc_limits_left fake_left
#define zc_limits_most fake_most
#define zc_limits_used fake_used
#define zc_limits_device_bound fake_bound
#define zc_limits_device_holds fake_holds
#define zc_lazy_promised fake_promised
#define zc_lazy_before_request fake_before
#define zc_device_free fake_free
#define zc_vmm_facts(device) fake_facts(device)
#include "../../shim/place/room.c"

static void least_blocks_move_where_the_rule_says_so(void **state)
{
    static const struct {
        enum zc_spill spill;
        uint64_t chunk, least;
    } rows[] = {{ZC_SPILL_NONE, 0, UINT64_MAX},
                {ZC_SPILL_HOST, 64 << 20, UINT64_MAX},
                {ZC_SPILL_MOVE, 0, 32 << 20},
                {ZC_SPILL_FETCH, 0, 32 << 20},
                {ZC_SPILL_MOVE, 64 << 20, 64 << 20},
                {ZC_SPILL_MOVE, 1, ZC_BLOCK_UNIT},
                {ZC_SPILL_MOVE, ZC_BLOCK_UNIT + 1, ZC_BLOCK_UNIT + 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct zc_rule rule = {.spill = rows[i].spill, .chunk = rows[i].chunk};
        assert_int_equal(zc_room_least(&rule), rows[i].least);
    }
}

/* The least of what limits, budget and device leave, of which a part of 64 is for kernels. */
static void a_block_has_the_least_of_what_is_left(void **state)
{
    const struct zc_rule rule = {.chunk = 0};
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_real.cuDeviceTotalMem_v2 = get_total;
    has.budget = 5000;
    has.left = 6000;
    has.device = 3000;
    has.promised = 50;
    assert_int_equal(zc_room_left(&rule, 3, true), 3000 - 50 - 100);
    has.device = 9000;
    assert_int_equal(zc_room_left(&rule, 3, true), 5000);
    assert_int_equal(zc_room_left(&rule, 3, false), 6000);
    has.left = 4000;
    assert_int_equal(zc_room_left(&rule, 3, true), 4000);
    has.promised = 1000000;
    assert_int_equal(zc_room_left(&rule, 3, true), 0);
    has.answers = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_room_left(&rule, 3, true), 4000);
    has.answers = CUDA_SUCCESS;
    has.asked = 0;
    has.left = 0;
    assert_int_equal(zc_room_left(&rule, 3, true), 0);
    assert_int_equal(has.asked, 0);
}

/* The device has 60 units, then the limit, then the budget: a sixth of them is left to others, and
 * what is free but a part of the device. */
static void what_never_has_room_ends_in_host_memory(void **state)
{
    const uint64_t u = ZC_BLOCK_UNIT;
    const struct zc_rule rule = {.chunk = 0};
    const struct {
        uint64_t total, most, budget_most, left, budget, device, bytes, beyond;
        bool counted;
    } rows[] = {{60, 70, 80, 70, 80, 60, 60, 0, true},   {60, 70, 80, 70, 80, 60, 61, 12, true},
                {90, 60, 80, 60, 80, 90, 60, 0, true},   {90, 60, 80, 60, 80, 90, 61, 11, true},
                {90, 80, 60, 80, 60, 90, 61, 11, true},  {90, 80, 60, 80, 60, 90, 61, 0, false},
                {90, 80, 60, 80, 60, 90, 81, 15, false}, {90, 80, 60, 80, 40, 90, 61, 31, true},
                {90, 80, 60, 80, 40, 32, 61, 40, true},  {90, 80, 60, 80, 10, 90, 61, 61, true},
                {90, 80, 60, 80, 9, 90, 61, 61, true},   {90, 80, 60, 80, 11, 90, 61, 60, true}};
    (void)state;
    real_without_driver();
    zc_real.cuDeviceTotalMem_v2 = get_total;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&has, 0, sizeof(has));
        has.total = rows[i].total * u;
        has.most = rows[i].most * u;
        has.budget_most = rows[i].budget_most * u;
        has.left = rows[i].left * u;
        has.budget = rows[i].budget * u;
        has.device = rows[i].device * u;
        assert_int_equal(zc_room_beyond(&rule, 3, rows[i].counted, rows[i].bytes * u),
                         rows[i].beyond * u);
        has.budget += u - 1; /* Whole units are on the device. */
        if (rows[i].beyond && rows[i].beyond < rows[i].bytes)
            assert_int_equal(zc_room_beyond(&rule, 3, rows[i].counted, rows[i].bytes * u + 5),
                             rows[i].beyond * u + 5);
    }
    const struct zc_rule lazy = {.commit = ZC_COMMIT_LAZY};
    assert_int_equal(zc_room_beyond(&lazy, 3, true, 61 * u), 0);
    has.total = 0;
    has.most = UINT64_MAX;
    assert_int_equal(zc_room_beyond(&rule, 3, false, 1000 * u), 0);
}

/* As if all that it asked for were on the device, and no more than it may have. */
static void a_program_is_told_what_it_would_have_without_libzc(void **state)
{
    static const struct {
        bool bound;
        uint64_t device, left, most, managed, mapped, promised;
        size_t free, total, told_free, told_total;
    } rows[] = {{0, 1, UINT64_MAX, UINT64_MAX, 0, 0, 0, 700, 900, 700, 900},
                {0, 1, UINT64_MAX, UINT64_MAX, 100, 200, 300, 700, 900, 100, 900},
                {0, 1, UINT64_MAX, UINT64_MAX, 500, 200, 300, 700, 900, 0, 900},
                {1, 600, 500, 800, 0, 0, 0, 700, 900, 500, 800},
                {1, 450, 500, 800, 1, 2, 3, 700, 900, 444, 800}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t free = rows[i].free, total = rows[i].total;
        memset(&has, 0, sizeof(has));
        has.bound = rows[i].bound;
        has.device = rows[i].device;
        has.left = rows[i].left;
        has.most = rows[i].most;
        has.managed = rows[i].managed;
        has.mapped = rows[i].mapped;
        has.promised = rows[i].promised;
        zc_room_report(3, &free, &total);
        assert_int_equal(free, rows[i].told_free);
        assert_int_equal(total, rows[i].told_total);
        free = rows[i].free;
        zc_room_report(3, &free, NULL);
        assert_int_equal(free, rows[i].told_free);
        total = rows[i].total;
        zc_room_report(3, NULL, &total);
        assert_int_equal(total, rows[i].told_total);
    }
}

static void a_request_of_the_programs_makes_room_where_the_device_holds_it(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    assert_false(zc_room_for_bare(3, 77, true));
    assert_int_equal(has.before, 0);
    has.holds = true;
    assert_true(zc_room_for_bare(3, 77, true));
    assert_int_equal(has.before, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_blocks_move_where_the_rule_says_so),
        cmocka_unit_test(a_block_has_the_least_of_what_is_left),
        cmocka_unit_test(what_never_has_room_ends_in_host_memory),
        cmocka_unit_test(a_program_is_told_what_it_would_have_without_libzc),
        cmocka_unit_test(a_request_of_the_programs_makes_room_where_the_device_holds_it),
    };
    return RUN_TESTS(tests);
}
