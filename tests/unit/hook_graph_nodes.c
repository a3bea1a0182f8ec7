/* SPDX-License-Identifier: MIT */
/* Graphs as they are read before a launch: their copies, kernels, and the graphs inside them. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "base_test.h"

#include <string.h>

#include "base/arena.h"
#include "base/life.h"
#include "driver/await.h"
#include "hook/copy.h"
#include "hook/graph.h"
#include "place/migrate.h"
#include "real_test.h"

enum { GRAPHS = 8, NODES = 24 };

/* A graph's handle is its number, a node's 100 times that and its own. */
#define GRAPH(n) ((CUgraph)(uintptr_t)(n))
#define NODE(g, n) ((CUgraphNode)(uintptr_t)(100 * (g) + (n) + 1))

static struct {
    struct {
        CUgraphNodeType type;
        unsigned child; /* Of a child graph. */
        size_t bytes;
    } node[GRAPHS][NODES];
    unsigned count[GRAPHS];
    CUgraph nodes_of_nothing; /* Whose list is refused, or is shorter at the second time. */
    bool shorter, moves;
    CUresult child, copy_params, type;
    CUgraphNode child_refused;
    unsigned kept, in_graphs, resolved, kernels, kernel_params, short_of_memory;
    size_t live;
    CUfunction function;
    void **arguments, **extra;
    CUcontext of;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
} has;

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    unsigned g = (unsigned)(uintptr_t)graph;
    assert_true(g > 0 && g < GRAPHS);
    if (graph == has.nodes_of_nothing && (!has.shorter || nodes)) {
        *count = has.shorter ? 1 : 7;
        return has.shorter ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (!nodes) {
        *count = has.count[g];
        return CUDA_SUCCESS;
    }
    assert_int_equal(*count, has.count[g]);
    for (unsigned i = 0; i < *count; i++)
        nodes[i] = NODE(g, i);
    return CUDA_SUCCESS;
}

static unsigned graph_of(CUgraphNode node)
{
    return (unsigned)(((uintptr_t)node - 1) / 100);
}

static unsigned place_of(CUgraphNode node)
{
    return (unsigned)(((uintptr_t)node - 1) % 100);
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *type)
{
    *type = has.node[graph_of(node)][place_of(node)].type;
    return has.type;
}

static CUresult get_child(CUgraphNode node, CUgraph *graph)
{
    *graph = GRAPH(has.node[graph_of(node)][place_of(node)].child);
    return node == has.child_refused ? CUDA_ERROR_INVALID_VALUE : has.child;
}

static CUresult get_copy(CUgraphNode node, CUDA_MEMCPY3D *p)
{
    memset(p, 0, sizeof(*p));
    p->WidthInBytes = has.node[graph_of(node)][place_of(node)].bytes;
    p->Height = p->Depth = 1;
    p->srcMemoryType = CU_MEMORYTYPE_HOST;
    p->srcHost = (void *)0x5000;
    p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p->dstDevice = 0x6000;
    return has.copy_params;
}

static CUresult get_set(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
    memset(p, 0, sizeof(*p));
    p->dst = 0x7000;
    p->elementSize = 1;
    p->width = has.node[graph_of(node)][place_of(node)].bytes;
    p->height = 1;
    return has.copy_params;
}

static CUresult get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    (void)node;
    has.kernel_params++;
    *p = has.kernel;
    return CUDA_SUCCESS;
}

static void fake_resolve(struct zc_copy *c)
{
    assert_int_equal(c->fn, ZC_FN_cuGraphLaunch);
    c->dst.asked = ZC_KIND_DEVICE;
    c->dst.real = ZC_KIND_PINNED;
    has.resolved++;
}

static void fake_note(struct zc_launch_graph *graph, const struct zc_launch *launch, CUcontext of)
{
    (void)graph;
    has.of = of;
    has.function = launch->function;
    has.arguments = launch->arguments;
    has.extra = launch->extra;
    has.kernels++;
}

static bool fake_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    if (has.short_of_memory && --has.short_of_memory == 0)
        return false;
    unsigned before = *room;
    bool done = zc_arena_extend(array, room, count, bytes, first);
    has.live += (*room - before) * bytes;
    return done;
}

