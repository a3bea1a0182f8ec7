/* SPDX-License-Identifier: MIT */
/* Nodes that are added to graphs, and those of executable graphs that change. */
#include "hook_graph_test.h"

static const CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = (void *)OUTSIDE,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = HOOK_BLOCK(2),
                                  .WidthInBytes = 77,
                                  .Height = 1,
                                  .Depth = 1};

static CUresult set_any(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    (void)p;
    return set_copy(exec, node, NULL, NULL);
}

static CUresult set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    (void)child;
    return set_copy(exec, node, NULL, NULL);
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                         size_t count, CUgraphNodeParams *p)
{
    (void)node, (void)graph, (void)dependencies, (void)count;
    tell("driver adds");
    if (p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        p->alloc.dptr = OUTSIDE;
    return hook.driver;
}

static CUresult add_node_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                            const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p)
{
    (void)edges;
    return add_node(node, graph, dependencies, count, p);
}

static CUresult change(CUgraphNode node, const CUDA_MEMCPY3D *p)
{
    hook_told[0] = '\0';
    return zc_do_cuGraphExecMemcpyNodeSetParams(set_copy, &entry, EXEC(1), node, p, CONTEXT);
}

static void a_changed_node_counts_as_what_it_copies_now(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    assert_int_equal(change(NODE(2), &box), CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 10 of 0 to 1, 300 ticks; "
                                          "counts 77 of 0 to 3, 0 ticks");
    zc_graph_note(EXEC(1), GRAPH);
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_told("before 77; driver sets");
    assert_string_equal(counted(EXEC(1)), "counts 77 of 0 to 3, 300 ticks; "
                                          "counts 11 of 2 to 1, 0 ticks");
    CUDA_MEMSET_NODE_PARAMS set = {.dst = HOOK_BLOCK(0), .elementSize = 1, .width = 5, .height = 1};
    assert_int_equal(zc_do_cuGraphExecMemsetNodeSetParams((void *)set_copy, &entry, EXEC(1),
                                                          NODE(2), &set, CONTEXT),
                     CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 77 of 0 to 3, 300 ticks; "
                                          "counts 5 of 0 to 1, 0 ticks");
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
}

static void a_change_that_is_none_leaves_the_graph_as_it_was(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_UNKNOWN);
    assert_told("before 77; driver sets; after 999");
    assert_int_equal(change(NODE(3), &box), CUDA_ERROR_UNKNOWN); /* It has no such node. */
    assert_told("before 77; driver sets; after 999, explained");
    CUDA_MEMCPY3D rows = box;
    rows.Height = rows.Depth = rows.srcHeight = rows.dstHeight = 2;
    rows.srcPitch = rows.dstPitch = 77;
    assert_int_equal(change(NODE(1), &rows), CUDA_ERROR_UNKNOWN); /* Rows stay as they are. */
    assert_told("before 308; driver sets; after 999, explained");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(change(NODE(1), NULL), CUDA_SUCCESS);
    assert_told("driver sets");
    has.other_type = true;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_told("driver sets");
    has.other_type = false;
    has.refuses = true;
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_NOT_PERMITTED);
    assert_told("before 77");
    has.refuses = false;
    has.made = true;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_told("before 77");
    has.made = false;
    hook.driver = CUDA_SUCCESS;
    assert_string_equal(counted(EXEC(1)), BOTH);
    hook_off();
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    zc_life_state = ZC_LIFE_ON;
    assert_string_equal(counted(EXEC(1)), BOTH);
    has.copies = 0; /* Nor has it one where nothing copies. */
    zc_graph_note(EXEC(1), GRAPH);
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_UNKNOWN);
    assert_told("before 77; driver sets; after 999, explained");
    /* Of a graph that was not read nobody knows which nodes it has. */
    hook.driver = CUDA_ERROR_UNKNOWN;
    zc_graph_forget(EXEC(1));
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_UNKNOWN);
    assert_told("before 77; driver sets; after 999");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_int_equal(has.live, 0);
}

static void a_changed_node_that_there_is_no_memory_for_counts_as_before(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), GRAPH);
    has.no_memory = true;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    has.no_memory = false;
    assert_string_equal(counted(EXEC(1)), BOTH);
    assert_int_equal(change(NODE(9), &box), CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), BOTH);
}

/* Makes a graph whose copies can't become some of pageable memory. */
static void make_frail(void)
{
    has.to_pageable = has.from_pageable = false;
    has.frail = HOOK_BLOCK(1);
    zc_graph_note(EXEC(1), GRAPH);
    has.frail = 0;
}

