/* SPDX-License-Identifier: MIT */
/* Graphs: what is known of an executable graph is read when it is made, changed with it, and
 * counted at each launch. */
#include "hook/graph.h"

#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/life.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/message.h"
#include "base/own.h"
#include "driver/await.h"
#include "driver/call.h"
#include "driver/capture.h"
#include "driver/launch.h"
#include "driver/stream.h"
#include "driver/unknown.h"
#include "hook/copy.h"
#include "hook/diagnose.h"
#include "hook/request.h"
#include "host/source.h"
#include "ledger/rules.h"
#include "ledger/site_path.h"
#include "log/lines.h"
#include "log/ranges.h"
#include "memory/reclaim.h"
#include "place/migrate.h"
#include "place/sides.h"
#include "place/verbs.h"

struct exec {
    CUgraphExec handle;
    struct zc_graph_nodes nodes;
    UT_hash_handle hh;
};

static ZC_LOCK(lock, ZC_RANK_GRAPH);
static ZC_OWN struct exec *execs;

/* Takes the lock if the executable graph is known; else NULL, without the lock. */
static struct exec *open_exec(CUgraphExec handle)
{
    struct exec *x = NULL;
    if (!__atomic_load_n(&execs, __ATOMIC_RELAXED) || !zc_lock_take(&lock))
        return NULL;
    HASH_FIND_PTR(execs, &handle, x);
    if (!x)
        zc_lock_drop(&lock);
    return x;
}

static void drop_exec(struct exec *x)
{
    zc_graph_drop(&x->nodes);
    zc_arena_put(x, sizeof(*x));
}

void zc_graph_forget(CUgraphExec handle)
{
    struct exec *x = open_exec(handle);
    if (!x)
        return;
    HASH_DELETE(hh, execs, x);
    zc_lock_drop(&lock);
    drop_exec(x);
}

void zc_graph_note(CUgraphExec handle, CUgraph graph)
{
    zc_graph_forget(handle);
    struct exec *x = zc_arena_get(sizeof(*x));
    if (!x)
        return;
    x->handle = handle;
    zc_graph_read(&x->nodes, graph, graph);
    if (!zc_lock_take(&lock)) {
        drop_exec(x);
        return;
    }
    HASH_ADD_PTR(execs, handle, x);
    zc_lock_drop(&lock);
}

static struct zc_graph_copy *find_node(const struct zc_graph_nodes *nodes, CUgraphNode id)
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->copy[i].id == id)
            return &nodes->copy[i];
    return NULL;
}

/* Notes what nodes of an executable graph do now; with `whole` `to` gets what all did. */
static void graph_change(CUgraphExec handle, struct zc_graph_nodes *to, bool whole)
{
    struct exec *x = open_exec(handle);
    struct zc_graph_copy *n;
    if (!x)
        return;
    struct zc_graph_nodes from = x->nodes;
    for (unsigned i = 0; i < to->count && !whole; i++)
        if ((n = find_node(&from, to->copy[i].id)) != NULL)
            *n = to->copy[i];
    if (whole) {
        x->nodes = *to;
        *to = from;
    }
    zc_lock_drop(&lock);
}

/* Before nodes of an executable graph get what those of `to` do, or if `bad` is not NULL all, in
 * their order: these go on to be named as they are.  The code for a change that a launch would fail
 * after; *bad is the node to blame, for *reason. */