static void *fake_get(size_t n)
{
    if (has.short_of_memory && --has.short_of_memory == 0)
        return NULL;
    assert_true(n > 0);
    has.live += n;
    return zc_arena_get(n);
}

static void fake_put(void *p, size_t n)
{
    has.live -= p ? n : 0;
    zc_arena_put(p, n);
}

#define zc_copy_resolve fake_resolve
#define zc_sides_in_graph(c) (has.in_graphs++)
#define zc_migrate_any() (has.moves)
#define zc_migrate_note fake_note
#define zc_migrate_keep_all(fn) (has.kept += (fn) == ZC_FN_cuGraphLaunch)
#define zc_arena_extend fake_extend
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#include "../../shim/hook/graph_nodes.c"

static int anew(void **state)
{
    (void)state;
    memset(&has, 0, sizeof(has));
    real_without_driver();
    zc_life_state = ZC_LIFE_ON;
    zc_real.cuGraphGetNodes = get_nodes;
    zc_real.cuGraphNodeGetType = get_type;
    zc_real.cuGraphChildGraphNodeGetGraph = get_child;
    zc_real.cuGraphMemcpyNodeGetParams = get_copy;
    zc_real.cuGraphMemsetNodeGetParams = (void *)get_set;
    zc_real.cuGraphKernelNodeGetParams_v2 = get_kernel;
    return 0;
}

static void add(unsigned graph, CUgraphNodeType type, size_t bytes, unsigned child)
{
    unsigned i = has.count[graph]++;
    assert_true(i < NODES);
    has.node[graph][i].type = type;
    has.node[graph][i].bytes = bytes;
    has.node[graph][i].child = child;
}

static struct zc_graph_nodes read_graph(unsigned named, unsigned given)
{
    struct zc_graph_nodes nodes = {0};
    zc_graph_read(&nodes, GRAPH(named), GRAPH(given));
    return nodes;
}

static void drop(struct zc_graph_nodes *nodes)
{
    zc_graph_drop(nodes);
    assert_int_equal(has.live, 0);
}

static void
copies_between_managed_and_pinned_memory_name_the_block_that_is_so_by_a_rule(void **state)
{
    static const struct {
        enum zc_kind managed_asked, managed_real, host_asked, host_real;
        CUdeviceptr frail;
    } rows[] = {
#define ROW(a, b, c, d, frail) {ZC_KIND_##a, ZC_KIND_##b, ZC_KIND_##c, ZC_KIND_##d, frail}
        ROW(DEVICE, MANAGED, PINNED, PINNED, 1),   ROW(DEVICE, MANAGED, PAGEABLE, PAGEABLE, 0),
        ROW(DEVICE, MANAGED, PAGEABLE, PINNED, 1), ROW(MANAGED, MANAGED, PAGEABLE, PINNED, 2),
        ROW(MANAGED, MANAGED, PINNED, PINNED, 0),  ROW(DEVICE, DEVICE, PINNED, PINNED, 0),
        ROW(DEVICE, MANAGED, DEVICE, MANAGED, 0),  ROW(DEVICE, MANAGED, PINNED, PAGEABLE, 0)};
    (void)state;
    for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_copy c = {.shape = ZC_SHAPE_LINE};
        struct zc_operand *managed = i % 2 ? &c.dst : &c.src, *host = i % 2 ? &c.src : &c.dst;
        *managed = (struct zc_operand){
            .address = 1, .asked = rows[i / 2].managed_asked, .real = rows[i / 2].managed_real};
        *host = (struct zc_operand){
            .address = 2, .asked = rows[i / 2].host_asked, .real = rows[i / 2].host_real};
        assert_int_equal(frail_by(&c), rows[i / 2].frail);
    }
}

