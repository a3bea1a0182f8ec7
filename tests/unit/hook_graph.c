/* SPDX-License-Identifier: MIT */
/* Graphs: what an executable one copies is known from its making to its end, made ready before each
 * launch, and counted behind it. */
#include "hook_graph_test.h"

/* Behind it nothing is zero that nobody has set. */
static __attribute__((noinline)) void spoil_the_stack(void)
{
    volatile unsigned char junk[8192];
    for (size_t i = 0; i < sizeof(junk); i++)
        junk[i] = 0xff;
}

static void each_launch_of_a_graph_makes_its_copies_ready_and_counts_them(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
        assert_told(READY "hold; driver; unhold; " BOTH);
    }
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_UNKNOWN);
    assert_told(READY "hold; driver; unhold");
    hook.driver = CUDA_SUCCESS;
    spoil_the_stack();
    assert_int_equal(launch(EXEC(2)), CUDA_SUCCESS); /* A graph that nobody has read. */
    hook_off();
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told("hold; driver; unhold; hold; driver; unhold");
}

static void the_log_has_each_copy_and_from_requests_on_its_site(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    zc_log_level_now = ZC_LOG_ALLOCS;
    assert_string_equal(counted(EXEC(1)), "counts 10 of 0 to 1, 300 ticks, site; "
                                          "counts 11 of 2 to 1, 0 ticks, site");
    zc_log_level_now = ZC_LOG_EVENTS;
    assert_string_equal(counted(EXEC(1)),
                        "counts 10 of 0 to 1, 300 ticks, site; line 10000000<8000+10; "
                        "counts 11 of 2 to 1, 0 ticks, site; line 10000001<20000001+11");
}

static void a_graph_that_goes_is_forgotten_and_its_handle_may_be_another_s(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    has.copies = 1;
    zc_graph_note(EXEC(2), GRAPH);
    zc_graph_note(EXEC(1), GRAPH);
    assert_string_equal(counted(EXEC(1)), "counts 10 of 0 to 1, 300 ticks");
    zc_graph_forget(EXEC(1));
    assert_string_equal(counted(EXEC(1)), "");
    assert_string_equal(counted(EXEC(2)), "counts 10 of 0 to 1, 300 ticks");
    zc_graph_forget(EXEC(1));
    zc_graph_forget(EXEC(2));
    assert_int_equal(has.live, 0);
    has.copies = 0;
    zc_graph_note(EXEC(1), GRAPH);
    assert_string_equal(counted(EXEC(1)), "");
}

static void without_memory_or_the_lock_graphs_run_uncounted(void **state)
{
    (void)state;
    has.no_memory = true;
    zc_graph_note(EXEC(1), GRAPH);
    assert_string_equal(counted(EXEC(1)), "");
    has.no_memory = false;
    zc_graph_note(EXEC(1), GRAPH);
    has.no_lock = true;
    zc_graph_note(EXEC(2), GRAPH);
    assert_string_equal(counted(EXEC(1)), "");
    has.no_lock = false;
    assert_string_equal(counted(EXEC(2)), "");
    has.no_memory = true; /* Of the snapshot. */
    assert_string_equal(counted(EXEC(1)), "");
    has.no_memory = false;
    assert_string_equal(counted(EXEC(1)), BOTH);
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
}

static void blocks_of_a_watched_graph_are_what_the_program_takes_them_for(void **state)
{
    (void)state;
    has.copies = 1;
    has.graph_named = true;
    zc_graph_note(EXEC(1), GRAPH);
    has.graph_named = false;
    zc_graph_note(EXEC(2), GRAPH);
    zc_launch_watch = 1;
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told("prepare for its blocks; retreat of 1, kept: a graph copies it; ready 10000000; "
                "ready 8000, read; hold; driver; unhold; done; counts 10 of 0 to 1, 300 ticks");
    hook.retreat = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(launch(EXEC(2)), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("prepare; retreat of 1, kept: a graph copies it; done");
    has.prepared = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(launch(EXEC(2)), CUDA_ERROR_NOT_PERMITTED);
    assert_told("prepare; done");
}

static void a_source_that_a_graph_lacks_is_not_made_ready_as_a_block(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    CUDA_MEMSET_NODE_PARAMS set = {.dst = HOOK_BLOCK(0), .elementSize = 1, .width = 5, .height = 1};
    hook_block[2].base = 0; /* A block at address 0 would be one of nobody's. */
    zc_launch_watch = 1;
    has.copies = 1;
    zc_graph_note(EXEC(1), GRAPH);
    zc_do_cuGraphExecMemsetNodeSetParams((void *)set_copy, &entry, EXEC(1), NODE(1), &set, CONTEXT);
    hook_told[0] = '\0';
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told("prepare; retreat of 1, kept: a graph copies it; ready 10000000; ready 0, read; "
                "hold; driver; unhold; done; counts 5 of 0 to 1, 300 ticks");
}

static void a_graph_that_can_t_be_made_ready_is_not_launched(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    has.stale = HOOK_BLOCK(0) + 1;
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_UNKNOWN);
    assert_told("ready 10000000; ready 8000, read; ready 10000001");
    has.stale = 0;
    has.graph_unknown = has.graph_awaits = true;
    zc_graph_note(EXEC(1), GRAPH);
    has.drained = CUDA_ERROR_NOT_PERMITTED;
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_NOT_PERMITTED);
    assert_told("unknown value; " READY "drained");
    has.value = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_NOT_SUPPORTED);
    assert_told("unknown value");
    has.value = has.drained = CUDA_SUCCESS;
    assert_string_equal(counted(EXEC(1)), BOTH);
}

static void a_source_that_looks_pageable_has_been_read_when_the_launch_returns(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    has.late = OUTSIDE;
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told(READY "hold; driver; unhold; waits; " BOTH);
    has.waited = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_LAUNCH_FAILED);
    hook.driver = CUDA_ERROR_UNKNOWN;
    hook_told[0] = '\0';
    assert_int_equal(launch(EXEC(1)), CUDA_ERROR_UNKNOWN);
    assert_told(READY "hold; driver; unhold");
    hook.driver = CUDA_SUCCESS;
    has.awaits = true; /* The stream may wait for what the program does next. */
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told(READY "hold; driver; unhold; message graph; " BOTH);
    has.quiet = true;
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    has.quiet = has.awaits = false;
    hook.capture = true;
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    hook.capture = false;
    has.closing = true;
    assert_int_equal(launch(EXEC(1)), CUDA_SUCCESS);
    assert_told(READY "hold; driver; unhold; " BOTH "; " READY "hold; driver; unhold; " BOTH
                      "; " READY "hold; driver; unhold; " BOTH);
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_launch_of_a_graph_makes_its_copies_ready_and_counts_them),
        TEST(the_log_has_each_copy_and_from_requests_on_its_site),
        TEST(a_graph_that_goes_is_forgotten_and_its_handle_may_be_another_s),
        TEST(without_memory_or_the_lock_graphs_run_uncounted),
        TEST(blocks_of_a_watched_graph_are_what_the_program_takes_them_for),
        TEST(a_source_that_a_graph_lacks_is_not_made_ready_as_a_block),
        TEST(a_graph_that_can_t_be_made_ready_is_not_launched),
        TEST(a_source_that_looks_pageable_has_been_read_when_the_launch_returns),
    };
    return RUN_TESTS(tests);
}
