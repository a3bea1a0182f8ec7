/* SPDX-License-Identifier: MIT */
/* Blocks that move: times of kernels, the order of their uses, the search for one that leaves, and
 * how long a launch waits for that. */
#include "place_migrate_test.h"

static void times_of_kernels_are_found_in_one_of_eight_places(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct zc_rate *r = rate_entry((UINT64_C(252) + 256 * i) << 4);
        assert_ptr_equal(r, &known.rates[(252 + i) % 256]);
        r->time = i + 1;
    }
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(rate_entry((UINT64_C(252) + 256 * i) << 4)->time, i + 1);
    uint64_t ninth = (UINT64_C(252) + 256 * 8) << 4;
    assert_ptr_equal(rate_entry(ninth), &known.rates[252]);
    assert_true(known.rates[252].time == 0 && known.rates[252].kernel == ninth);
    assert_int_equal(zc_rate_of((UINT64_C(252) + 256 * 3) << 4).time, 4);
    has.locked_out = true;
    assert_int_equal(zc_rate_of((UINT64_C(252) + 256 * 3) << 4).time, 0);
    assert_int_equal(zc_rate_of(77).kernel, 77);
    says("");
}

static void a_kernel_loses_what_it_takes_longer_with_bytes_in_host_memory(void **state)
{
    struct zc_rate r = {.bytes = 100, .time = 50, .all = 200, .spilled = 40, .time_of_them = 300};
    (void)state;
    assert_int_equal(zc_rate_loss(&r, 10), 50);
    r.time_of_them = 100;
    assert_int_equal(zc_rate_loss(&r, 10), 0);
    r.time_of_them = 99;
    assert_int_equal(zc_rate_loss(&r, 10), 0);
    assert_int_equal(zc_rate_scaled(7, 3, 0), 0);
    assert_int_equal(zc_rate_scaled(7, 6, 2), 21);
}

static void launches_add_up_to_the_time_that_the_gpu_is_busy(void **state)
{
    const uint64_t now = 1000000;
    struct zc_rated n = {.device = 3, .kernel = 0x100, .bytes = 200, .spilled = 0};
    (void)state;
    assert_int_equal(zc_rate_busy_ms(3), 0);
    zc_rate_launched(&n, 3);
    zc_rate_launched(&n, 4);
    assert_true(zc_rate_of(0x100).spent == 7 && zc_rate_of(0x100).blind == 400);
    assert_int_equal(known.idle_at[3], now);
    zc_rate_timed(&n, 50); /* Two launches of which nobody knew the time. */
    assert_int_equal(known.idle_at[3], now + 100);
    assert_true(zc_rate_of(0x100).blind == 0 && zc_rate_of(0x100).time == 50);
    assert_int_equal(zc_rate_of(0x100).bytes, 200);
    n.bytes = 400;
    zc_rate_launched(&n, 0);
    assert_int_equal(known.idle_at[3], now + 200);
    assert_int_equal(zc_rate_of(0x100).blind, 0);
    n.spilled = 100;
    zc_rate_timed(&n, 700);
    assert_true(zc_rate_of(0x100).all == 400 && zc_rate_of(0x100).spilled == 100);
    assert_true(zc_rate_of(0x100).time_of_them == 700 && zc_rate_of(0x100).time == 50);
    n.spilled = 50;
    zc_rate_launched(&n, 0);
    assert_int_equal(known.idle_at[3], now + 200 + 100 + 300);
    n.spilled = 0;
    zc_rate_timed(&n, 0);
    assert_int_equal(zc_rate_of(0x100).time, 1);
    has.now += 400 * 1000;
    assert_int_equal(busy_us(3, clock_us()), 200);
    known.idle_at[3] = clock_us() + 7000999;
    assert_int_equal(zc_rate_busy_ms(3), 7000);
    known.idle_at[3] = clock_us() + 60001000;
    assert_int_equal(zc_rate_busy_ms(3), 60000);
    has.locked_out = true;
    zc_rate_launched(&n, 9);
    zc_rate_timed(&n, 9);
    has.locked_out = false;
    assert_true(zc_rate_of(0x100).spent == 7 && zc_rate_of(0x100).time == 1);
    assert_false(untimed(&n.kernel));
    n.kernel = 0x200;
    assert_true(untimed(&n.kernel));
    says("");
}