static CUresult before_change(struct zc_copy *c, CUgraphExec handle, struct zc_graph_nodes *to,
                              CUgraphNode *bad, CUgraphExecUpdateResult *reason)
{
    struct exec *x = open_exec(handle);
    CUdeviceptr made = 0, then = 0;
    /* The driver takes no update to more or fewer copies. */
    unsigned count = x && !(bad && x->nodes.count != to->count) ? to->count : 0;
    for (unsigned i = 0; i < count && !made; i++) {
        struct zc_graph_copy *t = &to->copy[i];
        const struct zc_graph_copy *f = bad ? &x->nodes.copy[i] : find_node(&x->nodes, t->id);
        bool to_host = zc_flow_dst(t->real) == ZC_KIND_PAGEABLE;
        if (f && (to_host || zc_flow_src(t->real) == ZC_KIND_PAGEABLE))
            made = f->frail;
        then = to_host ? t->src : t->dst;
        if (made && bad) {
            *bad = t->id;
            *reason = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        }
        c->answered |= !f || made; /* Other nodes fail in any memory. */
        t->frail = f ? f->frail : 0;
        t->id = f ? f->id : t->id;
    }
    if (x)
        zc_lock_drop(&lock);
    if (made)
        c->result = zc_diagnose_frail(c->fn, made, then,
                                      bad ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
                                          : CUDA_ERROR_INVALID_VALUE);
    return c->result;
}

/* Prepares for what a node will do; NULL: one that the driver refuses, or nodes that were prepared
 * for when they were added.  The error for the program; or c->made: the node has been added
 * `behind` others. */
static CUresult before_node(struct zc_copy *c, const struct zc_entry *entry,
                            const CUgraphNodeParams *params, const struct zc_behind *behind)
{
    zc_copy_init(c, entry->fn, entry->flavour);
    c->behind = behind;
    zc_describe_node(c, params);
    return params ? zc_copy_before_node(c) : CUDA_SUCCESS;
}

/* Rows that are not the same fail in any memory. */
static void read_set(struct zc_graph_nodes *to, CUgraphNode node, struct zc_copy *c)
{
    c->answered = c->shape == ZC_SHAPE_STRIDED && (c->extent[1] | c->extent[2]) > 1;
    if (c->shape != ZC_SHAPE_NONE)
        zc_graph_add(to, node, c);
}

/* A child graph of an executable graph becomes another one of the same shape. */
static void read_child(struct zc_graph_nodes *to, CUgraphNode node, CUgraph child)
{
    CUgraph named;
    if (zc_real.cuGraphChildGraphNodeGetGraph(node, &named) == CUDA_SUCCESS)
        zc_graph_read(to, named, child);
}

/* A call that gives a node parameters, unless these are refused; `...` is the rest of its answer,
 * and `c` what the node copies. */
#define PREPARED(params, behind, ...)                                                              \
    __extension__({                                                                                \
        struct zc_copy c;                                                                          \
        CUresult refused_ = before_node(&c, entry, params, behind);                                \
        refused_ == CUDA_SUCCESS && !c.made ? (__VA_ARGS__) : refused_;                            \
    })

/* A call that changes nodes of an executable graph, see before_change(): `read` adds to `to` what
 * they will do, and `...` is the driver's answer. */
#define CHANGED(p, bad, reason, read, ...)                                                         \
    PREPARED(p, NULL, __extension__({                                                              \
                 struct zc_graph_nodes to = {.count = 0};                                          \
                 if (zc_life_on())                                                                 \
                     read;                                                                         \
                 CUresult answer_ = before_change(&c, exec, &to, bad, reason);                     \
                 if (answer_ == CUDA_SUCCESS)                                                      \
                     answer_ = __VA_ARGS__;                                                        \
                 if (answer_ == CUDA_SUCCESS)                                                      \
                     graph_change(exec, &to, (bad) != NULL);                                       \
                 zc_graph_drop(&to);                                                               \
                 zc_copy_after_node(&c, answer_);                                                  \
             }))

/* A body of such a call for one type of nodes. */
#define EXEC_SET(node_type, member)                                                                \
    {                                                                                              \
        CUgraphNodeParams any = {.type = node_type};                                               \
        if (params)                                                                                \
            memcpy(&any.member, params, sizeof(*params));                                          \
        const CUgraphNodeParams *p = params ? zc_describe_if(node, &any) : NULL;                   \
        return CHANGED(p, NULL, NULL, read_set(&to, node, &c), real(exec, node, params, context)); \
    }

ZC_BODY(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context))
EXEC_SET(CU_GRAPH_NODE_TYPE_MEMCPY, memcpy.copyParams)

ZC_BODY(cuGraphExecMemsetNodeSetParams, (CUgraphExec exec, CUgraphNode node,
                                         const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context))
