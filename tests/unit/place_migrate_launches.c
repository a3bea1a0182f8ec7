/* SPDX-License-Identifier: MIT */
/* Blocks that move: what each launch, graph and copy does with those that it names. */
#include "place_migrate_test.h"

static void use(const char *names)
{
    for (; *names; names++)
        zc_order_note(&third.order, &blocks[*names - 'A']);
}

/* Uses 1 to 5 were those of blocks 0 to 4; the last used is due last. */
static void sweep(void)
{
    use("ABCDE");
    third.begun = 5;
}

static void a_block_comes_once_kernels_lose_more_than_its_move_takes(void **state)
{
    struct zc_rate r = {.bytes = MIB, .time = 10, .all = MIB, .spilled = MIB, .time_of_them = 110};
    static const char why[] = "a kernel reads it more than once";
    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        anew(NULL);
        sweep();
        blocks[5].flags = ZC_BLOCK_SPILLED;
        has.room = MIB;
        has.cost = i == 0 ? 80 : i == 6 ? 79 : 200;
        has.dear = i > 1;
        third.order.as = i == 2 ? 0 : 4;
        mov[5].again = i == 4 ? 6 : i == 5 ? 5 : 0;
        consider(&blocks[5], &r, MIB);
        if (i == 6)
            assert_non_null(strstr(trace, why));
        else if (i == 4)
            assert_string_equal(trace, "");
        else if (i == 3 || i == 5)
            assert_non_null(strstr(trace, "kernels used it for long"));
        else
            assert_string_equal(trace, "owes/100/1048576 ");
    }
}

static void a_block_comes_before_a_first_launch_that_may_take_long(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct zc_rate r = {.bytes = MIB, .time = 10};
        anew(NULL);
        blocks[5].flags = ZC_BLOCK_SPILLED;
        has.room = MIB;
        has.cost = i == 1 ? 321 : 320;
        r.spent = i == 2 ? 1601 : i == 3 ? 1600 : 0;
        uint64_t before = r.spent;
        consider(&blocks[5], &r, MIB);
        bool comes = i == 0 || i == 3;
        assert_int_equal(strstr(trace, "a kernel may take long to read it there") != NULL, comes);
        assert_int_equal(r.spent, before + (comes ? 2 : 0));
    }
}

static CUresult launch_of(const char *names, enum zc_fn fn)
{
    const struct zc_launch launch = {.fn = fn, .function = (CUfunction)0x500, .kernels = true};
    has.words = 0;
    for (; *names; names++)
        has.word[has.words++] = *names == '.' ? 5 : AT(*names - 'A') + 64;
    return migrate_before_launch(&launch);
}

