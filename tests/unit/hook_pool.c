/* SPDX-License-Identifier: MIT */
/* Memory pools: the kinds of their memory, from their making to their end. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "hook/pool.h"

#define POOL(n) ((CUmemoryPool)(0x1000 * (uintptr_t)(n)))

/* Freed records keep their content: a list that still has one would find it. */
static unsigned live, held, spare;
static bool interrupted, full;
static char records[64][64];

static void *fake_get(size_t n)
{
    assert_true(n <= sizeof(records[0]));
    if (full)
        return NULL;
    live++;
    return records[spare++ % 64];
}

static void fake_put(void *p, size_t n)
{
    (void)n;
    live -= p != NULL;
}

/* Nobody is let in where a signal handler has interrupted the holder. */
static bool fake_take(struct zc_lock *lock)
{
    assert_true(lock->rank == ZC_RANK_POOL && held == 0);
    held += !interrupted;
    return !interrupted;
}

static void fake_drop(struct zc_lock *lock)
{
    (void)lock;
    assert_int_equal(held, 1);
    held--;
}

#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_lock_take fake_take
#define zc_lock_drop fake_drop
#include "../../shim/hook/pool.c"

static const CUmemLocation on_device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
static const CUmemLocation on_host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};
static const CUmemAllocationType pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
static const CUmemAllocationType managed = (CUmemAllocationType)(CU_MEM_ALLOCATION_TYPE_PINNED + 1);

static int anew(void **state)
{
    (void)state;
    pools = NULL;
    live = held = 0;
    interrupted = full = false;
    return 0;
}

static void a_pool_gives_the_memory_that_it_was_made_for(void **state)
{
    (void)state;
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    zc_pool_note(POOL(1), &on_device, pinned);
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    assert_int_equal(live, 0);
    zc_pool_note(POOL(2), &on_host, pinned);
    zc_pool_note(POOL(3), &on_device, managed);
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_PINNED);
    assert_int_equal(zc_pool_kind(POOL(3)), ZC_KIND_MANAGED);
    /* A handle may come again, for another pool. */
    zc_pool_note(POOL(2), &on_host, managed);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_MANAGED);
    zc_pool_forget(POOL(3));
    assert_int_equal(zc_pool_kind(POOL(3)), ZC_KIND_DEVICE);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_MANAGED);
    zc_pool_forget(POOL(3));
    zc_pool_forget(POOL(2));
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_DEVICE);
    assert_true(live == 0 && held == 0);
}

static void pools_that_come_and_go_take_no_more_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        zc_pool_note(POOL(1), &on_host, pinned);
        assert_int_equal(live, 1);
        if (i % 2)
            zc_pool_forget(POOL(1));
    }
    assert_int_equal(live, 0);
}

static void a_signal_handler_that_interrupted_a_look_changes_nothing(void **state)
{
    (void)state;
    zc_pool_note(POOL(1), &on_host, pinned);
    interrupted = true;
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE); /* It can't be known. */
    zc_pool_forget(POOL(1));
    zc_pool_note(POOL(2), &on_host, pinned);
    assert_int_equal(live, 1);
    interrupted = false;
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_PINNED);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_DEVICE);
    full = true; /* No memory for a record. */
    zc_pool_note(POOL(2), &on_host, pinned);
    assert_int_equal(zc_pool_kind(POOL(2)), ZC_KIND_DEVICE);
    assert_true(live == 1 && held == 0);
}

/* Most programs make none. */
static void without_a_pool_nothing_is_locked(void **state)
{
    (void)state;
    held = 1; /* As in a handler that must not even try. */
    assert_int_equal(zc_pool_kind(POOL(1)), ZC_KIND_DEVICE);
    zc_pool_forget(POOL(1));
    held = 0;
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pool_gives_the_memory_that_it_was_made_for),
        TEST(pools_that_come_and_go_take_no_more_memory),
        TEST(a_signal_handler_that_interrupted_a_look_changes_nothing),
        TEST(without_a_pool_nothing_is_locked),
    };
    return RUN_TESTS(tests);
}
