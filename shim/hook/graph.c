/* SPDX-License-Identifier: MIT */
/* Graphs: reads the copies and sets of an executable graph when it is made, and counts them at each
 * launch. */
#include "hook/graph.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/own.h"
#include "driver/await.h"
#include "driver/call.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "hook/copy.h"
#include "hook/request.h"
#include "host/hostheap.h"
#include "host/source.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "log/ranges.h"
#include "memory/deep.h"
#include "shared/backing.h"
#include "vmm/move.h"

#define DEPTH_MAX 8 /* Nesting depth of child graphs. */

/* One copy or set of an executable graph. */
struct node {
    CUgraphNode id;       /* The node in the original graph, which updates name. */
    CUdeviceptr dst, src; /* First addresses; 0 for arrays, and for the source of a set. */
    unsigned asked, real; /* Flows, as in struct zc_transfer. */
    uint64_t bytes;       /* Bytes that each launch moves or sets. */
};

struct exec {
    CUgraphExec handle;
    struct node *nodes;
    unsigned count, cap;
    bool awaits; /* A node may wait for the CPU. */
    struct zc_launch_graph launch;
    UT_hash_handle hh;
};

static ZC_LOCK(lock, ZC_RANK_GRAPH);
static ZC_OWN struct exec *execs;

static bool push(struct exec *x, struct node n)
{
    bool added = zc_arena_extend(&x->nodes, &x->cap, x->count, sizeof(n), 8);
    if (added)
        x->nodes[x->count++] = n;
    return added;
}

static struct node node_of(CUgraphNode id, struct zc_copy *c)
{
    struct node n = {.id = id};
    zc_copy_resolve(c);
    n.asked = zc_copy_asked(c);
    n.real = zc_copy_real(c);
    n.dst = c->dst.address;
    n.src = c->src.address;
    n.bytes = c->bytes;
    return n;
}

static void add_address(uint64_t word, void *arg)
{
    struct zc_launch_graph *g = arg;
    const struct zc_block *block = zc_block_find(word);
    if (!zc_move_of(block) || g->count == ZC_LAUNCH_NAMED)
        return;
    for (unsigned i = 0; i < g->count; i++)
        if (g->address[i] == block->base)
            return;
    g->address[g->count++] = block->base;
}

static void read_kernel(struct exec *x, CUgraphNode id)
{
    CUDA_KERNEL_NODE_PARAMS_v2 k;
    if (!__atomic_load_n(&zc_vmm_movable, __ATOMIC_RELAXED) ||
        zc_real.cuGraphKernelNodeGetParams_v2(id, &k) != CUDA_SUCCESS)
        return;
    const struct zc_launch launch = {.function = k.func ? k.func : (CUfunction)k.kern,
                                     .arguments = k.kernelParams,
                                     .extra = k.extra};
    zc_launch_words(&launch, add_address, &x->launch);
    x->launch.kernels = x->launch.kernels * 31 + (uintptr_t)launch.function;
}

static void read_graph(struct exec *x, CUgraph graph, unsigned depth);

static void read_node(struct exec *x, CUgraphNode id, unsigned depth)
{
    CUgraphNodeType type;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraph child;
    struct zc_copy c;
    if (zc_real.cuGraphNodeGetType(id, &type) != CUDA_SUCCESS)
        return;
    x->awaits = x->awaits || zc_await_node(type);
    zc_copy_init(&c, ZC_FN_cuGraphLaunch, ZC_LEGACY);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY &&
        zc_real.cuGraphMemcpyNodeGetParams(id, &copy) == CUDA_SUCCESS) {
        zc_describe_3d(&c, &copy);
        push(x, node_of(id, &c));
    } else if (type == CU_GRAPH_NODE_TYPE_MEMSET &&
               zc_real.cuGraphMemsetNodeGetParams(id, &set) == CUDA_SUCCESS) {
        zc_describe_set_node(&c, &set);
        push(x, node_of(id, &c));
    } else if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        read_kernel(x, id);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEPTH_MAX &&
               zc_real.cuGraphChildGraphNodeGetGraph(id, &child) == CUDA_SUCCESS) {
        read_graph(x, child, depth + 1);
    }
}

