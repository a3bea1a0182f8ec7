/* SPDX-License-Identifier: MIT */
/* Blocks: found by any address inside them, claimed once, replaced by newer ones. */
#include "ledger_test.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "policy/policy.h"

#define RACERS 16
#define ROUNDS 2000

static void test_boundaries(void **state)
{
    struct zc_block *block = ledger_add(0x1000, 0x100), *top;

    (void)state;
    assert_null(zc_block_find(0xfff));
    assert_ptr_equal(zc_block_find(0x1000), block);
    assert_ptr_equal(zc_block_find(0x10ff), block);
    assert_null(zc_block_find(0x1100));
    assert_null(zc_block_find(0));
    top = ledger_add(UINT64_MAX - 16, 100);
    assert_ptr_equal(zc_block_find(UINT64_MAX - 1), top);
    ledger_free(block);
    assert_null(zc_block_find(0x1000));
}

static void test_replaces(void **state)
{
    struct zc_block *first = ledger_add(0x1000, 0x100), *newer;
    struct zc_block_gauge gauge;

    (void)state;
    ledger_add(0x1100, 0x100);
    ledger_add(0x1300, 0x100);
    newer = ledger_add(0x10ff, 0x200);
    assert_null(zc_block_find(0x1000));
    assert_ptr_equal(zc_block_find(0x1100), newer);
    assert_ptr_not_equal(zc_block_find(0x1300), newer);
    assert_false(zc_block_claim(first));
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, 2);
    assert_int_equal(gauge.bytes, 0x300);
}

/* The driver may give an address out again before the thread that freed it has told the ledger. */
static void test_replaces_claimed(void **state)
{
    struct zc_block *old = ledger_add(0x1000, 0x100), *newer;
    struct zc_block_gauge gauge;

    (void)state;
    assert_true(zc_block_claim(old));
    newer = ledger_add(0x1000, 0x100);
    zc_block_remove(old);
    assert_ptr_equal(zc_block_find(0x1000), newer);
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, 1);
}

static void test_unclaim(void **state)
{
    struct zc_block *block = ledger_add(0x1000, 0x100);

    (void)state;
    assert_true(zc_block_claim(block));
    assert_false(zc_block_claim(block));
    zc_block_unclaim(block);
    assert_true(zc_block_claim(block));
}

/* A thread that still holds the pointer of a freed block must not claim the block made next. */
static void test_stale_claim(void **state)
{
    struct zc_block *stale = ledger_add(0x1000, 0x100);

    (void)state;
    ledger_free(stale);
    for (int i = 0; i < 32; i++) {
        struct zc_block *block = ledger_add(0x1000, 0x100);

        assert_false(zc_block_claim(stale));
        ledger_free(block);
    }
}

static void collect(struct zc_block *block, void *arg)
{
    uint64_t **next = arg;

    *(*next)++ = block->base;
}

static void test_each(void **state)
{
    uint64_t seen[300], *next = seen;

    (void)state;
    for (uint64_t i = 0; i < 300; i++)
        ledger_add((i * 7 % 300 + 1) * 0x1000, 0x10);
    zc_block_each(collect, &next);
    assert_int_equal(next - seen, 300);
    for (uint64_t i = 0; i < 300; i++)
        assert_int_equal(seen[i], (i + 1) * 0x1000);
}

static void test_gauges(void **state)
{
    const struct zc_block like = {.base = 0x1000, .size = 300, .place = 2};
    struct zc_block *a = zc_block_add(&like), *b;
    struct zc_block_gauge gauge;

    (void)state;
    assert_non_null(a);
    b = ledger_add(0x2000, 50);
    assert_int_equal(a->id, 1);
    assert_int_equal(b->id, 2);
    ledger_free(a);
    gauge = zc_counters()->place[2];
    assert_int_equal(gauge.blocks, 0);
    assert_int_equal(gauge.bytes, 0);
    assert_int_equal(gauge.peak_bytes, 300);
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.bytes, 50);
}

static void test_quarantined(void **state)
{
    struct zc_block *a = ledger_add(0x1000, 100);
    struct zc_block_gauge gauge;

    (void)state;
    assert_true(zc_block_claim(a));
    zc_block_quarantine(a);
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, 0);
    assert_int_equal(gauge.bytes, 0);
    assert_ptr_equal(zc_block_find(0x1010), a);
    zc_block_remove(a);
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, 0);
    assert_null(zc_block_find(0x1010));
}

