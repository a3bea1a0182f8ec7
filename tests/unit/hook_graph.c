/* SPDX-License-Identifier: MIT */
/* Graphs: what an executable one copies is known from its making to its end, made ready before each
 * launch, and counted behind it. */
#include "hook_test.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/message.h"
#include "driver/await.h"
#include "driver/capture.h"
#include "driver/unknown.h"
#include "hook/copy.h"
#include "hook/graph.h"
#include "hook/request.h"
#include "host/source.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "log/ranges.h"
#include "place/migrate.h"

#define EXEC(n) ((CUgraphExec)(0x1000 * (uintptr_t)(n)))
#define NODE(n) ((CUgraphNode)(0x10 * (uintptr_t)(n)))
#define GRAPH ((CUgraph)0x61)
#define CHILD ((CUgraph)0x62) /* As it is named in GRAPH. */
#define OTHER ((CUgraph)0x63) /* Of the same shape. */
#define STREAM ((CUstream)0x5)
#define CONTEXT ((CUcontext)0x7)
#define OUTSIDE ((CUdeviceptr)0x8000)

static struct {
    bool locked, no_lock, no_memory, refuses, made, no_child, awaits, closing, quiet;
    int64_t live;    /* Bytes of the arena that are in use. */
    unsigned copies; /* Of GRAPH. */
    bool graph_awaits, graph_unknown, graph_named, other_type;
    CUresult value, prepared, drained, waited;
    CUdeviceptr stale, late; /* Addresses that can't be made ready; that are read at their turn. */
    uint64_t now;
    CUcontext behind;
    size_t behind_count;
    int sources; /* That were told apart, and not yet counted. */
} has;
static struct zc_rule pageable = {.name = "host", .line = 7};

static bool fake_take(struct zc_lock *l)
{
    (void)l;
    assert_false(has.locked);
    return has.locked = !has.no_lock;
}

static void fake_give(struct zc_lock *l)
{
    (void)l;
    assert_true(has.locked);
    has.locked = false;
}

static void *fake_get(size_t bytes)
{
    void *p = has.no_memory ? NULL : zc_arena_get(bytes);
    has.live += p ? (int64_t)bytes : 0;
    return p;
}

static void fake_put(void *p, size_t bytes)
{
    has.live -= p ? (int64_t)bytes : 0;
    zc_arena_put(p, bytes);
}

static bool fake_extend(void *array, unsigned *room, unsigned count, size_t bytes, unsigned first)
{
    size_t before = *room * bytes;
    if (has.no_memory || !zc_arena_extend(array, room, count, bytes, first))
        return false;
    has.live += (int64_t)(*room * bytes - before);
    return true;
}

static void fake_drop(struct zc_graph_nodes *nodes)
{
    fake_put(nodes->copy, nodes->cap * sizeof(*nodes->copy));
}

static void add(struct zc_graph_nodes *nodes, CUgraphNode id, CUdeviceptr dst, CUdeviceptr src,
                uint64_t bytes)
{
    if (fake_extend(&nodes->copy, &nodes->cap, nodes->count, sizeof(*nodes->copy), 8))
        nodes->copy[nodes->count++] = (struct zc_graph_copy){id, dst, src, 2, 3, bytes};
}

static void fake_read(struct zc_graph_nodes *nodes, CUgraph named, CUgraph given)
{
    assert_false(has.locked);
    if (named == CHILD) { /* Its nodes are the first ones of GRAPH. */
        add(nodes, NODE(1), HOOK_BLOCK(2), 0, given == OTHER ? 99 : 98);
        add(nodes, NODE(2), HOOK_BLOCK(2), 0, 97);
        return;
    }
    for (unsigned i = 0; i < has.copies; i++)
        add(nodes, NODE(i + 1), HOOK_BLOCK(0) + i, i ? HOOK_BLOCK(1) + i : OUTSIDE, 10 + i);
    nodes->awaits = has.graph_awaits;
    nodes->unknown = has.graph_unknown;
    if (has.graph_named)
        nodes->launch = (struct zc_launch_graph){.count = 1, .address = {HOOK_BLOCK(2)}};
}