EXEC_SET(CU_GRAPH_NODE_TYPE_MEMSET, memset)

ZC_BODY(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child))
{
    return CHANGED(NULL, NULL, NULL, read_child(&to, node, child), real(exec, node, child));
}

static CUcontext context_of(const CUgraphNodeParams *p)
{
    return !p                                     ? NULL
           : p->type == CU_GRAPH_NODE_TYPE_MEMCPY ? p->memcpy.copyCtx
           : p->type == CU_GRAPH_NODE_TYPE_MEMSET ? p->memset.ctx
                                                  : NULL;
}

static CUresult graph_added(struct zc_copy *c, const struct zc_entry *entry,
                            const CUgraphNodeParams *p, CUresult result)
{
    if (result == CUDA_SUCCESS && p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        zc_track_foreign(entry, ZC_API_cuGraphAddMemAllocNode, p->alloc.dptr, p->alloc.bytesize,
                         ZC_KIND_DEVICE);
    return zc_copy_after_node(c, result);
}

/* A body of a call that adds a node, by the driver's arguments. */
#define ADDED(edges, ...)                                                                          \
    {                                                                                              \
        const CUgraphNodeParams *p = node && graph ? params : NULL;                                \
        const struct zc_behind at = {node, graph, dependencies, edges, count, context_of(p)};      \
        return PREPARED(p, &at, graph_added(&c, entry, p, real(__VA_ARGS__)));                     \
    }

ZC_BODY(cuGraphAddNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                         size_t count, CUgraphNodeParams *params))
ADDED(NULL, node, graph, dependencies, count, params)

ZC_BODY(cuGraphAddNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies,
                            const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params))
ADDED(edges, node, graph, dependencies, edges, count, params)

ZC_BODY(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params))
{
    const CUgraphNodeParams *p = zc_describe_if(node, params);
    bool child = p && p->type == CU_GRAPH_NODE_TYPE_GRAPH;
    if (params && params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        zc_migrate_keep_all(entry->fn);
    return CHANGED(p, NULL, NULL,
                   child ? read_child(&to, node, p->graph.graph) : read_set(&to, node, &c),
                   real(exec, node, params));
}

ZC_BODY(cuGraphExecUpdate,
        (CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *update))
{
    CUgraphNode node;
    CUgraphExecUpdateResult reason;
    return CHANGED(NULL, error_node ?: &node, update ?: &reason, zc_graph_read(&to, graph, graph),
                   ZC_RECLAIMING(real(exec, graph, error_node, update)));
}

ZC_BODY(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info))
{
    CUgraphExecUpdateResultInfo any = {.errorNode = NULL}, *out = info ?: &any;
    out->errorFromNode = NULL;
    return CHANGED(NULL, &out->errorNode, &out->result, zc_graph_read(&to, graph, graph),
                   ZC_RECLAIMING(real(exec, graph, info)));
}

/* The blocks are looked up at each launch, because they may be freed before the graph is. */
static void record_node(const struct zc_graph_copy *n, uint64_t ticks, uint32_t site,
                        struct zc_log_call *call)
{
    struct zc_transfer t = {.asked = n->asked,
                            .real = n->real,
                            .outcome = ZC_MOVED,
                            .bytes = n->bytes,
                            .copies = 1,
                            .ticks = ticks,
                            .call = (uint16_t)site,
                            .dst = n->dst ? zc_block_find(n->dst) : NULL,
                            .src = n->src ? zc_block_find(n->src) : NULL};
    zc_source_tell(&t, n->dst, n->src);
    zc_traffic_record(&t);
    if (zc_log_level() >= ZC_LOG_EVENTS) {
        call->dst = n->dst;
        call->src = n->src;
        zc_log_transfer(&t, call);
    }
}

/* Copies what is known of an executable graph for the caller, so that nothing is called under the
 * lock. */