static void a_launch_names_blocks_and_is_timed(void **state)
{
    (void)state;
    third.seen = 15;
    assert_int_equal(launch_of("AB.A", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    says("enter leave collect time/2097152/0 ");
    assert_true(third.order.count == 2 && third.begun == 0 && third.earlier == 0);
    assert_int_equal(launch_of("A", ZC_FN_cuLaunchKernel), CUDA_SUCCESS); /* One of sixteen. */
    says("enter leave ");
    assert_true(third.unmarked && third.order.count == 2 && third.seen == 17);
    counts.spilled = 1;
    blocks[1].flags = ZC_BLOCK_SPILLED;
    assert_int_equal(launch_of("BA", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    assert_string_equal(trace, "enter leave collect wait/1 time/2097152/1048576 ");
    assert_true(third.begun == 2 && third.earlier == 0 && third.order.count == 4);
    trace[0] = 0;
    has.again = true;
    launch_of("BA", ZC_FN_cuLaunchKernel);
    assert_true(third.begun == 2 && third.order.count == 4);
    trace[0] = 0;
    has.again = false;
    has.locked_out = true;
    launch_of("BA", ZC_FN_cuLaunchKernel);
    says("enter leave collect wait/1 ");
    has.locked_out = false;
    launch_of("...", ZC_FN_cuLaunchKernel);
    says("enter leave collect ");
    counts.spilled = 0;
    counts.away = 1;
    launch_of(".", ZC_FN_cuLaunchKernel);
    says("enter leave collect ");
    has.closing = true;
    launch_of("A", ZC_FN_cuLaunchKernel);
    says("enter leave ");
    counts.movable = 0;
    has.closing = false;
    launch_of("A", ZC_FN_cuLaunchKernel);
    says("enter leave unwatch ");
    const struct zc_launch none = {.kernels = false};
    assert_int_equal(migrate_before_launch(&none), CUDA_SUCCESS);
    says("enter leave ");
}

static void a_launch_brings_in_what_it_names(void **state)
{
    (void)state;
    fetched(0, true);
    blocks[1].flags = ZC_BLOCK_SPILLED;
    counts.spilled = 2;
    has.mark = 9;
    has.passed = 8;
    has.pending = true;
    has.room = 4 * MIB;
    assert_int_equal(launch_of("AB", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    says("enter leave collect wait/1 begin move/-1/0 log/0/device/a kernel will read it/2000/0/0 "
         "end begin-rest move/-1/1 log/1/device/a kernel may take long to read it there/2000/0/0 "
         "end time/1048576/0 ");
    assert_true(zc_rate_of(0x500).spent == 2 && zc_rate_of(0x500).blind == MIB);
    assert_int_equal(mov[0].mark, 9);
}

static void what_runs_unseen_stays_mapped(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        fetched(0, false);
        fetched(1, false);
        has.never = CUDA_ERROR_UNKNOWN;
        has.capture = i == 0;
        has.held = i == 1;
        has.here = i != 2;
        has.closing = i == 3;
        has.device = 1;
        assert_int_equal(launch_of("BAC", ZC_FN_cuLaunchKernel), CUDA_ERROR_UNKNOWN);
        says("enter leave never/1/0 never/0/0 ");
    }
    anew(NULL);
    fetched(2, false);
    fetched(4, false);
    counts.spilled = has.no_words = true; /* Nobody knows its arguments. */
    launch_of("", ZC_FN_cuLaunchKernel);
    says("enter leave collect never/4/0 never/2/0 ");
    mov[2].stays = mov[4].stays = false;
    launch_of("", ZC_FN_cuGraphLaunch);
    launch_of("", ZC_FN_cuGraphLaunch_ptsz);
    says("enter leave collect enter leave collect ");
    blocks[4].place = ZC_PLACE_MAPPED;
    has.never = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_migrate_keep_all(ZC_FN_cuGraphLaunch), CUDA_ERROR_UNKNOWN);
    says("never/2/1 ");
    counts.fetched = 0;
    mov[2].stays = false;
    assert_int_equal(zc_migrate_keep_all(ZC_FN_cuGraphLaunch), CUDA_SUCCESS);
    CUtensorMap map = {.opaque = {1, AT(2)}};
    zc_migrate_kept(ZC_FN_cuGraphLaunch, AT(2), NULL);
    says("");
    counts.fetched = 1;
    zc_migrate_kept(ZC_FN_cuGraphLaunch, AT(2), &map);
    zc_migrate_kept(ZC_FN_cuGraphLaunch, AT(1), &map); /* It does not come by launches. */
    says("");
    zc_migrate_kept(ZC_FN_cuGraphLaunch, AT(2), NULL);
    zc_migrate_kept(ZC_FN_cuGraphLaunch, AT(2) + 1, &map);
    says("never/2/1 never/2/1 ");
}

static void a_graph_names_the_blocks_of_its_kernels(void **state)
{
    struct zc_launch_graph graph = {.kernels = 2, .address = {AT(0)}};
    const struct zc_launch kernel = {.function = (CUfunction)0x500};
    (void)state;
    fetched(1, false);
    mov[2].vmm.moves = false;
    has.words = 5;
    has.word[0] = has.word[3] = AT(0) + 8;
    has.word[1] = has.word[4] = AT(1);
    has.word[2] = AT(2);
    zc_migrate_note(&graph, &kernel, NULL);
    says("never/1/1 never/1/1 ");
    assert_true(graph.count == 2 && graph.address[0] == AT(0) && graph.address[1] == AT(1));
    assert_int_equal(graph.kernels, 2 * 31 + 0x500);
    graph.count = 64;
    has.word[1] = has.word[4] = AT(3);
    zc_migrate_note(&graph, &kernel, NULL);
    assert_int_equal(graph.count, 64);
    says("");
    mov[1].stays = false;
    has.words = 0;
    has.no_words = true;
    zc_migrate_note(&graph, &kernel, NULL);
    says("never/1/1 ");
    graph.count = 2;
    graph.kernels = 77;
    graph.address[2] = AT(3); /* Behind the last one. */
    blocks[0].flags = ZC_BLOCK_SPILLED;
    has.words = 2;
    has.word[0] = AT(0);
    has.word[1] = AT(1);
    const struct zc_launch launch = {.graph = &graph, .fn = ZC_FN_cuGraphLaunch, .kernels = true};
    struct named n;
    memset(&n, 5, sizeof(n));
    name_blocks(&launch, &third, &n);
    assert_true(n.fn == ZC_FN_cuGraphLaunch && n.note.spilled == MIB);
    assert_true(n.note.kernel == 77 && n.count == 2 && n.note.bytes == MIB);
    assert_true(n.of[0] == &blocks[0] && n.of[1] == &blocks[1] && !n.timed);
}

static void a_block_is_fetched_before_the_kernel_that_reads_it(void **state)
{
    static const char comes[] = "begin move/-1/0 log/0/device/a kernel will read it/2000/0/";
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct named n = {.on = &third, .count = 1, .of = {&blocks[0]}};
        anew(NULL);
        fetched(0, i != 0);
        has.pending = true;
        has.room = MIB;
        has.mark = i == 1 ? 0 : 9;
        has.passed = i == 7 ? 7 : 8;
        mov[0].vmm.filled = i != 2;
        mov[0].again = i == 3;
        has.again = i == 4;
        has.whole = i != 5;
        has.attach = i == 5 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
        has.no_move = false;
        fetch(&blocks[0], &n);
        assert_int_equal(strncmp(trace, comes, sizeof(comes) - 1) == 0, i > 4);
        assert_int_equal(mov[0].mark, has.mark);
        assert_int_equal(third.before, i == 1 ? 0 : 8);
        assert_int_equal(n.result, i == 5 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        if (i == 5)
            assert_non_null(strstr(trace, "/0 end attach/0 move/0/-1 log/0/host/others are used "
                                          "before it/2000/0/0 attach/0 no memory "));
        if (i > 5)
            assert_non_null(strstr(trace, i == 7 ? "/1 end " : "/0 end "));
    }
}

static void the_next_block_comes_ahead_of_its_launch(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 9; i++) {
        anew(NULL);
        for (unsigned k = 0; k < 3; k++)
            fetched(k, k == 2);
        use("ABCABCABCAB");
        assert_int_equal(third.order.sure, 8);
        third.begun = 10;
        mov[0].last = mov[1].last = 10;
        has.pending = true;
        has.room = i == 8 ? 0 : MIB;
        third.order.sure = i == 0 ? 7 : 8;
        blocks[2].flags = i == 1 ? 0 : blocks[2].flags;
        has.pending = i != 2;
        mov[2].again = i == 3 ? 12 : i == 4 ? 11 : 0;
        mov[2].vmm.filled = i != 5;
        mov[2].last = i == 6 ? 11 : mov[2].last;
        has.passed = 9;
        fetch_ahead(&third);
        bool comes = i == 4 || i >= 7;
        if (comes != (strstr(trace, "log/2/device/a later kernel will read it") != NULL))
            fail_msg("%u: %s", i, trace);
        if (i == 8)
            assert_non_null(strstr(trace, "move/"));
    }
}

/* A second one comes while the first is on its way, a third once one of them has been used. */
static void at_most_two_blocks_come_that_no_launch_has_used(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        anew(NULL);
        for (unsigned k = 0; k < 6; k++)
            fetched(k, k > 2);
        for (unsigned k = 3; k < 5; k++)
            mov[k].came = i == 4 && k == 3 ? NULL : (CUevent)(uintptr_t)k;
        use("ABCDEFABCDEFABCD");
        third.begun = third.order.count;
        has.pending = true;
        has.coming = i != 3;
        has.room = 4 * MIB;
        third.ahead[0] = i > 0 ? AT(4) : 0;
        third.ahead[1] = i > 1 ? AT(3) : 0;
        trace[0] = 0;
        blocks[4].flags = 0;
        fetch_ahead(&third);
        const char *comes = strstr(trace, "log/5/device/a later kernel will read it");
        assert_true((comes != NULL) == (i != 2));
        assert_true((strstr(trace, "query/4") != NULL) == (i == 2 || i == 3));
        if (comes)
            assert_true(third.ahead[0] == AT(5) && third.ahead[1] == (i ? AT(4) : 0));
    }
}

static void the_first_block_that_is_missing_comes_ahead(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        for (unsigned k = 0; k < 6; k++)
            fetched(k, k > 2);
        use("ABCDEFABCDEFABCDEF");
        third.begun = i == 1 ? 15 : third.order.count;
        has.pending = true;
        has.room = MIB;
        mov[3].again = i == 2 ? third.order.count + 1 : 0;
        blocks[3].state = i == 3 ? ZC_BLOCK_FREEING : ZC_BLOCK_LIVE;
        trace[0] = 0;
        fetch_ahead(&third);
        const char *comes = i == 0 ? "log/3/device" : i == 1 ? NULL : "log/4/device";
        if (comes)
            assert_non_null(strstr(trace, comes));
        else
            says("");
    }
}

/* Until the order changes, or a block leaves. */
static void uses_that_lack_no_block_are_looked_up_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) { /* 3: one that can't come is looked for again. */
        anew(NULL);
        for (unsigned k = 0; k < 6; k++)
            fetched(k, i == 3 && k == 3);
        use("ABCDEFABCDEFABCDEF");
        has.pending = true;
        mov[3].again = 99;
        uint64_t from;
        third.begun = third.order.count;
        assert_null(next_missing(&third, &from));
        if (i == 1)
            assert_true(zc_migrate_away(&blocks[1], 0, 9));
        if (i == 2)
            use("DEFABCDE");
        has.finds = 0;
        assert_ptr_equal(next_missing(&third, &from), i == 1 ? &blocks[1] : NULL);
        assert_int_equal(has.finds, i == 2 ? 8 : i ? 2 : 0);
    }
}