static void fake_add(struct zc_graph_nodes *nodes, CUgraphNode id, struct zc_copy *c)
{
    add(nodes, id, c->dst.address, c->src.address, c->bytes);
}

static CUresult fake_before(struct zc_copy *c)
{
    tell("before %d", (int)c->bytes);
    has.behind = c->behind ? c->behind->context : NULL;
    has.behind_count = c->behind ? c->behind->count : 0;
    c->made = has.made;
    return has.refuses ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static CUresult fake_after(struct zc_copy *c, CUresult result)
{
    (void)c;
    tell("after %d", result);
    return result;
}

static const CUgraphNodeParams *fake_if(CUgraphNode node, const CUgraphNodeParams *params)
{
    (void)node;
    return has.other_type ? NULL : params;
}

static void fake_foreign(const struct zc_entry *entry, enum zc_api api, CUdeviceptr address,
                         size_t bytes, enum zc_kind kind)
{
    (void)entry;
    assert_true(api == ZC_API_cuGraphAddMemAllocNode && kind == ZC_KIND_DEVICE);
    tell("tracks %llx+%zx", (unsigned long long)address, bytes);
}

static int number(const struct zc_block *block)
{
    return block ? (int)block->id : 0;
}

static void fake_tell(struct zc_transfer *t, uint64_t dst, uint64_t src)
{
    assert_false(has.locked);
    assert_int_equal(number(t->dst), number(hook_find(dst)));
    assert_int_equal(number(t->src), src ? number(hook_find(src)) : 0);
    has.sources++;
}

static void fake_record(const struct zc_transfer *t)
{
    assert_true(t->asked == 2 && t->real == 3 && t->outcome == ZC_MOVED && t->copies == 1);
    assert_int_equal(has.sources--, 1);
    tell("counts %d of %d to %d, %d ticks%s", (int)t->bytes, number(t->src), number(t->dst),
         (int)t->ticks, t->call ? ", site" : "");
}

static void fake_line(const struct zc_transfer *t, const struct zc_log_call *call)
{
    assert_string_equal(call->function, "cuGraphLaunch");
    assert_true(call->stream == ZC_STREAM_CREATED && call->handle == (uintptr_t)STREAM);
    tell("line %llx<%llx+%d", (unsigned long long)call->dst, (unsigned long long)call->src,
         (int)t->bytes);
}

static uint32_t fake_site(void *frame, void *pc)
{
    (void)frame, (void)pc;
    return 5;
}

static CUresult fake_value(enum zc_fn fn)
{
    (void)fn;
    tell("unknown value");
    return has.value;
}

static CUresult fake_side(CUdeviceptr address, enum zc_fn fn, const struct zc_rule **late)
{
    (void)fn;
    tell("ready %llx%s", (unsigned long long)address, late ? ", read" : "");
    if (late && has.late && address == has.late)
        *late = &pageable;
    return has.stale && address == has.stale ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult fake_drain(enum zc_fn fn)
{
    (void)fn;
    tell("drained");
    return has.drained;
}

static CUresult fake_prepare(const struct zc_launch *launch)
{
    assert_true(launch->kernels && launch->stream == STREAM);
    tell("prepare%s", launch->graph ? " for its blocks" : "");
    return has.prepared;
}

static void fake_done(const struct zc_launch *launch)
{
    assert_ptr_equal(launch->stream, STREAM);
    tell("done");
}

static bool fake_holds(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_LEGACY);
    return hook.capture;
}

static CUresult fake_wait(CUstream stream, enum zc_flavour flavour)
{
    assert_true(stream == STREAM && flavour == ZC_LEGACY);
    tell("waits");
    return has.waited;
}

static bool fake_first(const char *code)
{
    assert_string_equal(code, "graph sources");
    return !has.quiet;
}

__attribute__((format(printf, 3, 4))) static void
fake_message(enum zc_severity severity, const char *code, const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    assert_true(severity == ZC_WARN && strstr(text, "rule host (policy:7)"));
    tell("message %s", code);
}

static void fake_keep(enum zc_fn fn)
{
    (void)fn;
    tell("all stay");
}

#define zc_lock_take fake_take
#define zc_lock_drop fake_give
#define zc_arena_get fake_get
#define zc_arena_put fake_put
#define zc_arena_extend fake_extend
#define zc_graph_drop fake_drop
#define zc_graph_read fake_read
#define zc_graph_add fake_add
#define zc_copy_before_node fake_before
#define zc_copy_after_node fake_after
#define zc_describe_if fake_if
#define zc_track_foreign fake_foreign
#define zc_source_tell fake_tell
#define zc_traffic_record fake_record
#define zc_log_transfer fake_line
#define zc_site_here fake_site
#define zc_unknown_value fake_value
#define zc_side_launched fake_side
#define zc_place_drain fake_drain
#define zc_launch_prepare fake_prepare
#define zc_launch_done fake_done
#define zc_capture_holds fake_holds
#define zc_life_closing() (has.closing)
#define zc_await_any() (has.awaits)
#define zc_stream_drain fake_wait
#define zc_message_first fake_first
#define zc_message fake_message
#define zc_migrate_keep_all fake_keep
#define zc_ticks() (has.now)
#include "../../shim/hook/graph.c"

static const struct zc_entry entry = {.fn = ZC_FN_cuGraphLaunch};
static const CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                  .srcHost = (void *)OUTSIDE,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = HOOK_BLOCK(2),
                                  .WidthInBytes = 77,
                                  .Height = 1,
                                  .Depth = 1};