/* The pages that a place gives beside a block are its own from that of the last byte on. */
static void test_margin(void **state)
{
    const uint64_t base = 16 * ZC_BLOCK_PAGE, end = base + ZC_BLOCK_PAGE + 1;
    const struct zc_block like = {.base = base, .size = end - base, .before = 1, .behind = 2};

    (void)state;
    assert_non_null(zc_block_add(&like));
    assert_false(zc_block_in_margin(base));
    assert_false(zc_block_in_margin(end - 1));
    assert_true(zc_block_in_margin(end));
    assert_true(zc_block_in_margin(base + 3 * ZC_BLOCK_PAGE - 1));
    assert_false(zc_block_in_margin(base + 3 * ZC_BLOCK_PAGE));
    assert_true(zc_block_in_margin(base - ZC_BLOCK_PAGE));
    assert_false(zc_block_in_margin(base - ZC_BLOCK_PAGE - 1));
}

/* Its beginning is its place's, and its end host memory. */
static void test_split(void **state)
{
    const uint64_t base = 16 * ZC_BLOCK_UNIT, border = base + 3 * ZC_BLOCK_UNIT;
    const struct zc_block_gauge *front = &zc_counters()->place[ZC_PLACE_VMM];
    const struct zc_block_gauge *end = &zc_counters()->place[ZC_PLACE_MAPPED];
    struct zc_block like = {.base = base,
                            .size = 4 * ZC_BLOCK_UNIT - 5,
                            .place = ZC_PLACE_VMM,
                            .flags = ZC_BLOCK_SPILLED,
                            .behind = 3 << ZC_BLOCK_BEHIND_BITS | 2};
    (void)state;
    struct zc_block *block = zc_block_add(&like);
    assert_int_equal(zc_block_spilled(block), ZC_BLOCK_UNIT - 5);
    assert_int_equal(zc_block_border(block, base), border);
    assert_int_equal(zc_block_border(block, border - 1), border);
    assert_int_equal(zc_block_border(block, border), 0);
    assert_true(zc_block_in_margin(base + like.size) &&
                zc_block_in_margin(base + like.size + ZC_BLOCK_PAGE + 4));
    assert_false(zc_block_in_margin(base + like.size + ZC_BLOCK_PAGE + 5));
    assert_true(front->blocks == 1 && front->bytes == 3 * ZC_BLOCK_UNIT);
    assert_true(end->blocks == 0 && end->bytes == ZC_BLOCK_UNIT - 5);
    assert_true(zc_block_claim(block));
    zc_block_remove(block);
    assert_true(front->blocks == 0 && front->bytes == 0 && end->bytes == 0);
    assert_true(front->peak_bytes == 3 * ZC_BLOCK_UNIT && end->peak_bytes == ZC_BLOCK_UNIT - 5);
    like.behind = 2;
    block = zc_block_add(&like);
    assert_true(zc_block_spilled(block) == like.size && !zc_block_border(block, base));
    assert_true(front->bytes == 0 && end->bytes == like.size);
}

static void test_reset(void **state)
{
    (void)state;
    ledger_add(0x1000, 0x100);
    zc_own_forget();
    zc_counters_reset();
    zc_arena_reset();
    assert_null(zc_block_find(0x1000));
    assert_int_equal(ledger_add(0x1000, 0x100)->id, 1);
}

/* Forked children empty the ledger in a thread that has looked up the parent's blocks. */
static void test_reset_forgets_what_was_seen(void **state)
{
    const uint64_t page = ZC_BLOCK_PAGE;
    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        struct zc_block *block = ledger_add(i * page, 0x100);
        assert_ptr_equal(zc_block_find(i * page), block);
        assert_null(zc_block_find(4 * page));
        zc_own_forget();
        zc_counters_reset();
        zc_arena_reset();
        block = ledger_add(4 * page, 0x100);
        assert_null(zc_block_find(i * page));
        assert_ptr_equal(zc_block_find(4 * page), block);
        zc_own_forget();
        zc_counters_reset();
        zc_arena_reset();
    }
}

/* Look-ups remember what is there, and what is not. */
static void test_seen(void **state)
{
    struct zc_block *block[40];
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 40; i++)
            block[i] = ledger_add(0x100000 + i * 0x3000, 0x2000);
        for (unsigned i = 0; i < 200; i++) {
            unsigned one = i * 7 % 40;
            uint64_t base = block[one]->base;
            assert_ptr_equal(zc_block_find(base + 0x1fff), block[one]);
            assert_null(zc_block_find(base + 0x2000));
            assert_null(zc_block_find(base + 0x2fff));
            assert_ptr_equal(zc_block_find(base), block[one]);
        }
        for (unsigned i = 0; i < 40; i++) {
            ledger_free(block[i]);
            assert_null(zc_block_find(0x100000 + i * 0x3000));
        }
    }
}

static pthread_barrier_t barrier;
static struct zc_block *contested;
static unsigned winners;

static void *race(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        if (zc_block_claim(contested))
            __atomic_fetch_add(&winners, 1, __ATOMIC_RELAXED);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            zc_block_unclaim(contested);
    }
    return NULL;
}