static void snapshot(CUgraphExec handle, struct zc_graph_nodes *out)
{
    struct exec *x = zc_life_on() ? open_exec(handle) : NULL;
    out->copy = NULL;
    out->count = out->cap = out->launch.count = 0;
    out->awaits = out->unknown = false;
    if (!x)
        return;
    const struct zc_graph_nodes *n = &x->nodes;
    out->awaits = n->awaits;
    out->unknown = n->unknown;
    if (n->launch.count)
        out->launch = n->launch;
    if (n->count && (out->copy = zc_arena_get(n->count * sizeof(*n->copy))) != NULL) {
        out->count = out->cap = n->count;
        memcpy(out->copy, n->copy, n->count * sizeof(*n->copy));
    }
    zc_lock_drop(&lock);
}

/* Other blocks than when the graph was made may be at its addresses, and other pages behind those.
 * *late: see zc_side_launched(). */
static CUresult graph_make_ready(enum zc_fn fn, const struct zc_graph_nodes *nodes, bool watched,
                                 const struct zc_rule **late)
{
    CUresult result = nodes->unknown ? zc_unknown_value(fn) : CUDA_SUCCESS;
    for (size_t i = 0; i < 2 * (size_t)nodes->count && result == CUDA_SUCCESS; i++) {
        CUdeviceptr address = i % 2 ? nodes->copy[i / 2].src : nodes->copy[i / 2].dst;
        if (watched && address)
            result = zc_place_retreat(zc_block_find(address), fn, true, ZC_RETREAT_GRAPH);
        if (result == CUDA_SUCCESS)
            result = zc_side_launched(address, fn, i % 2 ? late : NULL);
    }
    return result == CUDA_SUCCESS && nodes->awaits ? zc_place_drain(fn) : result;
}

/* Behind a launch, until sources that look pageable may be overwritten.  Where streams wait for the
 * program, that might last for ever. */
static CUresult wait_for_sources(const struct zc_rule *rule, CUstream stream,
                                 enum zc_flavour flavour)
{
    if (!rule || zc_life_closing() || zc_capture_holds(stream, flavour))
        return CUDA_SUCCESS;
    if (!zc_await_any())
        return zc_stream_drain(stream, flavour);
    if (zc_message_first("graph sources"))
        zc_message(ZC_WARN, "graph",
                   "a graph reads host blocks of rule %s (%s:%u) at its turn, and not in the call "
                   "that launches it, because streams may wait for the program; if it changes "
                   "them before that, give the rule 'place = pageable'",
                   rule->name, zc_rules()->file, rule->line);
    return CUDA_SUCCESS;
}

ZC_BODY(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
{
    const struct zc_rule *late = NULL;
    struct zc_graph_nodes nodes;
    snapshot(exec, &nodes);
    const struct zc_launch launch = {.fn = entry->fn,
                                     .flavour = entry->flavour,
                                     .stream = stream,
                                     .kernels = true,
                                     .graph = nodes.launch.count ? &nodes.launch : NULL};
    bool watched = __atomic_load_n(&zc_launch_watch, __ATOMIC_RELAXED);
    CUresult result = watched ? zc_launch_prepare(&launch) : CUDA_SUCCESS;
    uint64_t start = zc_ticks();
    result = result ?: graph_make_ready(entry->fn, &nodes, watched, &late) ?:
             ZC_HOLDING_STILL(real(exec, stream)) ?: wait_for_sources(late, stream, entry->flavour);
    uint64_t ticks = zc_ticks() - start;
    if (watched)
        zc_launch_done(&launch);
    struct zc_log_call call = {.function = zc_fn_name(ZC_FN_cuGraphLaunch),
                               .stream = zc_stream_kind_of(stream, entry->flavour),
                               .handle = (uintptr_t)stream,
                               .range = zc_ranges_here()};
    uint32_t site = zc_log_level() >= ZC_LOG_ALLOCS ? zc_site_here(entry->frame, entry->pc) : 0;
    for (size_t i = 0; i < nodes.count && result == CUDA_SUCCESS; i++)
        record_node(&nodes.copy[i], i ? 0 : ticks, site, &call);
    zc_graph_drop(&nodes);
    return result;
}
