/* SPDX-License-Identifier: MIT */
/* Copies over the links of several GPUs: every byte arrives in its turn, whichever call fails. */
#include "copy_links_test.h"

static void every_byte_of_copies_in_a_row_arrives_in_its_turn(void **state)
{
    static const size_t sizes[] = {34 * MIB, 8 * MIB, 64 * MIB, 97 * MIB + 3 * GRAIN, MOST};
    (void)state;
    for (unsigned most = 2; most <= DEVICES; most++)
        for (unsigned i = 0; i < 5 * 8; i++) {
            anew(NULL);
            policy->links = most;
            fake.moves = i / 4 % 2;
            struct zc_copy c;
            size_t bytes = sizes[i / 8], part = bytes / most / (2 * MIB) * (2 * MIB);
            for (unsigned again = 0; again < 3; again++) {
                fake.relayed = fake.relayed_bytes = 0;
                if (fake.moves && bytes < ZC_LINKS_LEAST) { /* The driver makes it. */
                    assert_false(copied(&c, bytes, (i + again) % 2));
                    continue;
                }
                assert_true(copied(&c, bytes, (i + again) % 2));
                assert_int_equal(c.result, CUDA_SUCCESS);
                assert_int_equal(c.links, most);
                assert_int_equal(fake.relayed_bytes, (most - 1) * part);
                size_t chunk = part / 4 < 16 * MIB ? part / 4 : 16 * MIB;
                assert_int_equal(fake.relayed, (most - 1) * ((part + chunk - 1) / chunk));
                assert_int_equal(c.copies, 1 + fake.relayed);
            }
            run_all(i);
            if (fake.moves && bytes < ZC_LINKS_LEAST)
                continue;
            assert_int_equal(fake.contexts, most - 1);
            assert_int_equal(fake.enables, most - 1); /* It is asked for once. */
            assert_int_equal(fake.asked, most - 1);
            assert_int_equal(fake.logged, most - 1);
            assert_int_equal(fake.allocated, 48 * MIB);
            assert_int_equal(fake.staged + fake.told, 0);
        }
}

static void whichever_call_fails_a_copy_arrives_or_says_so(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 8; way++)
        for (unsigned fail = 1;; fail++) {
            anew(NULL);
            fake.moves = way & 4;
            policy->links = way & 1 ? ZC_LINKS_IDLE : 3;
            links.bytes = (uint64_t)1 << 40; /* They pay. */
            struct zc_copy c;
            if (way & 2) {
                assert_true(alone(MOST)); /* The links are there. */
                fake.calls = 0;
                fake.now += 200000000;
            }
            fake.fails = fail;
            fake.lost = fail % 4; /* And waiting for what was sent. */
            bool made = copied(&c, MOST, way & 1);
            bool over = fail > fake.calls;
            fake.fails = fake.lost = 0;
            if (made && c.result != CUDA_SUCCESS)
                assert_int_equal(c.copies, 1); /* The own link's: before a byte of others. */
            run_all(fail);
            assert_true(!over || (made && c.result == CUDA_SUCCESS));
            assert_true(fake.told <= 1);
            assert_true(copied(&c, MOST, true) && c.result == CUDA_SUCCESS);
            assert_true(c.links > 1);
            assert_true(fake.told <= 1);
            run_all(fail);
            if (over)
                break;
        }
}

static void what_leaves_and_what_comes_take_slots_of_their_own(void **state)
{
    (void)state;
    struct zc_copy c;
    struct zc_va range = {.device = ZC_LINKS_MAX}, *va[] = {&range, &range};
    policy->links = fake.devices = 2;
    fake.moves = true;
    assert_true(copied(&c, 64 * MIB, false));
    unsigned gone = fake.queued[2];
    assert_true(gone && !fake.queued[1] && !fake.queued[3]);
    assert_int_equal(fake.let, 2); /* Into the addresses of either side. */
    fake.stream_id = 6;
    c = copy_of(64 * MIB, true);
    assert_false(zc_links_copy(&c, NULL));
    assert_false(zc_links_copy(&c, va));
    assert_true(copied(&c, 64 * MIB, true));
    assert_true(fake.queued[2] == gone && fake.queued[1] && fake.queued[3]);
    run_all(5);
}

static void what_the_own_link_refuses_no_other_moves(void **state)
{
    (void)state;
    struct zc_copy c = copy_of(64 * MIB, true);
    fake.refuses = true;
    assert_true(zc_links_copy(&c, NULL));
    assert_int_equal(c.result, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(c.links, 1);
    assert_int_equal(fake.relayed, 0);
    fake.refuses = false;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.told, 0);
}

