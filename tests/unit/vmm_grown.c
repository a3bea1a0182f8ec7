/* SPDX-License-Identifier: MIT */
/* Which copies and frees say that an array has grown. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/module.h"
#include "ledger/rules.h"
#include "vmm/grow.h"

#define MIB ((uint64_t)1 << 20)

static unsigned grown;

static void fake_grown(void)
{
    grown++;
}

#define zc_rules_grown fake_grown
#include "../../shim/vmm/grown.c"

static struct zc_block from, to;
static struct zc_copy copy;

static int anew(void **state)
{
    const struct zc_policy policy = {.needs = ZC_NEED_GROWN};
    (void)state;
    memset(copies, 0, sizeof(copies));
    next = 0;
    grown = 0;
    zc_module_grown.start(&policy);
    assert_true(zc_grown_asked);
    from = (struct zc_block){.base = 1 << 20, .size = 2 * MIB, .id = 5, .asked = ZC_KIND_DEVICE};
    to = (struct zc_block){.base = 1 << 30, .size = 4 * MIB, .id = 6, .asked = ZC_KIND_DEVICE};
    memset(&copy, 0, sizeof(copy));
    copy.shape = ZC_SHAPE_LINE;
    copy.bytes = MIB;
    copy.src.block = &from;
    copy.src.address = from.base;
    copy.dst.block = &to;
    copy.dst.address = to.base;
    return 0;
}

static bool counts(void)
{
    memset(copies, 0, sizeof(copies));
    zc_grown_asked = true;
    grown = 0;
    zc_grown_note(&copy);
    zc_grown_freed(&from);
    assert_int_equal(grown, !zc_grown_asked);
    assert_true(grown <= 1);
    return grown;
}

static void an_array_is_copied_into_a_larger_one_and_freed(void **state)
{
    (void)state;
    assert_true(counts());
    copy.bytes = MIB - 1;
    assert_false(counts());
    copy.bytes = 2 * MIB;
    copy.shape = ZC_SHAPE_SET;
    assert_false(counts());
    copy.shape = ZC_SHAPE_LINE;
    copy.src.address++;
    assert_false(counts());
    copy.src.address--;
    copy.dst.address++;
    assert_false(counts());
    copy.dst.address--;
    copy.src.block = NULL;
    assert_false(counts());
    copy.src.block = &from;
    copy.dst.block = NULL;
    assert_false(counts());
    copy.dst.block = &to;
    to.size = from.size;
    assert_false(counts());
    to.size++;
    assert_true(counts());
    from.size--;
    assert_false(counts()); /* Below the least that is worth it. */
}

static void arrays_are_plain_blocks_of_one_device(void **state)
{
    const unsigned flags[] = {ZC_BLOCK_STREAM, ZC_BLOCK_FOREIGN, ZC_BLOCK_QUARANTINED};
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct zc_block *b = i % 2 ? &from : &to;
        b->flags |= flags[i / 2];
        assert_false(counts());
        b->flags = 0;
        assert_true(counts());
    }
    from.flags = to.flags = ZC_BLOCK_CONVERTED;
    assert_true(counts());
    from.asked = ZC_KIND_PINNED;
    assert_false(counts());
    from.asked = ZC_KIND_DEVICE;
    to.asked = ZC_KIND_PINNED;
    assert_false(counts());
    to.asked = ZC_KIND_DEVICE;
    to.device = 1;
    assert_false(counts());
    from.device = 1;
    assert_true(counts());
}

static void the_larger_block_must_still_be_there(void **state)
{
    (void)state;
    zc_grown_note(&copy);
    zc_grown_freed(&to);
    zc_grown_freed(&from);
    assert_int_equal(grown, 0);
    zc_grown_note(&copy);
    from.id = 99; /* Another block. */
    zc_grown_freed(&from);
    assert_int_equal(grown, 0);
    from.id = 5;
    zc_grown_freed(&from);
    assert_int_equal(grown, 1);
    zc_grown_note(&copy);
    zc_grown_freed(&from);
    assert_int_equal(grown, 1); /* It is known, and nothing is asked any more. */
}

/* Eight at most, of which a block that is copied again and again has one place. */
static void the_last_copies_are_remembered(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        zc_grown_note(&copy);
    for (uint64_t id = 100; id < 107; id++) {
        from.id = id;
        zc_grown_note(&copy);
    }
    from.id = 5;
    zc_grown_freed(&from);
    assert_int_equal(grown, 1);
    anew(NULL);
    for (uint64_t id = 100; id < 109; id++) {
        from.id = id;
        zc_grown_note(&copy);
    }
    for (uint64_t id = 100; id < 109; id++) {
        from.id = id;
        zc_grown_asked = true;
        grown = 0;
        zc_grown_freed(&from);
        assert_int_equal(grown, id != 100);
    }
}

static void nothing_is_noted_of_a_policy_that_does_not_ask(void **state)
{
    const struct zc_policy policy = {.needs = (unsigned)~ZC_NEED_GROWN};
    (void)state;
    zc_module_grown.start(&policy);
    assert_false(zc_grown_asked);
    zc_grown_note(&copy);
    zc_grown_freed(&from);
    assert_int_equal(grown, 0);
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_array_is_copied_into_a_larger_one_and_freed),
        TEST(arrays_are_plain_blocks_of_one_device),
        TEST(the_larger_block_must_still_be_there),
        TEST(the_last_copies_are_remembered),
        TEST(nothing_is_noted_of_a_policy_that_does_not_ask),
    };
    return RUN_TESTS(tests);
}