static CUresult launch_it(CUgraphExec exec, CUstream stream)
{
    (void)exec, (void)stream;
    assert_false(has.locked);
    has.now += 300;
    tell("driver");
    return hook.driver;
}

static CUresult set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext c)
{
    (void)exec, (void)node, (void)p, (void)c;
    assert_false(has.locked);
    tell("driver sets");
    return hook.driver;
}

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

static CUresult get_child(CUgraphNode node, CUgraph *graph)
{
    (void)node;
    *graph = CHILD;
    return has.no_child ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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

static int anew(void **state)
{
    (void)state;
    struct exec *x, *next;
    HASH_ITER(hh, execs, x, next) HASH_DELETE(hh, execs, x);
    hook_anew();
    memset(&has, 0, sizeof(has));
    has.copies = 2;
    zc_launch_watch = 0;
    zc_log_level_now = ZC_LOG_SUMMARY;
    zc_rules_read.file = "policy";
    zc_real.cuGraphChildGraphNodeGetGraph = get_child;
    return 0;
}

static CUresult launch(CUgraphExec exec)
{
    return zc_do_cuGraphLaunch(launch_it, &entry, exec, STREAM);
}

/* The copies that a launch counts, and nothing else. */
static const char *counted(CUgraphExec exec)
{
    hook_told[0] = '\0';
    assert_int_equal(launch(exec), CUDA_SUCCESS);
    char *at = strstr(hook_told, "driver");
    char *from = at ? strstr(at, "counts") : NULL;
    return from ? from : "";
}

#define READY "ready 10000000; ready 8000, read; ready 10000001; ready 20000001, read; "
#define BOTH "counts 10 of 0 to 1, 300 ticks; counts 11 of 2 to 1, 0 ticks"

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
    assert_string_equal(counted(EXEC(1)), "counts 11 of 2 to 1, 300 ticks; "
                                          "counts 77 of 0 to 3, 0 ticks");
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
    assert_told("before 77; driver sets");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(change(NODE(1), NULL), CUDA_SUCCESS);
    assert_told("before 0; driver sets");
    has.other_type = true;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_told("before 0; driver sets");
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
    /* Of a graph that was not read nobody knows which nodes it has. */
    hook.driver = CUDA_ERROR_UNKNOWN;
    zc_graph_forget(EXEC(1));
    assert_int_equal(change(NODE(1), &box), CUDA_ERROR_UNKNOWN);
    assert_told("before 77; driver sets; after 999");
    hook.driver = CUDA_SUCCESS;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    assert_int_equal(has.live, 0);
}

