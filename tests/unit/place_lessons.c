/* SPDX-License-Identifier: MIT */
/* Lessons of blocks that were freed: which blocks of their call path are placed next. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/text.h"
#include "host/hostheap.h"
#include "ledger/cell.h"
#include "ledger/profile.h"
#include "ledger/rules.h"
#include "ledger/site.h"
#include "log/lines.h"
#include "log/summary.h"

#define MIB ((uint64_t)1 << 20)
#define LARGE (8 * MIB)
enum { SITE = 5 };

static struct zc_rule rules[4];
static struct zc_range sizes[4];
static struct zc_policy file = {.rules = rules, .rule_count = 4};
static struct zc_block block;
static struct zc_cell cell[ZC_DIR_COUNT];
static bool learns, asked;
static size_t loose;
static unsigned told;
static char said[512];

static void fake_warn(const char *code, const char *words)
{
    assert_string_equal(code, "auto");
    strcpy(said, words);
    told++;
}

static struct zc_block *fake_find(uint64_t address)
{
    return address == 77 ? &block : NULL;
}

#define zc_profile_learns() learns
#define zc_profile_asked() asked
#define zc_rules() (&file)
#define zc_site_id(site) ((site) + 0x100u)
#define zc_log_warn(severity, code, words)                                                         \
    (assert_int_equal(severity, ZC_NOTE), fake_warn(code, words))
#define zc_block_find fake_find
#define zc_cell_sum_all(sum, of) ((void)(of), memcpy(sum, cell, sizeof(cell)))
#define zc_hostheap_loose() loose
#include "../../shim/place/lessons.c"

static int anew(void **state)
{
    (void)state;
    memset(by_site, 0, sizeof(by_site));
    memset(rules, 0, sizeof(rules));
    memset(cell, 0, sizeof(cell));
    base = NULL;
    large = 0;
    told = 0;
    said[0] = 0;
    zc_log_decisions = 0;
    learns = true;
    asked = false;
    for (unsigned i = 0; i < 4; i++) {
        rules[i].name = i == 1 || i == 2 ? "host-buffers" : "another";
        rules[i].size.count = 1;
        sizes[i].low = LARGE + (i == 1);
        rules[i].size.item = &sizes[i];
    }
    block = (struct zc_block){.size = LARGE, .site = SITE, .rule = 2, .real = ZC_KIND_PINNED};
    return 0;
}

static void the_last_rule_of_the_preset_is_learned_about(void **state)
{
    (void)state;
    learns = false;
    assert_false(zc_lessons_start());
    assert_true(large == 0 && !zc_lessons_concern(NULL, ZC_API_malloc, LARGE));
    learns = true;
    rules[2].size.count = 2;
    assert_true(zc_lessons_start());
    assert_true(base == &rules[1] && large == LARGE + 1);
    rules[2].size.count = 1;
    assert_true(zc_lessons_start());
    assert_true(base == &rules[2] && large == LARGE);
    rules[1].name = rules[2].name = "none";
    base = NULL;
    assert_false(zc_lessons_start());
    rules[0].name = "host-buffers";
    assert_true(zc_lessons_start());
    assert_ptr_equal(base, &rules[0]);
}

static void large_blocks_of_the_rule_and_small_ones_of_none_are_concerned(void **state)
{
    (void)state;
    zc_lessons_start();
    assert_true(zc_lessons_concern(base, ZC_API_malloc, LARGE));
    assert_true(zc_lessons_concern(base, ZC_API_realloc, LARGE));
    assert_false(zc_lessons_concern(&rules[1], ZC_API_malloc, LARGE));
    assert_false(zc_lessons_concern(NULL, ZC_API_malloc, LARGE));
    assert_true(zc_lessons_concern(NULL, ZC_API_malloc, LARGE - 1));
    assert_false(zc_lessons_concern(base, ZC_API_malloc, LARGE - 1));
    assert_false(zc_lessons_concern(NULL, ZC_API_realloc, LARGE - 1));
    assert_false(zc_lessons_concern(NULL, ZC_API_reallocarray, LARGE - 1));
}

/* The first two of a call path, the 16th, the 32nd and so on. */
static void blocks_that_are_libcs_are_tried_ever_more_rarely(void **state)
{
    (void)state;
    zc_lessons_start();
    for (unsigned i = 1; i <= 200; i++) {
        bool tried = i <= 2 || i == 16 || i == 32 || i == 64 || i == 128;
        assert_ptr_equal(zc_lessons_rule(NULL, LARGE - 1, SITE), tried ? base : NULL);
        assert_ptr_equal(zc_lessons_rule(base, LARGE, SITE), base);
    }
    by_site[0][SITE + 1].other = by_site[1][SITE + 1].other = 1;
    for (unsigned i = 1; i <= 200; i++) {
        bool tried = i <= 2 || i == 16 || i == 32 || i == 64 || i == 128;
        assert_ptr_equal(zc_lessons_rule(base, LARGE, SITE + 1), tried ? base : NULL);
        assert_ptr_equal(zc_lessons_rule(NULL, LARGE - 1, SITE + 1), base);
    }
    assert_null(zc_lessons_rule(NULL, LARGE - 1, 0)); /* An unknown call path. */
    assert_ptr_equal(zc_lessons_rule(&rules[1], LARGE, 0), &rules[1]);
}