static void a_copy_is_not_changed_to_one_that_a_launch_fails_at(void **state)
{
    (void)state;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = box};
    make_frail();
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    has.from_pageable = true; /* It stays so, whatever it was changed to meanwhile. */
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_INVALID_VALUE);
    assert_told("before 77; frail by 20000000, then 30000000: 1; after 1, explained");
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(2), &p),
                     CUDA_ERROR_INVALID_VALUE);
    has.from_pageable = false;
    has.to_pageable = true;
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_INVALID_VALUE);
    assert_told("before 77; frail by 20000000, then 8000: 1; after 1, explained");
    assert_int_equal(
        zc_do_cuGraphExecChildGraphNodeSetParams(set_child, &entry, EXEC(1), NODE(9), OTHER),
        CUDA_ERROR_INVALID_VALUE);
    assert_told("frail by 20000000, then 0: 1; after 1, explained");
    has.frail = 0;
    zc_graph_note(EXEC(1), GRAPH);
    has.frail = HOOK_BLOCK(1); /* A copy that was made otherwise may become such a one, */
    has.to_pageable = false;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    has.to_pageable = true; /* and go back. */
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
}

static CUresult update_it(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    (void)exec, (void)graph, (void)info;
    assert_false(has.locked);
    tell("driver updates");
    return hook.driver;
}

static CUresult update_old(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
                           CUgraphExecUpdateResult *reason)
{
    (void)node, (void)reason;
    return update_it(exec, graph, NULL);
}

static CUresult update(CUgraphExecUpdateResultInfo *info)
{
    hook_told[0] = '\0';
    return zc_do_cuGraphExecUpdate_v2(update_it, &entry, EXEC(1), GRAPH, info);
}

static void an_update_to_what_a_launch_fails_at_is_answered_as_the_driver_s_refusals(void **state)
{
    (void)state;
    CUgraphExecUpdateResultInfo info = {.errorFromNode = NODE(7)};
    CUgraphExecUpdateResult reason;
    CUgraphNode node;
    make_frail();
    assert_int_equal(update(&info), CUDA_SUCCESS);
    assert_told("driver updates");
    has.to_pageable = true;
    assert_int_equal(update(&info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_told("frail by 20000000, then 8000: 910; after 910, explained");
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_true(info.errorNode == NODE(1) && !info.errorFromNode);
    assert_int_equal(update(NULL), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    for (int asks = 0; asks < 2; asks++)
        assert_int_equal(zc_do_cuGraphExecUpdate(update_old, &entry, EXEC(1), GRAPH,
                                                 asks ? &node : NULL, asks ? &reason : NULL),
                         CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_true(node == NODE(1) && reason == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    has.copies++; /* The driver refuses this in any memory. */
    hook.driver = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    assert_int_equal(update(NULL), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_told("driver updates; after 910");
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
}

static void an_update_changes_what_the_nodes_do_and_not_how_they_are_named(void **state)
{
    (void)state;
    zc_graph_note(EXEC(1), CHILD); /* It copies something else. */
    assert_int_equal(zc_do_cuGraphExecUpdate_v2(update_it, &entry, EXEC(1), OTHER, NULL),
                     CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), BOTH);
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 77 of 0 to 3, 300 ticks; "
                                          "counts 11 of 2 to 1, 0 ticks");
    has.copies = 1; /* Not all could be read. */
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(zc_do_cuGraphExecUpdate_v2(update_it, &entry, EXEC(1), GRAPH, NULL),
                     CUDA_ERROR_UNKNOWN);
    hook.driver = CUDA_SUCCESS;
    assert_string_equal(counted(EXEC(1)), "counts 77 of 0 to 3, 300 ticks; "
                                          "counts 11 of 2 to 1, 0 ticks");
    assert_int_equal(zc_do_cuGraphExecUpdate_v2(update_it, &entry, EXEC(1), GRAPH, NULL),
                     CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 10 of 0 to 1, 300 ticks");
    hook_off();
    assert_int_equal(zc_do_cuGraphExecUpdate_v2(update_it, &entry, EXEC(1), GRAPH, NULL),
                     CUDA_SUCCESS);
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
}

static void another_child_graph_counts_as_what_it_copies(void **state)
{
    (void)state;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = OTHER};
    has.copies = 3;
    zc_graph_note(EXEC(1), GRAPH);
    has.no_child = true;
#define SET_CHILD                                                                                  \
    zc_do_cuGraphExecChildGraphNodeSetParams(set_child, &entry, EXEC(1), NODE(9), OTHER)
    assert_int_equal(SET_CHILD, CUDA_SUCCESS);
    has.no_child = false;
    hook.driver = CUDA_ERROR_UNKNOWN;
    assert_int_equal(SET_CHILD, CUDA_ERROR_UNKNOWN);
    hook.driver = CUDA_SUCCESS;
    assert_string_equal(counted(EXEC(1)), BOTH "; counts 12 of 2 to 1, 0 ticks");
    assert_int_equal(SET_CHILD, CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 99 of 0 to 3, 300 ticks; "
                                          "counts 97 of 0 to 3, 0 ticks; "
                                          "counts 12 of 2 to 1, 0 ticks");
    zc_graph_note(EXEC(1), GRAPH);
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(9), &p),
                     CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 99 of 0 to 3, 300 ticks; "
                                          "counts 97 of 0 to 3, 0 ticks; "
                                          "counts 12 of 2 to 1, 0 ticks");
    zc_graph_forget(EXEC(1));
    assert_int_equal(has.live, 0);
    hook_off();
    assert_int_equal(SET_CHILD, CUDA_SUCCESS);
    assert_int_equal(has.live, 0);
}

static void a_node_of_any_type_is_changed_by_its_type(void **state)
{
    (void)state;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = box};
    zc_graph_note(EXEC(1), GRAPH);
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(1), &p),
                     CUDA_SUCCESS);
    assert_told("before 77; driver sets");
    assert_string_equal(counted(EXEC(1)), "counts 77 of 0 to 3, 300 ticks; "
                                          "counts 11 of 2 to 1, 0 ticks");
    hook_told[0] = '\0';
    p.type = CU_GRAPH_NODE_TYPE_KERNEL; /* Its arguments may be any blocks. */
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(1), &p),
                     CUDA_SUCCESS);
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(1), NULL),
                     CUDA_SUCCESS);
    assert_told("all stay; before 0; driver sets; driver sets");
}