static void use(const char *names)
{
    for (; *names; names++)
        zc_order_note(&third.order, &blocks[*names - 'A']);
}

static void an_order_of_uses_that_comes_again_is_known(void **state)
{
    (void)state;
    use("ABC");
    assert_true(third.order.as == 0 && third.order.sure == 0 && third.order.count == 3);
    assert_int_equal(zc_order_due(&third.order, &blocks[0]),
                     UINT32_MAX - 2); /* The last used is due last. */
    assert_int_equal(zc_order_due(&third.order, &blocks[2]), UINT32_MAX);
    use("A");
    assert_true(third.order.as == 1 && third.order.sure == 1);
    use("B");
    assert_true(third.order.as == 2 && third.order.sure == 2);
    assert_int_equal(zc_order_due(&third.order, &blocks[2]), 1);
    assert_int_equal(zc_order_due(&third.order, &blocks[0]), 2);
    assert_int_equal(zc_order_due(&third.order, &blocks[1]), 3);
    assert_int_equal(zc_order_due(&third.order, &blocks[3]), 5); /* It has no turn. */
    use("C");
    assert_int_equal(zc_order_due(&third.order, &blocks[2]), 3);
    assert_int_equal(zc_order_due(&third.order, &blocks[0]), 1);
    assert_int_equal(mov[0].last, 4);
    use("D"); /* A new one: no order before is like this. */
    assert_true(third.order.as == 3 && third.order.sure == 0);
    use("ABCD");
    assert_true(third.order.as == 7 && third.order.sure == 4);
    use("B"); /* As behind the use that most before it are like. */
    assert_true(third.order.as == 9 && third.order.sure == 1);
    anew(NULL);
    use("ABCDBCEABCDB");
    assert_true(third.order.as == 5 && third.order.sure == 5);
    use("CFBC");
    assert_true(third.order.as == 13 && third.order.sure == 2);
}

static void no_more_uses_are_compared_than_are_remembered(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        third.order.count = ZC_ORDER - ALIKE + 5; /* Of these the first six are too old. */
        third.order.used[6 + i] = AT(0);
        third.order.as = i == 2 ? 0 : 6 + i - 1;
        if (i < 2)
            third.order.as = 0;
        use("A");
        assert_int_equal(third.order.as, i == 0 ? 0 : 6 + i);
    }
    for (unsigned i = 0; i < 2; i++) {
        anew(NULL);
        third.order.count = ZC_ORDER - ALIKE + 5;
        third.order.used[7 + i] = AT(0);
        third.order.as = 6 + i; /* It goes on where it may still be compared. */
        third.order.sure = 40;
        use("A");
        assert_true(third.order.as == 7 + i && third.order.sure == (i ? 41 : 7));
    }
    anew(NULL);
    third.order.count = 40;
    for (unsigned i = 1; i <= 40; i++)
        third.order.used[i] = 5;
    assert_int_equal(alike(&third.order, 30), 16);
    assert_int_equal(alike(&third.order, 3), 3);
}