static void a_changed_node_that_there_is_no_memory_for_counts_no_more(void **state)
{
    (void)state;
    has.copies = 8; /* As many as there is room for. */
    zc_graph_note(EXEC(1), GRAPH);
    has.no_memory = true;
    assert_int_equal(change(NODE(1), &box), CUDA_SUCCESS);
    has.no_memory = false;
    assert_null(strstr(counted(EXEC(1)), "counts 77"));
    assert_int_equal(change(NODE(9), &box), CUDA_SUCCESS);
    assert_non_null(strstr(counted(EXEC(1)), "counts 77"));
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
    assert_string_equal(counted(EXEC(1)), "counts 12 of 2 to 1, 300 ticks; "
                                          "counts 99 of 0 to 3, 0 ticks; "
                                          "counts 97 of 0 to 3, 0 ticks");
    zc_graph_note(EXEC(1), GRAPH);
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(9), &p),
                     CUDA_SUCCESS);
    assert_string_equal(counted(EXEC(1)), "counts 12 of 2 to 1, 300 ticks; "
                                          "counts 99 of 0 to 3, 0 ticks; "
                                          "counts 97 of 0 to 3, 0 ticks");
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
    assert_string_equal(counted(EXEC(1)), "counts 11 of 2 to 1, 300 ticks; "
                                          "counts 77 of 0 to 3, 0 ticks");
    hook_told[0] = '\0';
    p.type = CU_GRAPH_NODE_TYPE_KERNEL; /* Its arguments may be any blocks. */
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(1), &p),
                     CUDA_SUCCESS);
    assert_int_equal(zc_do_cuGraphExecNodeSetParams(set_any, &entry, EXEC(1), NODE(1), NULL),
                     CUDA_SUCCESS);
    assert_told("all stay; before 0; driver sets; before 0; driver sets");
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
    assert_told("before 0; driver adds; after 0; before 0; driver adds; after 0");
    assert_int_equal(
        zc_do_cuGraphAddNode_v2(add_node_v2, &entry, &node, NULL, NULL, NULL, 2, &copy),
        CUDA_SUCCESS);
    assert_int_equal(
        zc_do_cuGraphAddNode_v2(add_node_v2, &entry, &node, GRAPH, NULL, NULL, 2, &copy),
        CUDA_SUCCESS);
    assert_told("before 0; driver adds; after 0; before 77; driver adds; after 0");
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
    assert_told("before 0; driver adds; after 0");
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
    has.copies = 0;
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
        TEST(a_changed_node_counts_as_what_it_copies_now),
        TEST(a_change_that_is_none_leaves_the_graph_as_it_was),
        TEST(a_changed_node_that_there_is_no_memory_for_counts_no_more),
        TEST(another_child_graph_counts_as_what_it_copies),
        TEST(a_node_of_any_type_is_changed_by_its_type),
        TEST(a_node_is_prepared_for_before_it_is_added_in_the_context_that_it_names),
        TEST(memory_that_a_graph_allocates_is_known_once_it_is_there),
        TEST(blocks_of_a_watched_graph_are_what_the_program_takes_them_for),
        TEST(a_source_that_a_graph_lacks_is_not_made_ready_as_a_block),
        TEST(a_graph_that_can_t_be_made_ready_is_not_launched),
        TEST(a_source_that_looks_pageable_has_been_read_when_the_launch_returns),
    };
    return RUN_TESTS(tests);
}