/* The own link makes up for a part that has not arrived, and for no other. */
static void a_link_without_an_event_behind_its_work_is_waited_for(void **state)
{
    (void)state;
    for (unsigned lost = 0; lost <= 3; lost++)
        for (unsigned most = 2; most <= 3; most++) {
            struct zc_copy c;
            anew(NULL);
            policy->links = most;
            fake.joins = true;
            fake.lost = lost;
            assert_true(copied(&c, 64 * MIB, lost & 1));
            run_all(lost);
            assert_int_equal(c.result, CUDA_SUCCESS);
            assert_int_equal(c.copies, 1 + fake.relayed + (lost > 0));
            assert_int_equal(c.links, most - (lost > 0));
            assert_int_equal(fake.told, most - 1);
        }
}

static unsigned has_refused;

static void a_context_that_is_refused_is_said_and_not_asked_for_again(void **state)
{
    (void)state;
    fake.devices = 2;
    assert_true(copied(&(struct zc_copy){0}, 64 * MIB, true));
    unsigned calls = fake.calls;
    run_all(1);
    assert_non_null(strstr(fake.text, " 7 ms"));
    for (unsigned fail = 1; fail < calls; fail++) {
        anew(NULL);
        fake.devices = 2;
        fake.fails = fail;
        struct zc_copy c;
        bool made = copied(&c, 64 * MIB, true);
        bool refused = !made && (strstr(fake.text, "cuCtxCreate failed") ||
                                 strstr(fake.text, "a buffer and streams there failed"));
        fake.fails = 0;
        run_all(1);
        unsigned asked = fake.asked;
        if (!refused)
            continue;
        assert_true(fake.told == 1 && fake.contexts == 0 && fake.logged == 0);
        assert_false(copied(&c, 64 * MIB, true));
        assert_true(fake.told == 1 && fake.contexts == 0 && fake.asked == asked);
        has_refused++;
    }
    assert_int_equal(has_refused, 8); /* The context, its buffer, three streams and events. */
}

static void a_link_of_which_nothing_is_known_is_lost(void **state)
{
    (void)state;
    struct zc_copy c;
    assert_true(alone(64 * MIB));
    fake.unknown = true;
    assert_false(copied(&c, 64 * MIB, true));
    assert_int_equal(fake.told, DEVICES - 1);
    fake.unknown = false;
    run_all(1);
    assert_false(copied(&c, 64 * MIB, true));
    assert_int_equal(fake.told, DEVICES - 1);
}

static void a_program_may_use_any_device(void **state)
{
    (void)state;
    struct zc_copy c;
    for (fake.own = 0; fake.own < DEVICES; fake.own++) {
        int own = fake.own;
        anew(NULL);
        fake.own = own;
        allocated.device = (int8_t)own;
        for (unsigned i = 0; i < 2; i++) {
            assert_true(copied(&c, 64 * MIB, true));
            assert_int_equal(c.links, DEVICES);
            run_all(1);
            zc_module_links.context_gone(OWN_CONTEXT);
        }
        assert_int_equal(fake.enables, 2 * (DEVICES - 1));
    }
}

static void calls_that_wait_and_pageable_memory_have_their_bytes_at_the_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct zc_copy c = copy_of(64 * MIB, true);
        c.async = i & 1;
        c.dst.staged = i & 2;
        c.src.staged = i & 4;
        fake.staged = 0;
        assert_true(zc_links_copy(&c, NULL));
        assert_int_equal(fake.staged, i != 1);
        assert_int_equal(c.result, i != 1 ? CUDA_ERROR_ECC_UNCORRECTABLE : CUDA_SUCCESS);
        run_all(1);
    }
}

static void peer_access_that_is_there_is_used(void **state)
{
    (void)state;
    fake.enabled = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.relayed > 0, 1);
    assert_int_equal(fake.told, 0);
    anew(NULL);
    fake.enabled = CUDA_ERROR_TOO_MANY_PEERS;
    struct zc_copy c;
    assert_true(copied(&c, 64 * MIB, true));
    run_all(1);
    assert_int_equal(c.links, 1); /* The own link makes up for it, and the others are left. */
    assert_int_equal(fake.relayed, 0);
    assert_int_equal(fake.told, 3);
    assert_false(alone(64 * MIB));
    assert_int_equal(fake.told, 3);
}