static void a_block_moves_that_is_libzcs_alone(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 14; i++) {
        anew(NULL);
        third.elsewhere = i == 0;
        blocks[0].flags = i == 1 ? ZC_BLOCK_QUARANTINED : i == 2 ? ZC_BLOCK_EXPORTED : 0;
        mov[0].vmm.lazy = i == 3 || i == 8;
        mov[0].vmm.rule = &rules[i == 8];
        mov[0].stays = i == 4;
        blocks[0].state = i == 5 ? ZC_BLOCK_FREEING : ZC_BLOCK_LIVE;
        mov[0].vmm.va.context = i == 6 ? NULL : HOME;
        mov[0].vmm.va.devices = i == 7 || i == 10 ? 3 << 3 : 1 << 3;
        mov[0].far = i > 10 ? 5 : 0;
        third.ended = i == 12 ? 5 : 4;
        third.rest = i == 10 || i == 13;
        assert_int_equal(may_move(&blocks[0], &mov[0].vmm), i > 7 && i != 11);
    }
}

/* Uses 1 to 5 were those of blocks 0 to 4; the last used is due last. */
static void sweep(void)
{
    use("ABCDE");
    third.begun = 5;
}

static void a_block_that_is_due_last_leaves(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 11; i++) {
        anew(NULL);
        sweep();
        blocks[4].place = i == 0 ? ZC_PLACE_MAPPED : ZC_PLACE_VMM;
        mov[4].vmm.moves = i != 1;
        blocks[4].rule = i == 2;
        blocks[4].flags = i == 3 ? ZC_BLOCK_SPILLED : 0;
        mov[4].stays = i == 4;
        third.begun = i == 5 ? 4 : 5;
        mov[4].last = i == 6 ? 0 : 5;
        struct search s = leaver(&blocks[5], i == 7 ? UINT32_MAX : 0);
        assert_ptr_equal(s.farthest, i < 7 ? &blocks[3] : &blocks[4]);
        assert_ptr_equal(s.second, i < 7 ? &blocks[2] : i == 7 ? NULL : &blocks[3]);
        assert_int_equal(s.bytes, (i < 7 ? 4 : i == 7 ? 1 : 5) * MIB);
    }
    for (unsigned i = 0; i < 3; i++) {
        anew(NULL);
        sweep();
        /* 15 times as dear, but after 15 cheap ones for each that is. */
        mov[1].vmm.va.reads = i != 0;
        third.dear = 3;
        third.cheap = i == 1 ? 45 : 44;
        struct search s = leaver(&blocks[5], 0);
        assert_ptr_equal(s.farthest, &blocks[i == 2 ? 1 : 4]);
        assert_ptr_equal(s.second, &blocks[i == 2 ? 4 : 3]);
        assert_int_equal(s.dear, i ? 4 : 5);
    }
    anew(NULL);
    use("EDCBA");
    third.begun = 5;
    assert_ptr_equal(leaver(&blocks[5], 0).farthest, &blocks[0]);
    assert_ptr_equal(leaver(&blocks[5], 0).second, &blocks[1]);
}

static void of_two_that_are_due_last_the_one_leaves_whose_kernels_end_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        for (unsigned k = 0; k < 6; k++)
            fetched(k, false);
        sweep();
        third.cheap = 12;
        mov[4].mark = 9;
        mov[3].mark = i == 0 ? 9 : 8;
        has.passed = i == 1 ? 9 : 7;
        mov[3].vmm.va.reads = i != 2;
        mov[5].vmm.filled = i != 3;
        third.earlier = i == 4 ? 3 : 0; /* A launch before runs: what it uses does not leave. */
        struct search s = leaver(&blocks[5], i == 5);
        assert_ptr_equal(s.farthest, &blocks[i == 4 ? 2 : i == 5 ? 3 : 4]);
    }
    third.earlier = 3;
    assert_ptr_equal(leaver(&blocks[5], 1).farthest, &blocks[3]);
    for (unsigned k = 0; k < 3; k++)
        blocks[k].flags = ZC_BLOCK_SPILLED;
    assert_ptr_equal(leaver(&blocks[5], 0).farthest, &blocks[3]); /* There is no other. */
}