static CUresult add_it(CUgraphNode *node, CUgraph graph, CUgraphNodeParams *p)
{
    CUresult result = zc_do_cuGraphAddNode(add_node, &entry, node, graph, NULL, 3, p);
    assert_int_equal(has.behind_count, 3);
    return result;
}

static void a_node_is_prepared_for_before_it_is_added_in_the_context_that_it_names(void **state)
{
    (void)state;
    CUgraphNode node;
    CUgraphNodeParams copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                              .memcpy = {.copyParams = box, .copyCtx = CONTEXT}};
    CUgraphNodeParams set = {
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .memset = {
            .dst = HOOK_BLOCK(0), .elementSize = 1, .width = 4, .height = 1, .ctx = HOOK_HOME}};
    CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    assert_int_equal(add_it(&node, GRAPH, &copy), CUDA_SUCCESS);
    assert_ptr_equal(has.behind, CONTEXT);
    assert_int_equal(add_it(&node, GRAPH, &set), CUDA_SUCCESS);
    assert_ptr_equal(has.behind, HOOK_HOME);
    assert_int_equal(add_it(&node, GRAPH, &empty), CUDA_SUCCESS);
    assert_null(has.behind);
    assert_told("before 77; driver adds; after 0; before 4; driver adds; after 0; "
                "before 0; driver adds; after 0");
    assert_int_equal(add_it(NULL, GRAPH, &copy), CUDA_SUCCESS); /* The driver refuses these. */
    assert_int_equal(add_it(&node, NULL, &copy), CUDA_SUCCESS);
    assert_told("driver adds; after 0; driver adds; after 0");
    assert_int_equal(
        zc_do_cuGraphAddNode_v2(add_node_v2, &entry, &node, NULL, NULL, NULL, 2, &copy),
        CUDA_SUCCESS);
    assert_int_equal(
        zc_do_cuGraphAddNode_v2(add_node_v2, &entry, &node, GRAPH, NULL, NULL, 2, &copy),
        CUDA_SUCCESS);
    assert_told("driver adds; after 0; before 77; driver adds; after 0");
    has.refuses = true;
    assert_int_equal(add_it(&node, GRAPH, &copy), CUDA_ERROR_NOT_PERMITTED);
    has.refuses = false;
    has.made = true;
    assert_int_equal(add_it(&node, GRAPH, &copy), CUDA_SUCCESS);
    assert_told("before 77; before 77");
}

static void memory_that_a_graph_allocates_is_known_once_it_is_there(void **state)
{
    (void)state;
    CUgraphNode node;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .alloc.bytesize = 0x40};
    assert_int_equal(add_it(&node, GRAPH, &p), CUDA_SUCCESS);
    assert_told("before 0; driver adds; tracks 8000+40; after 0");
    hook.driver = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(add_it(&node, GRAPH, &p), CUDA_ERROR_OUT_OF_MEMORY);
    assert_told("before 0; driver adds; after 2");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(add_it(&node, GRAPH, NULL), CUDA_SUCCESS);
    assert_told("driver adds; after 0");
}

#define TEST(name) cmocka_unit_test_setup(name, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_changed_node_counts_as_what_it_copies_now),
        TEST(a_change_that_is_none_leaves_the_graph_as_it_was),
        TEST(a_changed_node_that_there_is_no_memory_for_counts_as_before),
        TEST(a_copy_is_not_changed_to_one_that_a_launch_fails_at),
        TEST(an_update_to_what_a_launch_fails_at_is_answered_as_the_driver_s_refusals),
        TEST(an_update_changes_what_the_nodes_do_and_not_how_they_are_named),
        TEST(another_child_graph_counts_as_what_it_copies),
        TEST(a_node_of_any_type_is_changed_by_its_type),
        TEST(a_node_is_prepared_for_before_it_is_added_in_the_context_that_it_names),
        TEST(memory_that_a_graph_allocates_is_known_once_it_is_there),
    };
    return RUN_TESTS(tests);
}