/* It works for one stream at a time: that of its last copy. */
static void a_link_that_works_for_another_stream_is_left_alone(void **state)
{
    (void)state;
    struct zc_copy c;
    fake.devices = 2;
    assert_true(copied(&c, 64 * MIB, true));
    fake.stream_id = 6;
    c = copy_of(64 * MIB, true);
    assert_false(zc_links_copy(&c, NULL));
    fake.stream_id = 5;
    assert_true(copied(&c, 64 * MIB, true));
    run_all(3);
    fake.stream_id = 0; /* The driver tells no number. */
    assert_true(copied(&c, 64 * MIB, true));
    c = copy_of(64 * MIB, true);
    assert_false(zc_links_copy(&c, NULL));
    run_all(4);
    fake.stream_id = 6;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.contexts, 1);
}

static void peer_access_goes_with_a_context_and_is_asked_for_again(void **state)
{
    (void)state;
    assert_true(alone(64 * MIB));
    zc_module_links.context_gone((CUcontext)0x9999);
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.enables, 3);
    zc_module_links.context_gone(OWN_CONTEXT);
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.enables, 6);
    assert_int_equal(fake.contexts, 3);
}

static bool fits(struct zc_copy *c, CUcontext context)
{
    fake.current[0] = context;
    bool yes = zc_links_facts(c) == ZC_FACT_LINKS;
    fake.current[0] = OWN_CONTEXT;
    return yes;
}

#define NOT(change)                                                                                \
    do {                                                                                           \
        anew(NULL);                                                                                \
        c = copy_of(64 * MIB, in);                                                                 \
        change;                                                                                    \
        assert_false(fits(&c, OWN_CONTEXT));                                                       \
    } while (0)

static void links_carry_lines_between_pinned_memory_and_a_block_of_the_context(void **state)
{
    (void)state;
    struct zc_copy c;
    for (unsigned in = 0; in < 2; in++) {
        anew(NULL);
        struct zc_operand *h = in ? &c.src : &c.dst, *d = in ? &c.dst : &c.src;
        c = copy_of(ZC_LINKS_LEAST, in);
        assert_true(fits(&c, OWN_CONTEXT));
        assert_false(fits(&c, (CUcontext)0x3001));
        allocated.api = ZC_API_cuMemAllocPitch;
        pinned.size = allocated.size = ZC_LINKS_LEAST;
        assert_true(fits(&c, OWN_CONTEXT));
        NOT(c.bytes = ZC_LINKS_LEAST - 1);
        NOT(policy->links = ZC_LINKS_OWN);
        NOT(c.order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
        NOT(c.facts = ZC_FACT_SHARED);
        NOT(fake.here = false);
        NOT(fake.fails = 1);
        NOT(h->block = NULL);
        NOT(d->block = NULL);
        NOT(h->asked = ZC_KIND_DEVICE);
        NOT(h->real = ZC_KIND_PAGEABLE);
        NOT(pinned.flags = ZC_BLOCK_READ_ONLY);
        NOT((pinned.flags = ZC_BLOCK_FOREIGN, pinned.api = ZC_API_cuMemCreate));
        NOT(fake.stuck = true);
        NOT(pinned.size = 64 * MIB - 1);
        NOT((pinned.size = 64 * MIB, h->address++));
        NOT(allocated.size = 64 * MIB - 1);
        NOT(allocated.flags = ZC_BLOCK_CONVERTED);
        NOT(allocated.flags = ZC_BLOCK_STREAM);
        NOT(allocated.flags = ZC_BLOCK_FOREIGN);
        NOT(allocated.api = ZC_API_cuMemAllocManaged);
        NOT(allocated.device = ZC_LINKS_MAX);
        NOT((c.src = c.dst));
        NOT((c.dst = c.src));
        anew(NULL);
        c = copy_of(64 * MIB, in);
        allocated.device = ZC_LINKS_MAX - 1;
        pinned.size = 64 * MIB + 1;
        h->address++;
        assert_true(fits(&c, OWN_CONTEXT));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_of_copies_in_a_row_arrives_in_its_turn),
        TEST(whichever_call_fails_a_copy_arrives_or_says_so),
        TEST(what_leaves_and_what_comes_take_slots_of_their_own),
        TEST(what_the_own_link_refuses_no_other_moves),
        TEST(a_context_that_is_refused_is_said_and_not_asked_for_again),
        TEST(a_link_without_an_event_behind_its_work_is_waited_for),
        TEST(a_link_of_which_nothing_is_known_is_lost),
        TEST(a_program_may_use_any_device),
        TEST(calls_that_wait_and_pageable_memory_have_their_bytes_at_the_end),
        TEST(peer_access_that_is_there_is_used),
        TEST(a_link_that_works_for_another_stream_is_left_alone),
        TEST(peer_access_goes_with_a_context_and_is_asked_for_again),
        TEST(links_carry_lines_between_pinned_memory_and_a_block_of_the_context),
    };
    return RUN_TESTS(tests);
}