static void a_block_of_its_size_leaves_where_another_is_due_little_later(void **state)
{
    (void)state;
    for (unsigned size = 1; size <= 2; size++) {
        anew(NULL);
        use("ABCDEABCDE");
        third.begun = 10;
        blocks[3].size = blocks[2].size = blocks[5].size = size * MIB;
        assert_ptr_equal(leaver(&blocks[5], 0).farthest, &blocks[size == 1 ? 4 : 3]);
        blocks[3].size = MIB;
        assert_ptr_equal(leaver(&blocks[5], 0).farthest, &blocks[4]);
    }
}

/* Only what has ended leaves for a block that is not the next one, and eight times as much may. */
static void a_block_comes_far_ahead_where_much_may_leave(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        anew(NULL);
        for (unsigned k = 0; k < 6; k++) {
            fetched(k, k == 5);
            mov[k].mark = k + 1;
            blocks[k].size = k < 5 ? 2 * MIB : MIB;
        }
        sweep();
        has.pending = true;
        has.passed = i == 0 ? 4 : 5; /* The last kernel runs. */
        mov[4].vmm.va.reads = i != 1;
        blocks[0].size = blocks[1].size = i == 2 ? 0 : 2 * MIB;
        has.no_fit = i == 3;
        for (unsigned k = 0; k < 5 && i == 4; k++)
            mov[k].vmm.va.reads = false;
        third.begun = i == 5 ? 4 : 5;
        try_to(&blocks[5], i == 6 ? 2 : 3, i == 7 ? "now" : later);
        const char *moves = strstr(trace, "move/");
        if (i == 2 || i == 4)
            assert_null(moves);
        else if (i < 2 || i == 5)
            assert_true(strncmp(moves, "move/3/5", 8) == 0);
        else
            assert_true(strncmp(moves, i == 3 ? "move/4/-1" : "move/4/5", 8) == 0);
    }
}

static void a_block_that_may_not_move_is_never_due(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        use("ABCABCAB");
        mov[2].stays = i == 1;
        blocks[2].state = i == 2 ? ZC_BLOCK_FREEING : ZC_BLOCK_LIVE;
        third.elsewhere = i == 3;
        assert_int_equal(zc_migrate_due(&blocks[2]), i == 0);
    }
    anew(NULL);
    use("ABCABCAB");
    assert_int_equal(zc_migrate_due(&blocks[1]), 3);
}

static void a_block_comes_where_room_is_or_others_leave(void **state)
{
    static const char a[] = "begin-rest move/-1/0 log/0/device/why/2000/0/0 end ";
    (void)state;
    blocks[0].flags = ZC_BLOCK_SPILLED;
    has.room = MIB;
    assert_int_equal(try_to(&blocks[0], 0, "why"), 2);
    says(a);
    assert_int_equal(has.ms, 5000);
    for (unsigned i = 0; i < 7; i++) {
        anew(NULL);
        blocks[0].flags = ZC_BLOCK_SPILLED;
        has.room = i == 6 ? MIB - 1 : MIB;
        has.awaits = i == 0;
        has.capture = i == 1;
        has.current = i == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        third.context = i == 3 ? NULL : HOME;
        has.leaving = i == 4;
        mov[0].stays = i == 5;
        assert_int_equal(try_to(&blocks[0], 0, "why"), 0);
        says("");
        assert_int_equal(mov[0].again, 0);
    }
    anew(NULL);
    sweep();
    blocks[5].flags = ZC_BLOCK_SPILLED;
    assert_int_equal(try_to(&blocks[5], 0, "why"), 2);
    says("begin-rest move/4/5 log/4/host/others are used before it/1000/0/0 "
         "log/5/device/why/1000/0/0 end ");
    assert_int_equal(third.cheap, 0);
    anew(NULL);
    sweep();
    blocks[5].flags = ZC_BLOCK_SPILLED;
    blocks[5].size = 2 * MIB;
    has.no_fit = true;
    known.idle_at[3] = 7;
    mov[3].vmm.va.reads = mov[4].vmm.va.reads = true;
    mov[5].owed = mov[4].owed = 9;
    assert_int_equal(try_to(&blocks[5], 0, "why"), 6);
    says("begin-rest move/4/-1 log/4/host/others are used before it/2000/0/0 move/3/-1 "
         "log/3/host/others are used before it/2000/0/0 move/-1/5 log/5/device/why/2000/0/0 end ");
    assert_true(known.idle_at[3] == 0 && third.cheap == 2 && !mov[5].owed && !mov[4].owed);
    anew(NULL);
    sweep();
    blocks[5].flags = ZC_BLOCK_SPILLED;
    has.no_move = true;
    third.waited = 70;
    try_to(&blocks[5], 0, "why");
    says("begin-rest move/4/5 move: block %U (%B) stays %s: %s end ");
    assert_int_equal(mov[5].again, 5 + 64);
    has.no_begin = has.told = true;
    mov[5].again = 0;
    try_to(&blocks[5], 0, later);
    says(""); /* No other one has left before. */
    has.room = MIB;
    try_to(&blocks[5], 0, later);
    says("begin-rest ");
    assert_int_equal(mov[5].again, 0);
}