static void test_claim_race(void **state)
{
    pthread_t thread[RACERS];

    (void)state;
    winners = 0;
    contested = ledger_add(0x1000, 0x100);
    pthread_barrier_init(&barrier, NULL, RACERS);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, race, NULL), 0);
    for (int i = 0; i < RACERS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(winners, ROUNDS);
}

static volatile sig_atomic_t in_handler_added, in_handler_missed;

/* A hooked call inside a signal handler: a request, a transfer, a free. */
static void on_signal(int number)
{
    const struct zc_block like = {.base = 0xabc000, .size = 0x100};
    struct zc_block *block = zc_block_add(&like);

    (void)number;
    if (block == NULL) {
        in_handler_missed++;
        return;
    }
    in_handler_added++;
    if (zc_block_claim(block))
        zc_block_remove(block);
}

static void test_signal_storm(void **state)
{
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct zc_block *live[64] = {NULL};
    struct zc_block_gauge gauge;
    uint64_t random = 11, held = 0;

    (void)state;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 2000000; i++) {
        size_t j = ledger_draw(&random) % 64;

        if (live[j] == NULL) {
            live[j] = ledger_add((j + 1) * 0x1000, 0x100);
        } else {
            assert_ptr_equal(zc_block_find(live[j]->base + 5), live[j]);
            ledger_free(live[j]);
            live[j] = NULL;
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    ledger_free(ledger_add(0xdef000, 1));
    for (size_t j = 0; j < 64; j++)
        held += live[j] != NULL;
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, held);
    assert_int_equal(gauge.bytes, held * 0x100);
    assert_null(zc_block_find(0xabc000));
    assert_int_equal(zc_block_untracked(), in_handler_missed);
    assert_true(in_handler_added > 0);
}

/* The handler runs while the ledger's lock is held. */
static void interrupt(struct zc_block *block, void *arg)
{
    (void)arg;
    (void)block;
    assert_ptr_equal(zc_block_find(block->base), block);
    raise(SIGUSR1);
}

static void free_contested(int number)
{
    (void)number;
#ifndef __SANITIZE_THREAD__ /* Its runtime calls handlers, by frames that can be read. */
    assert_int_equal(zc_site_here(__builtin_frame_address(0), __builtin_return_address(0)), 0);
#endif
    assert_true(zc_block_claim(contested));
    zc_block_remove(contested);
}

static void test_remove_in_handler(void **state)
{
    struct zc_block_gauge gauge;

    (void)state;
    signal(SIGUSR1, free_contested);
    contested = ledger_add(0x1000, 0x100);
    zc_block_each(interrupt, NULL);
    assert_ptr_equal(zc_block_find(0x1000), contested);
    assert_false(zc_block_claim(contested));
    struct zc_block *newer = ledger_add(0x1080, 1);
    assert_ptr_equal(zc_block_find(0x1080), newer);
    assert_null(zc_block_find(0x1000));
    gauge = zc_counters()->place[0];
    assert_int_equal(gauge.blocks, 1);
}

static int64_t noted_bytes;
static int noted_device;

static void note_device(int device, int64_t bytes)
{
    noted_device = device;
    noted_bytes += bytes;
}

static void test_spilled(void **state)
{
    struct zc_block like = {.base = 0x1000, .size = 0x100, .place = ZC_PLACE_VMM}, *block;
    struct zc_block large = {.base = 0x1000, .size = 9 * ZC_BLOCK_UNIT, .behind = 77};
    const struct zc_block_gauge *vmm = &zc_counters()->place[ZC_PLACE_VMM];
    const struct zc_block_gauge *mapped = &zc_counters()->place[ZC_PLACE_MAPPED];

    (void)state;
    block = zc_block_add(&like);
    zc_block_spill(block, 0x100);
    assert_true(zc_block_spilled(block) == 0x100 && block->real == ZC_KIND_PINNED);
    assert_true(vmm->blocks == 1 && vmm->bytes == 0 && mapped->blocks == 0);
    assert_int_equal(mapped->bytes, 0x100);
    zc_block_spill(block, 0);
    assert_true(zc_block_spilled(block) == 0 && block->real == ZC_KIND_DEVICE);
    assert_true(vmm->blocks == 1 && vmm->bytes == 0x100 && mapped->bytes == 0);
    assert_int_equal(mapped->peak_bytes, 0x100);
    ledger_free(block);
    assert_true(vmm->blocks == 0 && vmm->bytes == 0 && vmm->peak_bytes == 0x100);
    block = zc_block_add(&large);
    for (unsigned front = 8; front > 0; front -= 2) {
        zc_block_spill(block, (9 - front) * ZC_BLOCK_UNIT);
        assert_int_equal(zc_block_spilled(block), (9 - front) * ZC_BLOCK_UNIT);
        assert_int_equal(mapped->bytes, (9 - front) * ZC_BLOCK_UNIT);
        assert_true(block->real == ZC_KIND_DEVICE && (block->behind & ZC_BLOCK_BEHIND) == 77);
    }
    zc_block_spill(block, 9 * ZC_BLOCK_UNIT);
    assert_true(zc_block_spilled(block) == block->size && block->real == ZC_KIND_PINNED);
    ledger_free(block);
}