static void read_graph(struct exec *x, CUgraph graph, unsigned depth)
{
    size_t count = 0;
    if (zc_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return;
    CUgraphNode *ids = zc_arena_get(count * sizeof(*ids));
    if (!ids)
        return;
    size_t got = count;
    if (zc_real.cuGraphGetNodes(graph, ids, &got) == CUDA_SUCCESS)
        for (size_t i = 0; i < got; i++)
            read_node(x, ids[i], depth);
    zc_arena_put(ids, count * sizeof(*ids));
}

static void drop(struct exec *x)
{
    if (!x)
        return;
    zc_arena_put(x->nodes, x->cap * sizeof(*x->nodes));
    zc_arena_put(x, sizeof(*x));
}

/* Removes an executable graph from the table; the caller frees it. */
static struct exec *take_exec(CUgraphExec handle)
{
    struct exec *x = NULL;
    if (!zc_lock_take(&lock))
        return NULL;
    HASH_FIND_PTR(execs, &handle, x);
    if (x)
        HASH_DELETE(hh, execs, x);
    zc_lock_drop(&lock);
    return x;
}

void zc_graph_note(CUgraphExec handle, CUgraph graph)
{
    drop(take_exec(handle));
    struct exec *x = zc_arena_get(sizeof(*x));
    if (!x)
        return;
    x->handle = handle;
    read_graph(x, graph, 0);
    if (!zc_lock_take(&lock)) {
        drop(x);
        return;
    }
    HASH_ADD_PTR(execs, handle, x);
    zc_lock_drop(&lock);
}

/* Changes one recorded node if the driver did, by a call that `c` describes. */
static CUresult replace(CUgraphExec handle, CUgraphNode id, struct zc_copy *c, CUresult result)
{
    struct exec *x = NULL;
    if (!c->on)
        return result;
    const struct node n = node_of(id, c);
    if (!zc_lock_take(&lock))
        return result;
    HASH_FIND_PTR(execs, &handle, x);
    bool stranger = x; /* The driver refuses such a change in any memory. */
    for (size_t i = 0; x && i < x->count; i++)
        if (x->nodes[i].id == id) {
            stranger = false;
            if (result == CUDA_SUCCESS)
                x->nodes[i] = n;
        }
    zc_lock_drop(&lock);
    return stranger ? result : zc_copy_after_node(c, result);
}

ZC_BODY(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context))
{
    struct zc_copy c;
    zc_copy_init(&c, entry->fn, entry->flavour);
    zc_describe_3d(&c, zc_describe_of_type(node, CU_GRAPH_NODE_TYPE_MEMCPY) ? params : NULL);
    CUresult refused = zc_copy_before_node(&c);
    return refused == CUDA_SUCCESS ? replace(exec, node, &c, real(exec, node, params, context))
                                   : refused;
}

ZC_BODY(cuGraphExecMemsetNodeSetParams, (CUgraphExec exec, CUgraphNode node,
                                         const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context))
{
    struct zc_copy c;
    zc_copy_init(&c, entry->fn, entry->flavour);
    zc_describe_set_node(&c, zc_describe_of_type(node, CU_GRAPH_NODE_TYPE_MEMSET) ? params : NULL);
    CUresult refused = zc_copy_before_node(&c);
    return refused == CUDA_SUCCESS ? replace(exec, node, &c, real(exec, node, params, context))
                                   : refused;
}

/* Calls that take nodes of any type. */
static CUresult before_any(const struct zc_entry *entry, struct zc_copy *c,
                           const CUgraphNodeParams *params)
{
    zc_copy_init(c, entry->fn, entry->flavour);
    zc_describe_node(c, params);
    return zc_copy_before_node(c);
}

static CUresult added(const struct zc_entry *entry, struct zc_copy *c, CUresult result,
                      const CUgraphNodeParams *params)
{
    const struct zc_node_params *p = (const struct zc_node_params *)params;
    if (result == CUDA_SUCCESS && p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        zc_track_foreign(entry, ZC_API_cuGraphAddMemAllocNode, p->alloc.dptr, p->alloc.bytesize,
                         ZC_KIND_DEVICE);
    return zc_copy_after_node(c, result);
}

ZC_BODY(cuGraphAddNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                         size_t count, CUgraphNodeParams *params))
{
    struct zc_copy c;
    CUresult refused = before_any(entry, &c, node && graph ? params : NULL);
    c.behind = ZC_BEHIND(graph, dependencies, count);
    return refused == CUDA_SUCCESS
               ? added(entry, &c, real(node, graph, dependencies, count, params), params)
               : refused;
}

ZC_BODY(cuGraphAddNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                            const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params))
{
    struct zc_copy c;
    CUresult refused = before_any(entry, &c, node && graph ? params : NULL);
    c.behind = &(const struct zc_behind){graph, dependencies, edges, count};
    return refused == CUDA_SUCCESS
               ? added(entry, &c, real(node, graph, dependencies, edges, count, params), params)
               : refused;
}