static void a_copy_of_a_fetched_block_takes_it_to_host_memory(void **state)
{
    (void)state;
    assert_int_equal(zc_migrate_to_host(&blocks[0], ZC_FN_cuGraphLaunch, true), CUDA_SUCCESS);
    says("");
    for (unsigned i = 0; i < 8; i++) {
        anew(NULL);
        fetched(0, false);
        mov[0].vmm.filled = false;
        mov[0].vmm.va.devices = i > 5 ? 3 << 3 : 1 << 3;
        has.others_work = i == 6;
        has.never = CUDA_ERROR_UNKNOWN;
        mov[0].vmm.va.reads = i != 0;
        has.closing = i == 1;
        has.drained = i != 2;
        mov[0].mark = i == 3;
        has.locked_out = i == 4;
        CUresult result = zc_migrate_to_host(&blocks[0], ZC_FN_cuGraphLaunch, i != 5);
        assert_int_equal(result,
                         i % 4 == 0 || i == 5 || i == 7 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
        says(i == 0   ? "relax restore "
             : i == 1 ? "relax never/0/1 restore "
             : i == 2 ? "relax drain never/0/1 restore "
             : i == 3 ? "relax drain never/0/1 restore "
             : i == 4 ? ""
             : i == 5 ? "relax drain move/0/-1 log/0/host/others are used before it/2000/0/0 "
                        "restore "
             : i == 6
                 ? "relax drain others? never/0/1 restore "
                 : "relax drain others? move/0/-1 log/0/host/others are used before it/2000/0/0 "
                   "restore ");
        assert_true(mov[0].vmm.filled == (i != 4 && i != 5) && counts.away == 0);
    }
}

static void another_context_of_the_device_ends_all_moves(void **state)
{
    (void)state;
    assert_true(zc_migrate_meets(&blocks[0], NULL, ZC_LEGACY));
    assert_false(third.elsewhere);
    has.here = false;
    has.device = 4;
    assert_false(zc_migrate_meets(&blocks[0], NULL, ZC_LEGACY));
    assert_false(third.elsewhere);
    has.device = 3;
    assert_false(zc_migrate_meets(&blocks[0], NULL, ZC_LEGACY));
    assert_true(third.elsewhere);
    third.elsewhere = false;
    has.device = 4;
    has.current = CUDA_ERROR_UNKNOWN; /* Nobody knows of which. */
    assert_false(zc_migrate_meets(&blocks[0], NULL, ZC_LEGACY));
    assert_true(third.elsewhere);
    zc_module_migrate.context_gone((CUcontext)0x78);
    assert_ptr_equal(moving_context(&third), HOME);
    assert_false(zc_migrate_watch());
    third.impatient = true;
    zc_module_migrate.context_gone(HOME);
    assert_true(!moving_context(&third) && !third.elsewhere && !third.impatient);
    assert_false(zc_migrate_watch());
    assert_null(moving_context(&third));
    has.current = CUDA_SUCCESS;
    has.device = 3;
    assert_true(zc_migrate_watch() && moving_context(&third) == HOME);
    says("watch watch watch ");
    assert_ptr_equal(has.party, migrate_before_launch);
}

/* A second device, whose blocks are of another context. */
static struct moving *begin_fourth(void)
{
    has.device = 4;
    has.home = OTHER;
    assert_true(zc_migrate_watch());
    says("watch ");
    for (unsigned i = 3; i < BLOCKS; i++) {
        mov[i].vmm.va.context = OTHER;
        mov[i].vmm.va.device = 4;
        mov[i].vmm.va.devices = 1 << 4;
    }
    return &moving[4];
}

static void each_device_has_an_order_of_its_own(void **state)
{
    (void)state;
    struct moving *fourth = begin_fourth();
    assert_true(fourth->context == OTHER && zc_migrate_watch());
    has.device = 3;
    assert_false(zc_migrate_watch()); /* Another context was the first one there. */
    has.home = HOME;
    assert_true(zc_migrate_watch());
    says("watch watch watch ");
    counts.spilled = 1;
    fetched(3, false);
    assert_int_equal(launch_of("ADB", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    says("enter leave collect never/3/0 time/2097152/0 "); /* By peer access. */
    assert_true(third.order.count == 2 && fourth->order.count == 0);
    has.home = OTHER;
    has.device = 4;
    assert_int_equal(launch_of("E", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    says("enter leave collect time/1048576/0 ");
    assert_true(third.order.count == 2 && fourth->order.count == 1 && mov[4].last == 1);
    assert_true(zc_migrate_meets(&blocks[4], NULL, ZC_LEGACY));
    assert_false(zc_migrate_meets(&blocks[0], NULL, ZC_LEGACY)); /* A copy by the wrong device. */
    assert_false(third.elsewhere || fourth->elsewhere);
}

/* So that those of the other one launch meanwhile. */
static void
a_launch_waits_for_copies_without_the_lock_where_several_devices_have_blocks(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        anew(NULL);
        if (i)
            begin_fourth();
        has.home = HOME;
        has.device = 3;
        counts.spilled = 1;
        mov[0].came = i < 3 ? (CUevent)7 : NULL;
        has.queries = i == 2 ? 0 : 2;
        assert_int_equal(launch_of("A", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
        says(i == 1   ? "enter leave collect query/7 nap/20 query/7 nap/20 query/7 time/1048576/0 "
             : i == 2 ? "enter leave collect query/7 time/1048576/0 "
                      : "enter leave collect time/1048576/0 ");
    }
}

static void only_blocks_of_a_device_make_room_there(void **state)
{
    (void)state;
    begin_fourth();
    mov[0].last = mov[4].last = 1;
    third.begun = moving[4].begun = 2;
    assert_ptr_equal(leaver(&blocks[1], 0).farthest, &blocks[0]);
    assert_int_equal(leaver(&blocks[1], 0).bytes, MIB);
    assert_ptr_equal(leaver(&blocks[3], 0).farthest, &blocks[4]);
}

static void a_kernel_of_another_context_in_a_graph_ends_moves_on_its_device(void **state)
{
    const struct zc_launch kernel = {.function = (CUfunction)0x500};
    struct zc_launch_graph graph = {.count = 0};
    (void)state;
    struct moving *fourth = begin_fourth();
    zc_migrate_note(&graph, &kernel, OTHER);
    assert_false(fourth->elsewhere);
    has.home = HOME;
    has.device = 4; /* Of the kernel's context. */
    zc_migrate_note(&graph, &kernel, OTHER);
    assert_true(fourth->elsewhere && !third.elsewhere);
    has.current = CUDA_ERROR_UNKNOWN;
    zc_migrate_note(&graph, &kernel, OTHER);
    assert_true(third.elsewhere);
}

static void without_memory_for_the_order_no_block_leaves(void **state)
{
    (void)state;
    has.no_memory = true;
    third.order.used = NULL;
    counts.spilled = 1;
    assert_int_equal(launch_of("AB", ZC_FN_cuLaunchKernel), CUDA_SUCCESS);
    assert_true(third.order.count == 0 && mov[0].last == 0);
    assert_null(leaver(&blocks[2], 0).farthest);
    has.no_memory = false;
    use("A");
    assert_true(third.order.count == 1 && mov[0].last == 1 && third.order.used[1] == AT(0));
    has.device = ZC_DEVICES; /* Not told apart from others. */
    assert_false(zc_migrate_watch());
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_block_comes_once_kernels_lose_more_than_its_move_takes),
        TEST(a_block_comes_before_a_first_launch_that_may_take_long),
        TEST(a_launch_names_blocks_and_is_timed),
        TEST(a_launch_brings_in_what_it_names),
        TEST(what_runs_unseen_stays_mapped),
        TEST(a_graph_names_the_blocks_of_its_kernels),
        TEST(a_block_is_fetched_before_the_kernel_that_reads_it),
        TEST(the_next_block_comes_ahead_of_its_launch),
        TEST(at_most_two_blocks_come_that_no_launch_has_used),
        TEST(the_first_block_that_is_missing_comes_ahead),
        TEST(uses_that_lack_no_block_are_looked_up_once),
        TEST(a_copy_of_a_fetched_block_takes_it_to_host_memory),
        TEST(each_device_has_an_order_of_its_own),
        TEST(a_launch_waits_for_copies_without_the_lock_where_several_devices_have_blocks),
        TEST(only_blocks_of_a_device_make_room_there),
        TEST(a_kernel_of_another_context_in_a_graph_ends_moves_on_its_device),
        TEST(without_memory_for_the_order_no_block_leaves),
        TEST(another_context_of_the_device_ends_all_moves),
    };
    return RUN_TESTS(tests);
}