static void a_block_leaves_once_the_gpu_rests_in_time(void **state)
{
    (void)state;
    known.idle_at[3] = 7;
    assert_true(zc_migrate_away(&blocks[0], 5, 9));
    assert_int_equal(mov[0].keeps, 5);
    says("begin-rest move/0/-1 log/0/host/others are used before it/2000/0/0 end ");
    assert_true(has.ms == 9 && known.idle_at[3] == 0 && mov[0].again == 0);
    anew(NULL);
    fetched(0, false);
    has.passed = 7;
    mov[0].mark = 8;
    assert_false(zc_migrate_away(&blocks[0], 0, 9)); /* A kernel may read it. */
    says("begin end ");
    mov[0].mark = 7;
    assert_true(zc_migrate_away(&blocks[0], 0, 9));
    says("begin move/0/-1 log/0/host/others are used before it/2000/0/0 end ");
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        blocks[0].flags = ZC_BLOCK_SPILLED; /* In both memories. */
        has.capture = i == 0;
        mov[0].stays = i == 1;
        has.no_begin = i == 2;
        has.no_move = has.told = i == 3;
        assert_false(zc_migrate_away(&blocks[0], 0, 9));
        says(i < 2 ? "" : i == 2 ? "begin-rest " : "begin-rest move/0/-1 end ");
        assert_int_equal(mov[0].again, i < 2 ? 0 : 64);
    }
}

static void other_devices_are_asked_where_they_may_use_a_block(void **state)
{
    (void)state;
    assert_true(may_now(&blocks[0]) && begin_moves(&blocks[0], 9));
    says("begin-rest ");
    for (unsigned i = 0; i < 6; i++) {
        anew(NULL);
        bool busy = i % 2, shared = i / 2 == 1;
        mov[0].vmm.va.devices = shared ? 3 << 3 : 1 << 3;
        mov[0].far = i / 2 ? 0 : 2;
        counts.far = shared ? 0 : 2;
        has.others_work = busy;
        assert_int_equal(may_now(&blocks[0]), !busy || i / 2 == 2);
        assert_true(third.rest == !busy && third.ended == 0); /* A call may be on its way. */
        assert_true(begin_moves(&blocks[0], 9));
        assert_true(third.rest == !busy && third.ended == (busy ? 0 : counts.far));
        says("others? begin-rest others? ");
        has.others_work = true;
        assert_int_equal(may_now(&blocks[0]), i != 1 && !shared);
        says(busy || shared ? "others? " : ""); /* Copies that have ended are no reason. */
        assert_false(third.rest);
    }
    anew(NULL);
    counts.far = 1;
    has.awaits = true;
    assert_false(may_now(&blocks[0]));
    says("");
}