static void a_block_is_worth_what_was_copied_of_it(void **state)
{
    static const struct {
        uint64_t size, copied;
        bool pageable, came;
        int worth;
    } rows[] = {{LARGE, LARGE / 2, 0, 0, 1},      {LARGE, LARGE / 2 - 1, 0, 0, -1},
                {LARGE, LARGE / 16, 0, 0, -1},    {LARGE, LARGE / 16 - 1, 0, 0, 0},
                {LARGE, LARGE, 1, 0, 0},          {LARGE, LARGE / 16, 0, 1, 1},
                {LARGE, LARGE / 16 - 1, 0, 1, 0}, {4 * MIB, 8 * MIB, 0, 0, 1},
                {4 * MIB, 8 * MIB - 1, 0, 0, -1}, {4 * MIB, MIB / 4, 0, 1, 1},
                {4 * MIB, MIB / 4 - 1, 0, 1, -1}, {4 * MIB, 8 * MIB, 1, 0, -1},
                {LARGE - 1, LARGE - 1, 0, 0, -1}};
    (void)state;
    zc_lessons_start();
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        block.size = rows[i].size;
        block.real = rows[i].pageable ? ZC_KIND_PAGEABLE : ZC_KIND_PINNED;
        block.flags = rows[i].came ? ZC_BLOCK_CAME_PINNED : 0;
        assert_int_equal(lessons_worth(&block, rows[i].copied), rows[i].worth);
    }
}

static void end(uint64_t size, uint64_t copied)
{
    block.size = size;
    cell[0].by[0].bytes = copied / 2;
    cell[ZC_DIR_COUNT - 1].by[ZC_OUTCOME_COUNT - 1].bytes = copied - copied / 2;
    zc_lessons_end((void *)77);
}

static void two_losses_in_turn_leave_blocks_to_libc_until_one_pays(void **state)
{
    const struct lesson *l = &by_site[0][SITE];
    (void)state;
    zc_lessons_start();
    end(LARGE, MIB);
    end(LARGE, LARGE); /* A gain between both. */
    end(LARGE, MIB);
    assert_true(!l->other && told == 0);
    end(LARGE, MIB);
    assert_true(l->other && told == 1 && zc_log_decisions == 1);
    assert_string_equal(said, "blocks from 8 MiB of call path 00000105 are libc's from now on: "
                              "of one of 8 MiB 1 MiB were copied");
    end(LARGE, MIB);
    assert_int_equal(l->other, 1);
    end(LARGE, 0); /* That tells nothing. */
    assert_int_equal(l->other, 1);
    end(LARGE, LARGE);
    assert_true(!l->other && told == 2);
    assert_non_null(strstr(said, "are pinned from now on"));
    end(LARGE, MIB); /* A choice that was wrong once goes with one loss. */
    assert_int_equal(l->other, 1);
}

static void small_blocks_are_placed_once_one_has_paid(void **state)
{
    const struct lesson *l = &by_site[1][SITE];
    (void)state;
    zc_lessons_start();
    end(4 * MIB, MIB);
    end(4 * MIB, MIB);
    end(4 * MIB, MIB);
    assert_true(!l->other && told == 0);
    end(4 * MIB, 8 * MIB);
    assert_true(l->other && told == 1);
    assert_non_null(strstr(said, "blocks below 8 MiB"));
    assert_non_null(strstr(said, "are pinned from now on: of one of 4 MiB 8 MiB were copied"));
    end(4 * MIB, 8 * MIB);
    assert_int_equal(l->other, 1);
    end(4 * MIB, MIB);
    end(4 * MIB, MIB);
    assert_int_equal(l->other, 0);
    assert_int_equal(by_site[0][SITE].losses + by_site[0][SITE].switches, 0);
}

static void eight_decisions_of_a_call_path_are_told(void **state)
{
    (void)state;
    zc_lessons_start();
    end(LARGE, MIB);
    for (unsigned i = 1; i <= 12; i++) {
        end(LARGE, i % 2 ? MIB : LARGE);
        assert_int_equal(told, i < 8 ? i : 8);
        assert_int_equal(strstr(said, "; later decisions about it are not told") != NULL, i >= 8);
    }
    assert_int_equal(zc_log_decisions, 12);
}

static void nothing_is_learned_of_other_blocks(void **state)
{
    (void)state;
    zc_lessons_end((void *)77);
    zc_lessons_start();
    zc_lessons_end((void *)78);
    block.site = 0;
    end(LARGE, MIB);
    block.site = SITE;
    block.rule = 1;
    end(LARGE, MIB);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned s = 0; s < ZC_COUNTERS_SITES; s++)
            assert_int_equal(by_site[i][s].losses, 0);
    block.rule = 2;
    end(LARGE, MIB);
    assert_int_equal(by_site[0][SITE].losses, 1);
}

static void small_blocks_are_rounded_while_few_bytes_are_loose(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        size_t size = ZC_LESSONS_MOST - (i & 1);
        loose = 64 * MIB - (i >> 1 & 1);
        asked = i >> 2;
        assert_int_equal(zc_lessons_may_round(size), !(i & 1) || (i & 2) || !(i & 4));
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_rule_of_the_preset_is_learned_about),
        TEST(large_blocks_of_the_rule_and_small_ones_of_none_are_concerned),
        TEST(blocks_that_are_libcs_are_tried_ever_more_rarely),
        TEST(a_block_is_worth_what_was_copied_of_it),
        TEST(two_losses_in_turn_leave_blocks_to_libc_until_one_pays),
        TEST(small_blocks_are_placed_once_one_has_paid),
        TEST(eight_decisions_of_a_call_path_are_told),
        TEST(nothing_is_learned_of_other_blocks),
        TEST(small_blocks_are_rounded_while_few_bytes_are_loose),
    };
    return RUN_TESTS(tests);
}
