/* SPDX-License-Identifier: MIT */
/* The largest block that a rule would place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "place/room.h"

#define ANY UINT64_MAX
#define M ((uint64_t)1 << 20)

static const struct zc_room device_64 = {64 * M, ANY, ANY, 64 * M, 40 * M};
static const struct zc_room bound_13 = {64 * M, 13 * M, ANY, 64 * M, 40 * M};
static const struct zc_room budget_9 = {64 * M, ANY, 9 * M, 64 * M, 40 * M};
static const struct zc_room managed_5 = {64 * M, ANY, ANY, 5 * M, 40 * M};
static const struct zc_room full = {2 * M, ANY, ANY, 2 * M, 40 * M};
static const struct zc_room no_host = {64 * M, ANY, ANY, 64 * M, 0};
static const struct zc_room little = {64 * M, ANY, 9 * M, 64 * M, 20 * M};

#define PLACES(...) (sizeof((enum zc_place_id[]){__VA_ARGS__}) / sizeof(enum zc_place_id))
#define RULE(s, c, ...)                                                                            \
    {                                                                                              \
        .place = {{__VA_ARGS__}, PLACES(__VA_ARGS__)}, .spill = ZC_SPILL_##s, .chunk = (c)         \
    }

static const struct zc_rule device = RULE(NONE, 0, ZC_PLACE_DEVICE);
static const struct zc_rule mapped = RULE(NONE, 0, ZC_PLACE_MAPPED);
static const struct zc_rule managed = RULE(NONE, 0, ZC_PLACE_MANAGED);
static const struct zc_rule shared = RULE(NONE, 0, ZC_PLACE_SHARED);
static const struct zc_rule both = RULE(NONE, 0, ZC_PLACE_DEVICE, ZC_PLACE_MAPPED);
static const struct zc_rule vmm = RULE(NONE, 2 * M, ZC_PLACE_VMM);
static const struct zc_rule moved = RULE(MOVE, 2 * M, ZC_PLACE_VMM);
static const struct zc_rule wide = RULE(MOVE, 0, ZC_PLACE_VMM);
static const struct zc_rule huge = RULE(MOVE, UINT64_MAX, ZC_PLACE_VMM);
static const struct zc_rule second = RULE(MOVE, 2 * M, ZC_PLACE_MANAGED, ZC_PLACE_VMM);

static const struct {
    const struct zc_rule *rule;
    const struct zc_room *room;
    uint64_t mib;
} rows[] = {
    {NULL, &device_64, 64},
    {NULL, &bound_13, 13},
    {&device, &device_64, 64},
    {&device, &bound_13, 13},
    {&device, &budget_9, 9},
    {&shared, &bound_13, 13},
    {&mapped, &device_64, 40},
    {&mapped, &budget_9, 9},
    {&mapped, &no_host, 0},
    {&managed, &device_64, 64},
    {&managed, &managed_5, 5},
    {&managed, &bound_13, 64},
    {&managed, &full, 2},
    /* A block lies in one place. */
    {&both, &device_64, 64},
    {&both, &budget_9, 40},
    {&both, &bound_13, 40},
    {&both, &full, 40},
    {&vmm, &device_64, 64},
    {&vmm, &budget_9, 9},
    /* One that moves is in one memory, too. */
    {&moved, &device_64, 64},
    {&moved, &bound_13, 40},
    {&moved, &budget_9, 40},
    {&moved, &full, 40},
    {&moved, &no_host, 64},
    {&wide, &budget_9, 40},
    {&wide, &little, 9}, /* Of less than moves all is on the device. */
    {&huge, &budget_9, 9},
    /* The budget is that of the first place. */
    {&second, &budget_9, 64},
};

static void a_rule_has_room_for_one_block(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(zc_room_largest(rows[i].rule, rows[i].room) / M, rows[i].mib);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rule_has_room_for_one_block)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