static void copies_and_sets_are_described_by_their_nodes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++)
        add(1, i % 2 ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY, 10 + i, 0);
    struct zc_graph_nodes nodes = read_graph(1, 1);
    assert_true(nodes.count == 20 && !nodes.awaits && !nodes.unknown && has.kept == 0);
    assert_true(has.resolved == 20 && has.in_graphs == 20);
    for (unsigned i = 0; i < 20; i++) {
        const struct zc_graph_copy *c = &nodes.copy[i];
        assert_true(c->id == NODE(1, i) && c->bytes == 10 + i);
        assert_int_equal(c->dst, i % 2 ? 0x7000 : 0x6000);
        assert_int_equal(c->src, i % 2 ? 0 : 0x5000);
        enum zc_dir asked = i % 2 ? ZC_DIR_MEMSET : ZC_DIR_HTOD;
        enum zc_dir real = i % 2 ? ZC_DIR_MEMSET : ZC_DIR_HTOH;
        assert_int_equal(zc_flow_dir(c->asked), asked);
        assert_int_equal(zc_flow_dir(c->real), real);
        assert_int_equal(zc_flow_dst(c->asked), ZC_KIND_DEVICE);
        assert_int_equal(zc_flow_dst(c->real), ZC_KIND_PINNED);
    }
    drop(&nodes);
    has.copy_params = CUDA_ERROR_INVALID_VALUE;
    nodes = read_graph(1, 1);
    assert_true(nodes.count == 0 && has.resolved == 20);
    drop(&nodes);
    has.copy_params = CUDA_SUCCESS;
    has.type = CUDA_ERROR_INVALID_VALUE;
    nodes = read_graph(1, 1);
    assert_true(nodes.count == 0 && has.resolved == 20);
    drop(&nodes);
}

static void kernels_tell_their_arguments_where_blocks_move(void **state)
{
    void *arguments[1], *extra[1];
    (void)state;
    add(1, CU_GRAPH_NODE_TYPE_KERNEL, 0, 0);
    struct zc_graph_nodes nodes = read_graph(1, 1);
    assert_true(has.kernels == 0 && has.kernel_params == 0);
    has.moves = true;
    has.kernel = (CUDA_KERNEL_NODE_PARAMS_v2){.func = (CUfunction)0x11,
                                              .kern = (CUkernel)0x12,
                                              .ctx = (CUcontext)0x13,
                                              .kernelParams = arguments,
                                              .extra = extra};
    nodes = read_graph(1, 1);
    assert_true(has.kernels == 1 && has.function == (CUfunction)0x11);
    assert_true(has.arguments == arguments && has.extra == extra && nodes.count == 0);
    assert_ptr_equal(has.of, (CUcontext)0x13);
    has.kernel.func = NULL;
    nodes = read_graph(1, 1);
    assert_true(has.function == (CUfunction)0x12 && has.kept == 0 && !nodes.awaits);
    drop(&nodes);
}

static void nodes_that_hide_work_keep_blocks_where_they_are(void **state)
{
    static const struct {
        CUgraphNodeType type;
        bool hides, unknown;
    } rows[] = {{CU_GRAPH_NODE_TYPE_HOST, true, false},
                {CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, true, false},
                {CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, true, false},
                {CU_GRAPH_NODE_TYPE_CONDITIONAL, true, false},
                {(CUgraphNodeType)(CU_GRAPH_NODE_TYPE_CONDITIONAL + 1), true, true},
                {CU_GRAPH_NODE_TYPE_EMPTY, false, false},
                {CU_GRAPH_NODE_TYPE_EVENT_RECORD, false, false}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        has.moves = true;
        add(1, rows[i].type, 0, 0);
        add(1, CU_GRAPH_NODE_TYPE_EMPTY, 0, 0); /* A later node changes nothing. */
        struct zc_graph_nodes nodes = read_graph(1, 1);
        assert_true(nodes.awaits == rows[i].hides && nodes.unknown == rows[i].unknown);
        assert_int_equal(has.kept, rows[i].hides);
        assert_true(nodes.count == 0 && has.kernels == 0);
        drop(&nodes);
    }
}