ZC_BODY(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params))
{
    struct zc_copy c;
    zc_copy_init(&c, entry->fn, entry->flavour);
    zc_describe_change(&c, node, params);
    CUresult refused = zc_copy_before_node(&c);
    return refused == CUDA_SUCCESS ? replace(exec, node, &c, real(exec, node, params)) : refused;
}

ZC_BODY(cuGraphExecDestroy, (CUgraphExec exec))
{
    if (zc_life_on() && __atomic_load_n(&execs, __ATOMIC_RELAXED))
        drop(take_exec(exec));
    return real(exec);
}

/* The blocks are looked up at each launch, because they may be freed before the graph is. */
static void record_node(const struct node *n, uint64_t ticks, struct zc_log_call *call)
{
    struct zc_transfer t = {.asked = n->asked,
                            .real = n->real,
                            .outcome = ZC_MOVED,
                            .bytes = n->bytes,
                            .copies = 1,
                            .ticks = ticks,
                            .dst = n->dst ? zc_block_find(n->dst) : NULL,
                            .src = n->src ? zc_block_find(n->src) : NULL};
    zc_source_tell(&t, n->dst, n->src);
    zc_traffic_record(&t);
    if (zc_log_level() >= ZC_LOG_EVENTS) {
        call->dst = n->dst;
        call->src = n->src;
        zc_log_transfer(&t, call);
        if (zc_deep())
            zc_deep_hidden(t.dst, n->dst, t.src, n->src, n->bytes);
    }
}

/* Copies what is known of an executable graph for the caller, so that nothing is called under the
 * lock. */
static struct node *snapshot(CUgraphExec handle, size_t *count_out, bool *awaits_out,
                             struct zc_launch_graph *launch_out)
{
    struct exec *x = NULL;
    struct node *nodes = NULL;
    if (!zc_life_on() || !__atomic_load_n(&execs, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return NULL;
    HASH_FIND_PTR(execs, &handle, x);
    *awaits_out = x && x->awaits;
    if (x && x->launch.count)
        *launch_out = x->launch;
    if (x && x->count && (nodes = zc_arena_get(x->count * sizeof(*nodes))) != NULL) {
        *count_out = x->count;
        memcpy(nodes, x->nodes, x->count * sizeof(*nodes));
    }
    zc_lock_drop(&lock);
    return nodes;
}

/* Blocks may have become one with others since the graph was made. */
static CUresult make_own(const struct zc_entry *entry, const struct node *nodes, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = zc_shared_forward(entry->fn, nodes[i].dst, nodes[i].bytes);
        if (result == CUDA_SUCCESS)
            result = zc_shared_source(entry->fn, nodes[i].src);
    }
    return result;
}

ZC_BODY(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
{
    size_t count = 0;
    bool awaits = false;
    struct zc_launch_graph graph;
    graph.count = 0;
    struct node *nodes = snapshot(exec, &count, &awaits, &graph);
    const struct zc_launch launch = {.fn = entry->fn,
                                     .flavour = entry->flavour,
                                     .stream = stream,
                                     .kernels = true,
                                     .graph = graph.count ? &graph : NULL};
    bool watched = __atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED);
    CUresult result = watched ? zc_launch_ask(&launch) : CUDA_SUCCESS;
    uint64_t start = zc_ticks();
    if (result == CUDA_SUCCESS && __atomic_load_n(&zc_shared_ones, __ATOMIC_RELAXED))
        result = make_own(entry, nodes, count);
    if (result == CUDA_SUCCESS && awaits)
        result = zc_shared_quiesce(entry->fn);
    if (result == CUDA_SUCCESS)
        result = ZC_HOLDING_STILL(real(exec, stream));
    uint64_t ticks = zc_ticks() - start;
    if (watched)
        zc_launch_done(&launch);
    struct zc_log_call call = {
        .function = zc_fn_name(ZC_FN_cuGraphLaunch),
        .stream = zc_stream_kind_of(stream, entry->flavour),
        .handle = (uintptr_t)stream,
        .range = zc_ranges_here(),
        .site = zc_log_level() >= ZC_LOG_EVENTS ? zc_site_here(entry->frame, entry->pc) : 0};
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        record_node(&nodes[i], i ? 0 : ticks, &call);
    zc_arena_put(nodes, count * sizeof(*nodes));
    return result;
}