static void test_on_device(void **state)
{
    struct zc_block like = {.base = 0x1000, .size = 0x100, .place = ZC_PLACE_DEVICE, .device = 2};
    struct zc_block *block;

    (void)state;
    noted_bytes = noted_device = 0;
    __atomic_store_n(&zc_block_on_device, note_device, __ATOMIC_RELEASE);
    block = zc_block_add(&like);
    assert_true(noted_device == 2 && noted_bytes == 0x100);
    like.base = 0x9000;
    like.place = ZC_PLACE_MAPPED;
    assert_non_null(zc_block_add(&like));
    assert_int_equal(noted_bytes, 0x100);
    ledger_free(block);
    assert_int_equal(noted_bytes, 0);
}

/* A late thread may hold the pointer of a removed block until 64 more were removed. */
static void test_rests(void **state)
{
    struct zc_block *block[65];

    (void)state;
    for (uint64_t i = 0; i < 65; i++)
        block[i] = ledger_add((i + 1) * 64, 64);
    for (unsigned i = 0; i < 64; i++)
        ledger_free(block[i]);
    for (unsigned i = 0; i < 3; i++) {
        struct zc_block *fresh = ledger_add(0x100000 + 64 * i, 64);
        for (unsigned j = 0; j < 64; j++)
            assert_ptr_not_equal(fresh, block[j]);
    }
    ledger_free(block[64]);
    assert_ptr_equal(ledger_add(0x200000, 64), block[0]);
    assert_ptr_not_equal(ledger_add(0x300000, 64), block[1]);
}

static void test_replaced_traffic(void **state)
{
    const struct zc_block like = {.base = 0x1000, .size = 16, .site = 3};
    const struct zc_transfer t = {.outcome = ZC_MOVED, .bytes = 7, .copies = 1};
    struct zc_block *old = zc_block_add(&like);

    (void)state;
    zc_cell_count(old->cell, 3, (uint32_t)old->id, ZC_DIR_HTOD, &t, 0);
    assert_int_equal(zc_counters()->site[3].total[ZC_DIR_HTOD].by[ZC_MOVED].bytes, 0);
    ledger_add(0x1008, 16);
    assert_int_equal(zc_counters()->site[3].total[ZC_DIR_HTOD].by[ZC_MOVED].bytes, 7);
}

static void test_padded(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        const struct zc_block like = {
            .base = 0x10000, .size = 16, .before = i == 1, .behind = i == 2};

        assert_int_equal(ledger_setup(NULL), 0);
        assert_non_null(zc_block_add(&like));
        assert_int_equal(zc_block_padded, i > 0);
    }
}

#define TEST(name, function)                                                                       \
    {                                                                                              \
        name, function, ledger_setup, NULL, NULL                                                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST("a block is found by its first and last address and no other", test_boundaries),
        TEST("a newer block replaces those it overlaps", test_replaces),
        TEST("a block being freed may be replaced and is removed once", test_replaces_claimed),
        TEST("a claim can be given back", test_unclaim),
        TEST("a freed block can't be claimed by a late thread", test_stale_claim),
        TEST("blocks are visited in address order", test_each),
        TEST("gauges follow blocks by place", test_gauges),
        TEST("a block in host memory counts there", test_spilled),
        TEST("a change of what a device holds is told", test_on_device),
        TEST("a removed block rests until many more were removed", test_rests),
        TEST("the traffic of a replaced block counts at its site", test_replaced_traffic),
        TEST("margins are looked for once there is one", test_padded),
        TEST("a quarantined block is found, and counts no more", test_quarantined),
        TEST("what lies beside a block is told by its pages", test_margin),
        TEST("a block in two memories counts and ends in both", test_split),
        TEST("a reset ledger is empty and counts from one", test_reset),
        TEST("what a thread saw before a reset never holds again",
             test_reset_forgets_what_was_seen),
        TEST("a look-up finds the same as the one before it", test_seen),
        TEST("of sixteen threads that claim a block exactly one gets it", test_claim_race),
        TEST("signal handlers may use the ledger at any time", test_signal_storm),
        TEST("a block that a handler removes stays claimed until it is replaced",
             test_remove_in_handler),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