/* An executable graph has the nodes of the graph that it was made of, with other parameters. */
static void nodes_have_the_names_of_one_graph_and_the_content_of_another(void **state)
{
    (void)state;
    add(1, CU_GRAPH_NODE_TYPE_MEMCPY, 1, 0);
    add(1, CU_GRAPH_NODE_TYPE_GRAPH, 0, 3);
    add(3, CU_GRAPH_NODE_TYPE_MEMCPY, 3, 0);
    add(2, CU_GRAPH_NODE_TYPE_MEMCPY, 2, 0);
    add(2, CU_GRAPH_NODE_TYPE_GRAPH, 0, 4);
    add(4, CU_GRAPH_NODE_TYPE_MEMCPY, 4, 0);
    struct zc_graph_nodes nodes = read_graph(1, 2);
    assert_int_equal(nodes.count, 2);
    assert_true(nodes.copy[0].id == NODE(1, 0) && nodes.copy[0].bytes == 2);
    assert_true(nodes.copy[1].id == NODE(3, 0) && nodes.copy[1].bytes == 4);
    drop(&nodes);
    for (unsigned i = 0; i < 2; i++) { /* Neither is read if the driver tells one alone. */
        has.child_refused = NODE(1 + i, 1);
        nodes = read_graph(1, 2);
        assert_int_equal(nodes.count, 1);
        drop(&nodes);
    }
    has.child_refused = NULL;
    add(2, CU_GRAPH_NODE_TYPE_MEMCPY, 9, 0); /* Another shape. */
    nodes = read_graph(1, 2);
    assert_int_equal(nodes.count, 0);
    drop(&nodes);
    has.node[1][1].child = 0; /* No graph. */
    nodes = read_graph(1, 1);
    assert_int_equal(nodes.count, 1);
    drop(&nodes);
    nodes = read_graph(1, 0);
    assert_int_equal(nodes.count, 0);
    nodes = read_graph(0, 1);
    assert_int_equal(nodes.count, 0);
    drop(&nodes);
}

static void graphs_lie_in_each_other_as_deep_as_they_like(void **state)
{
    (void)state;
    for (unsigned g = 1; g < GRAPHS; g++) {
        add(g, CU_GRAPH_NODE_TYPE_MEMCPY, g, 0);
        for (unsigned i = 0; i < 2 && g + 1 < GRAPHS; i++)
            add(g, CU_GRAPH_NODE_TYPE_GRAPH, 0, g + 1);
    }
    struct zc_graph_nodes nodes = read_graph(1, 1);
    assert_int_equal(nodes.count, (1u << (GRAPHS - 1)) - 1);
    drop(&nodes);
}

static void a_list_that_the_driver_does_not_tell_is_none(void **state)
{
    (void)state;
    add(1, CU_GRAPH_NODE_TYPE_MEMCPY, 1, 0);
    add(1, CU_GRAPH_NODE_TYPE_MEMCPY, 2, 0);
    add(2, CU_GRAPH_NODE_TYPE_MEMCPY, 1, 0);
    add(2, CU_GRAPH_NODE_TYPE_MEMCPY, 2, 0);
    for (unsigned i = 0; i < 8; i++) {
        has.nodes_of_nothing = GRAPH(1 + (i & 1));
        has.shorter = i & 2; /* Another thread takes one away. */
        struct zc_graph_nodes nodes = i & 4 ? read_graph(1, 2) : read_graph(2, 1);
        assert_int_equal(nodes.count, 0);
        drop(&nodes);
    }
    has.nodes_of_nothing = NULL;
    struct zc_graph_nodes nodes = read_graph(3, 3); /* Has none. */
    assert_int_equal(nodes.count, 0);
    drop(&nodes);
    for (unsigned fail = 1; fail < 6; fail++) {
        has.short_of_memory = fail;
        nodes = read_graph(1, 2);
        assert_true(nodes.count < 2 || fail > 5 || has.short_of_memory);
        has.short_of_memory = 0;
        drop(&nodes);
    }
}

#define TEST(f) cmocka_unit_test_setup(f, anew)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(copies_and_sets_are_described_by_their_nodes),
        TEST(copies_between_managed_and_pinned_memory_name_the_block_that_is_so_by_a_rule),
        TEST(kernels_tell_their_arguments_where_blocks_move),
        TEST(nodes_that_hide_work_keep_blocks_where_they_are),
        TEST(nodes_have_the_names_of_one_graph_and_the_content_of_another),
        TEST(graphs_lie_in_each_other_as_deep_as_they_like),
        TEST(a_list_that_the_driver_does_not_tell_is_none),
    };
    return RUN_TESTS(tests);
}