static void other_links_carry_moves_where_the_policy_has_some(void **state)
{
    (void)state;
    for (unsigned links = ZC_LINKS_OWN; links <= 4; links++) {
        anew(NULL);
        rule_set.links = links;
        assert_true(migrate_move(&blocks[0], NULL, NULL));
        assert_true(has.carried == (links > ZC_LINKS_OWN ? zc_links_copy : NULL));
    }
    rule_set.links = ZC_LINKS_OWN;
}

static void a_launch_that_has_waited_in_vain_is_the_last_one_that_waits(void **state)
{
    (void)state;
    has.no_rest = true;
    has.took = 4999999999;
    assert_false(wait_for(use_ended, &blocks[0]));
    says("rests? ");
    assert_true(has.ms == 5000 && !third.impatient && third.waited == 4999999999);
    has.took = 5000000000;
    assert_false(wait_for(use_ended, &blocks[0]));
    says("rests? move: %s before launches, one of which has wai ");
    assert_true(third.impatient && third.waited == 9999999999);
    assert_false(wait_for(use_ended, &blocks[0]));
    says("rests? ");
    assert_int_equal(has.ms, 0);
    anew(NULL);
    has.no_rest = has.unknown = true;
    assert_false(wait_for(use_ended, &blocks[0]));
    says("rests? move: %s before launches, one of which has wai ");
    anew(NULL);
    has.unknown = true;
    has.took = 5000000000;
    assert_true(wait_for(use_ended, &blocks[0]));
    assert_false(third.impatient);
    anew(NULL);
    mov[0].vmm.va.reads = true;
    mov[0].mark = 4;
    has.passed = 3;
    assert_true(!use_ended(&blocks[0], 6) && !has_ended(&blocks[0]));
    has.passed = 4;
    assert_true(use_ended(&blocks[0], 6) && has_ended(&blocks[0]) && has.ms == 0);
    says("");
    third.unmarked = true;
    assert_true(has_ended(&blocks[0]));
    says("rests? ");
}

static void a_block_that_is_mapped_nowhere_needs_no_rest(void **state)
{
    (void)state;
    assert_true(begin_moves(&blocks[0], 9));
    says("begin-rest ");
    fetched(0, true);
    assert_true(begin_moves(&blocks[0], 9));
    says("begin-rest ");
    has.pending = true;
    assert_true(begin_moves(&blocks[0], 9));
    says("begin ");
    third.unmarked = has.no_begin = true;
    assert_false(begin_moves(&blocks[0], 9));
    assert_true(third.unmarked);
    has.no_begin = false;
    assert_true(begin_moves(&blocks[0], 9));
    assert_false(third.unmarked);
    says("begin-rest begin-rest ");
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times_of_kernels_are_found_in_one_of_eight_places),
        TEST(a_kernel_loses_what_it_takes_longer_with_bytes_in_host_memory),
        TEST(launches_add_up_to_the_time_that_the_gpu_is_busy),
        TEST(an_order_of_uses_that_comes_again_is_known),
        TEST(no_more_uses_are_compared_than_are_remembered),
        TEST(a_block_moves_that_is_libzcs_alone),
        TEST(a_block_that_is_due_last_leaves),
        TEST(of_two_that_are_due_last_the_one_leaves_whose_kernels_end_first),
        TEST(a_block_of_its_size_leaves_where_another_is_due_little_later),
        TEST(a_block_comes_far_ahead_where_much_may_leave),
        TEST(a_block_that_may_not_move_is_never_due),
        TEST(a_block_comes_where_room_is_or_others_leave),
        TEST(a_block_leaves_once_the_gpu_rests_in_time),
        TEST(other_devices_are_asked_where_they_may_use_a_block),
        TEST(other_links_carry_moves_where_the_policy_has_some),
        TEST(a_launch_that_has_waited_in_vain_is_the_last_one_that_waits),
        TEST(a_block_that_is_mapped_nowhere_needs_no_rest),
    };
    return RUN_TESTS(tests);
}
