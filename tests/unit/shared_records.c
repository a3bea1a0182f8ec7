/* SPDX-License-Identifier: MIT */
/* The records of shared blocks: their list and locks, and the end of a host block. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/arena.h"
#include "base/lock.h"
#include "host/extent.h"
#include "vmm/vmm.h"

static struct {
    bool no_memory, owns;
    unsigned gets;
    uint32_t era;
    struct zc_extent *extent;
    struct zc_vmm *vmm;
} has;

static void *fake_get(size_t bytes)
{
    has.gets += !has.no_memory;
    return has.no_memory ? NULL : zc_arena_get(bytes);
}

static struct zc_extent *fake_extent(uint64_t address)
{
    assert_int_equal(address, 0x5000);
    return has.extent;
}

#define zc_arena_get fake_get
#define zc_extent_era has.era
#define zc_vmm_of(block) ((void)(block), has.vmm)
#define zc_hostheap_owns(address) has.owns
#define zc_hostheap_extent fake_extent
#include "../../shim/shared/pair.c"

static struct zc_rule rule;
static struct zc_vmm vmm;
static struct zc_extent pages;

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    memset(&pairs, 0, sizeof(pairs));
    memset(&pages, 0, sizeof(pages));
    has.era = 6;
    return 0;
}

static bool is_marked(const struct zc_shared *p)
{
    assert_true(zc_lock_held());
    return p->names.host_block == 5;
}

static void count(struct zc_shared *p, void *arg)
{
    assert_true(p && zc_lock_held());
    ++*(unsigned *)arg;
}

static unsigned living(void)
{
    unsigned n = 0;
    zc_shared_each(count, &n);
    assert_false(zc_lock_held());
    return n;
}

static void a_record_says_whose_it_is(void **state)
{
    (void)state;
    struct zc_shared *p = zc_shared_new(&rule);
    assert_true(p && p->rule == &rule && p->era == 6);
    assert_string_equal(p->names.why, "no host block of place 'shared' was copied into it first");
    assert_true(!p->one && !p->extent && !p->undecided && living() == 1);
    has.no_memory = true;
    assert_null(zc_shared_new(&rule));
    assert_int_equal(living(), 1);
}

static void ended_records_are_used_again_with_their_lock(void **state)
{
    (void)state;
    struct zc_shared *a = zc_shared_new(&rule), *b = zc_shared_new(&rule);
    a->owner = 77; /* A thread that comes late gives it back. */
    a->names.host_block = 9;
    a->one = true;
    zc_shared_end(a);
    zc_shared_end(b);
    assert_int_equal(living(), 0);
    assert_ptr_equal(zc_shared_new(&rule), b);
    has.no_memory = true;
    assert_ptr_equal(zc_shared_new(&rule), a);
    assert_true(a->owner == 77 && a->names.host_block == 0 && !a->one);
    assert_true(living() == 2 && has.gets == 2);
    assert_null(zc_shared_new(&rule));
    a->owner = 0;
}

static void a_record_is_found_by_what_it_is(void **state)
{
    (void)state;
    assert_null(zc_shared_find(is_marked));
    struct zc_shared *a = zc_shared_new(&rule), *b = zc_shared_new(&rule);
    assert_null(zc_shared_find(is_marked));
    a->names.host_block = 5;
    assert_ptr_equal(zc_shared_find(is_marked), a);
    b->names.host_block = 5;
    assert_ptr_equal(zc_shared_find(is_marked), b);
    assert_false(zc_lock_held());
}

static void a_handler_that_interrupts_the_list_changes_nothing(void **state)
{
    unsigned n = 0;
    (void)state;
    struct zc_shared *a = zc_shared_new(&rule);
    a->names.host_block = 5;
    assert_true(zc_lock_take(&list));
    assert_null(zc_shared_new(&rule));
    zc_shared_end(a);
    zc_shared_each(count, &n);
    assert_null(zc_shared_find(is_marked));
    assert_true(zc_lock_held() && n == 0);
    zc_lock_drop(&list);
    assert_int_equal(living(), 1);
}

static void a_pair_is_locked_only_with_its_own_host_block(void **state)
{
    static struct zc_extent other;
    (void)state;
    struct zc_shared *p = zc_shared_new(&rule);
    assert_false(zc_shared_lock_host(NULL, &pages));
    for (unsigned i = 0; i < 5; i++) {
        p->one = i != 1;
        p->extent = i == 2 ? &other : i == 4 ? NULL : &pages;
        p->era = i == 3 ? 5 : 6;
        assert_int_equal(zc_shared_lock_host(p, i == 4 ? NULL : &pages), i == 0);
        assert_int_equal(p->owner != 0, i == 0);
        if (i == 0)
            zc_word_unlock(&p->owner);
    }
}

static void a_host_block_that_goes_leaves_its_pages_to_the_device_block(void **state)
{
    (void)state;
    struct zc_shared *p = zc_shared_new(&rule);
    pages.pin = ZC_PIN_SHARED;
    zc_shared_host_gone(&pages); /* It is one with none. */
    assert_true(pages.pin == ZC_PIN_SHARED && !pages.no_reuse);
    pages.shared = p;
    zc_shared_host_gone(&pages);
    assert_true(pages.shared == p && pages.pin == ZC_PIN_SHARED && !pages.no_reuse && !p->owner);
    p->one = true;
    p->extent = &pages;
    zc_shared_host_gone(&pages);
    assert_true(!pages.shared && pages.pin == ZC_PIN_NONE && pages.no_reuse);
    assert_true(!p->extent && p->one && !p->owner);
}

static void blocks_and_addresses_lead_to_their_record(void **state)
{
    struct zc_block block = {.place = ZC_PLACE_SHARED};
    (void)state;
    struct zc_shared *p = zc_shared_new(&rule);
    vmm.pair = p;
    assert_null(zc_shared_of(&block));
    has.vmm = &vmm;
    assert_ptr_equal(zc_shared_of(&block), p);
    block.place = ZC_PLACE_VMM;
    assert_null(zc_shared_of(&block));
    assert_null(zc_shared_of(NULL));
    pages.shared = p;
    has.extent = &pages;
    assert_null(zc_shared_at(0x5000));
    has.owns = true;
    assert_ptr_equal(zc_shared_at(0x5000), p);
    has.extent = NULL;
    assert_null(zc_shared_at(0x5000));
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_says_whose_it_is),
        TEST(ended_records_are_used_again_with_their_lock),
        TEST(a_record_is_found_by_what_it_is),
        TEST(a_handler_that_interrupts_the_list_changes_nothing),
        TEST(a_pair_is_locked_only_with_its_own_host_block),
        TEST(a_host_block_that_goes_leaves_its_pages_to_the_device_block),
        TEST(blocks_and_addresses_lead_to_their_record),
    };
    return RUN_TESTS(tests);
}
