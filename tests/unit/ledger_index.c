/* SPDX-License-Identifier: MIT */
/* The index of blocks: finds what a sorted array would, in bounded memory. */
#include "ledger_test.h"

#include <stdlib.h>
#include <string.h>

#include "arena_mapped.h"
#include "ledger/index.h"

#define PLACES 4096u /* Places of the oracle, one of which is at most one block. */
#define PLACE 256u   /* Addresses of a place. */
#define OPERATIONS 1000000u
#define LIVE 10000u        /* Blocks of the tests of memory. */
#ifdef __SANITIZE_THREAD__ /* A pair takes thirty times as long. */
#define PAIRS 1000000u
#else
#define PAIRS 10000000u
#endif

static struct zc_block *oracle[PLACES]; /* The block in each place, or NULL. */

static uint64_t base_of(size_t place)
{
    return 0x7f0000000000ull + place * PLACE;
}

static void check_address(uint64_t address)
{
    struct zc_block *expected = oracle[(address - base_of(0)) / PLACE];

    if (expected != NULL &&
        (address < expected->base || address >= expected->base + expected->size))
        expected = NULL;
    assert_ptr_equal(zc_block_find(address), expected);
}

static void test_random_operations(void **state)
{
    uint64_t random = 42;

    (void)state;
    memset(oracle, 0, sizeof(oracle));
    for (unsigned i = 0; i < OPERATIONS; i++) {
        /* How many places are filled goes up and down, so that the tree grows and shrinks. */
        size_t places = PLACES >> (i / 100000 % 4);
        size_t place = ledger_draw(&random) % places;
        uint64_t offset = ledger_draw(&random) % (PLACE / 2);

        if (ledger_draw(&random) % 2 == 0) {
            check_address(base_of(place) + ledger_draw(&random) % PLACE);
        } else if (oracle[place] == NULL) {
            oracle[place] =
                ledger_add(base_of(place) + offset, 1 + ledger_draw(&random) % (PLACE - offset));
        } else {
            ledger_free(oracle[place]);
            oracle[place] = NULL;
        }
    }
    for (uint64_t address = base_of(0); address < base_of(PLACES); address++)
        check_address(address);
}

static void fill(const char *order)
{
    static uint64_t base[LIVE];
    uint64_t random = 7;

    for (size_t i = 0; i < LIVE; i++)
        base[i] = base_of(order[0] == 'd' ? LIVE - i : i + 1);
    for (size_t i = LIVE - 1; order[0] == 'r' && i > 0; i--) {
        size_t j = ledger_draw(&random) % (i + 1);
        uint64_t swap = base[i];

        base[i] = base[j];
        base[j] = swap;
    }
    for (size_t i = 0; i < LIVE; i++)
        ledger_add(base[i], PLACE);
    for (size_t i = 0; i < LIVE; i++)
        assert_int_equal(zc_block_find(base[i] + PLACE - 1)->base, base[i]);
}

/* Nodes on the longest way down. */
static unsigned depth(const struct zc_index_node *node)
{
    unsigned low, high;

    if (node == NULL)
        return 0;
    low = depth(node->side[0]);
    high = depth(node->side[1]);
    return 1 + (low > high ? low : high);
}

static void test_order(void **state)
{
    static const char *const orders[] = {"ascending", "descending", "random"};

    for (size_t i = 0; i < 3; i++) {
        unsigned deepest = 0;

        ledger_setup(state);
        fill(orders[i]);
        for (size_t j = 0; j < LIVE; j++) {
            unsigned here = depth(&zc_block_find(base_of(j + 1))->node);

            deepest = here > deepest ? here : deepest;
        }
        assert_in_range(deepest, 14, 50);
    }
}

static void test_no_growth(void **state)
{
    static struct zc_block *live[LIVE];
    uint64_t random = 3;

    (void)state;
    for (size_t j = 0; j < LIVE; j++)
        live[j] = ledger_add(base_of(j), PLACE);
    size_t settled = arena_mapped();
    for (unsigned i = 0; i < PAIRS; i++) {
        size_t j = ledger_draw(&random) % LIVE;

        ledger_free(live[j]);
        live[j] = ledger_add(base_of(j), PLACE);
    }
    assert_int_equal(arena_mapped(), settled);
}

static struct zc_index_node *overlap(uint64_t base, uint64_t end)
{
    struct zc_index_node node = {.base = base, .size = end - base}, *found;

    found = zc_index_insert(&node);
    if (found == NULL)
        assert_true(zc_index_remove(&node));
    return found;
}

static void test_next_and_overlap(void **state)
{
    struct zc_index_node *a, *b;

    (void)state;
    assert_null(zc_index_next(0));
    assert_null(overlap(0, UINT64_MAX));
    a = &ledger_add(1000, 100)->node;
    b = &ledger_add(2000, 100)->node;
    assert_ptr_equal(zc_index_next(0), a);
    assert_ptr_equal(zc_index_next(1000), a);
    assert_ptr_equal(zc_index_next(1001), b);
    assert_null(zc_index_next(2001));
    assert_null(overlap(1100, 2000));
    assert_ptr_equal(overlap(1099, 2000), a);
    assert_ptr_equal(overlap(1100, 2001), b);
    assert_ptr_equal(overlap(0, UINT64_MAX), a);
    assert_false(zc_index_remove(&(struct zc_index_node){.base = 1000, .size = 100}));
}

static void test_next_of_many(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIVE; i++)
        ledger_add(base_of(i), PLACE);
    for (size_t i = 1; i < LIVE; i++)
        assert_int_equal(zc_index_next(base_of(i - 1) + 1)->base, base_of(i));
    assert_null(zc_index_next(base_of(LIVE - 1) + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"the index finds what a sorted array finds", test_random_operations, ledger_setup, NULL,
         NULL},
        {"blocks are found in few steps in whatever order they came", test_order, ledger_setup,
         NULL, NULL},
        {"millions of additions and removals take no more memory", test_no_growth, ledger_setup,
         NULL, NULL},
        {"the next and the overlapping entry are found", test_next_and_overlap, ledger_setup, NULL,
         NULL},
        {"the next entry is found among many", test_next_of_many, ledger_setup, NULL, NULL},
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
