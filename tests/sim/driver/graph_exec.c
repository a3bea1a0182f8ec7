/* SPDX-License-Identifier: MIT */
/* Executable graphs: instantiate, launch, update, destroy. A launch runs the nodes in one order, on
 * the stream's thread. */
#include "capture.h"
#include "copy.h"
#include "graph_work.h"
#include "pool.h"
#include <stdlib.h>

static struct sim_graph_exec *execs;

struct sim_graph_exec *sim_graph_exec_of(CUgraphExec handle)
{
    for (struct sim_graph_exec *e = execs; e; e = e->next)
        if ((CUgraphExec)e == handle)
            return e;
    return NULL;
}

size_t sim_graphs_count(void)
{
    size_t n = sim_graphs_listed();
    for (struct sim_graph_exec *e = execs; e; e = e->next)
        n++;
    return n;
}

void sim_graph_exec_unref(struct sim_graph_exec *exec)
{
    if (--exec->refs > 0)
        return;
    sim_graph_free(exec->graph);
    free(exec);
}

CUresult sim_graph_exec_run(struct sim_graph_exec *exec, struct sim_context *ctx)
{
    sim_relock();
    sim_conditions_begin(exec->graph);
    sim_unlock();
    return sim_graph_run(exec->graph, ctx);
}

/* Whether a graph has a node that a driver takes and then does not instantiate (measured). */
static bool has_refused(const struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct sim_node *n = g->nodes[i];
        const struct sim_graph *held;
        if ((n->work.kind == SIM_WORK_COPY && sim_copy_refused(&n->work)) ||
            (n->work.kind == SIM_WORK_SET && sim_set_refused(&n->work)))
            return true;
        for (size_t k = 0; (held = sim_node_graph(n, k)); k++)
            if (has_refused(held))
                return true;
    }
    return false;
}

static void find_frail(struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        struct sim_work *w = &g->nodes[i]->work;
        if (w->kind == SIM_WORK_COPY)
            w->u.copy.frail = sim_copy_frail(w);
        for (size_t k = 0; sim_node_graph(g->nodes[i], k); k++)
            find_frail(sim_node_graph(g->nodes[i], k));
    }
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!out || !g || has_refused(g))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_graph_exec *e = calloc(1, sizeof *e);
    e->graph = sim_graph_clone(g);
    find_frail(e->graph);
    e->refs = 1;
    e->flags = flags;
    e->next = execs;
    execs = e;
    *out = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphInstantiate,
        (CUgraphExec * out, CUgraph graph, CUgraphNode *error_node, char *log, size_t size),
        (out, graph, error_node, log, size))
{
    if (error_node)
        *error_node = NULL;
    if (log && size)
        *log = 0;
    return instantiate(out, graph, 0);
}
SIM_ALIAS(cuGraphInstantiate_v2, body_cuGraphInstantiate,
          (CUgraphExec * out, CUgraph graph, CUgraphNode *error_node, char *log, size_t size),
          (out, graph, error_node, log, size))

SIM_API(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
        (out, graph, flags))
{
    return instantiate(out, graph, flags);
}

SIM_API_PTSZ(cuGraphInstantiateWithParams,
             (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
             (out, graph, params))
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = instantiate(out, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out =
        r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

SIM_API(cuGraphExecGetFlags, (CUgraphExec exec, cuuint64_t *flags), (exec, flags))
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    if (!e || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

/* Queued launches keep the executable graph until they are done. */
SIM_API(cuGraphExecDestroy, (CUgraphExec exec), (exec))
{
    struct sim_graph_exec **p = &execs;
    while (*p && (CUgraphExec)*p != exec)
        p = &(*p)->next;
    if (!*p)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph_exec *e = *p;
    *p = e->next;
    sim_graph_exec_unref(e);
    return CUDA_SUCCESS;
}

/* The copy that a graph consists of, or NULL. */
static const struct sim_work *only_copy(const struct sim_graph *g)
{
    const struct sim_node *n = g->count == 1 ? g->nodes[0] : NULL;
    return n && n->enabled && n->work.kind == SIM_WORK_COPY ? &n->work : NULL;
}

static bool crashes(const struct sim_node *n)
{
    return n->enabled && n->work.kind == SIM_WORK_COPY && sim_copy_crashes(&n->work);
}

SIM_API_PTSZ(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
{
    struct sim_stream *s;
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    CUresult r = sim_stream_find(stream, &s);
    if (r == CUDA_SUCCESS && !e)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !s->capture)
        r = sim_capture_implicit(s);
    if (r != CUDA_SUCCESS)
        return r;
    for (size_t i = 0; !s->capture && i < e->graph->count; i++)
        if (crashes(e->graph->nodes[i]))
            sim_crash();
    struct sim_work work = {.kind = SIM_WORK_GRAPH, .u.exec = e};
    if (!s->capture && only_copy(e->graph)) {
        work = sim_work_clone(only_copy(e->graph));
        return sim_copy_launch(s, &work);
    }
    e->refs++;
    return sim_submit(s, &work);
}

SIM_API_PTSZ(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
{
    struct sim_stream *s;
    CUresult r = sim_stream_find(stream, &s);
    return r != CUDA_SUCCESS || sim_graph_exec_of(exec) ? r : CUDA_ERROR_INVALID_VALUE;
}

/* Whether a node of an executable graph may do other work (an H200, tests/gpu/change_facts.c). */
static bool may_become(const struct sim_work *now, const struct sim_work *then)
{
    return now->kind == SIM_WORK_COPY  ? sim_copy_may_become(now, then)
           : now->kind == SIM_WORK_SET ? sim_set_may_become(now, then)
                                       : true;
}

/* Same shape: the same kinds of nodes in the same order with the same dependencies. */
static struct sim_node *difference(struct sim_graph *exec, struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        if (i >= exec->count || exec->nodes[i]->work.kind != g->nodes[i]->work.kind ||
            exec->nodes[i]->dep_count != g->nodes[i]->dep_count)
            return g->nodes[i];
    }
    return NULL;
}

static void go_on(const struct sim_work *now, struct sim_work *then)
{
    if (now->kind == SIM_WORK_COPY)
        then->u.copy.frail = now->u.copy.frail;
}

/* The nodes go on to be named by those of the graph that was instantiated. */
static void take_over(struct sim_graph *to, const struct sim_graph *from)
{
    for (size_t i = 0; i < to->count; i++) {
        to->nodes[i]->origin = from->nodes[i]->origin;
        go_on(&from->nodes[i]->work, &to->nodes[i]->work);
        for (size_t k = 0; sim_node_graph(to->nodes[i], k); k++)
            take_over(sim_node_graph(to->nodes[i], k), sim_node_graph(from->nodes[i], k));
    }
}

static bool same_shape(struct sim_graph *a, struct sim_graph *b)
{
    bool same = a->count == b->count && !difference(a, b);
    for (size_t i = 0; i < a->count && same; i++)
        for (size_t k = 0; same && sim_node_graph(a->nodes[i], k); k++)
            same = sim_node_graph(b->nodes[i], k) &&
                   same_shape(sim_node_graph(a->nodes[i], k), sim_node_graph(b->nodes[i], k));
    return same;
}

/* The first node that the update would change to what it may not become. */
static struct sim_node *kept_node(struct sim_graph *exec, struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        struct sim_node *now = exec->nodes[i], *then = g->nodes[i], *kept = NULL;
        if (!may_become(&now->work, &then->work))
            return then;
        for (size_t k = 0; !kept && sim_node_graph(now, k); k++)
            kept = kept_node(sim_node_graph(now, k), sim_node_graph(then, k));
        if (kept)
            return kept;
    }
    return NULL;
}

/* Waits for running launches, which use the nodes that are replaced. */
static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                       CUgraphExecUpdateResult *result)
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_graph *g = sim_graph_of(graph);
    if (!e || !g)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node *bad = difference(e->graph, g);
    *error_node = (CUgraphNode)bad;
    *result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (bad || !same_shape(e->graph, g)) {
        *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    *error_node = (CUgraphNode)kept_node(e->graph, g);
    if (*error_node) {
        *result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    sim_device_wait(-1);
    struct sim_graph *fresh = sim_graph_clone(g);
    take_over(fresh, e->graph);
    sim_graph_free(e->graph);
    e->graph = fresh;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphExecUpdate,
        (CUgraphExec exec, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *result),
        (exec, graph, error_node, result))
{
    CUgraphNode node;
    CUgraphExecUpdateResult outcome;
    return update(exec, graph, error_node ? error_node : &node, result ? result : &outcome);
}

SIM_API(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
        (exec, graph, info))
{
    CUgraphExecUpdateResultInfo local;
    if (!info)
        info = &local;
    info->errorFromNode = NULL;
    return update(exec, graph, &info->errorNode, &info->result);
}

CUresult sim_exec_set(CUgraphExec exec, CUgraphNode node, struct sim_work *work)
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_node *n = e ? sim_node_clone_in(e->graph, (struct sim_node *)node) : NULL;
    sim_device_wait(-1); /* launched work keeps its arguments */
    sim_node_remember(work);
    bool may = n && n->work.kind == work->kind && may_become(&n->work, work);
    if (may)
        go_on(&n->work, work);
    return sim_node_set_work(may ? n : NULL, work);
}

/* The same with work that was built with result `r`. */
static CUresult set(CUresult r, struct sim_work *work, CUgraphExec exec, CUgraphNode node)
{
    return r == CUDA_SUCCESS ? sim_exec_set(exec, node, work) : r;
}

SIM_API(cuGraphExecKernelNodeSetParams_v2,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p), (exec, node, p))
{
    struct sim_work work;
    return set(sim_work_of_kernel(&work, p), &work, exec, node);
}

SIM_API(cuGraphExecKernelNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p), (exec, node, p))
{
    struct sim_work work;
    CUDA_KERNEL_NODE_PARAMS_v2 params = {0};
    if (p)
        params = sim_kernel_params_v2(p);
    return set(sim_work_of_kernel(&work, p ? &params : NULL), &work, exec, node);
}

SIM_API(cuGraphExecMemcpyNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *shape, CUcontext ctx),
        (exec, node, shape, ctx))
{
    struct sim_work work;
    return set(sim_work_of_copy(&work, shape, ctx), &work, exec, node);
}

SIM_API(cuGraphExecMemsetNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *shape, CUcontext ctx),
        (exec, node, shape, ctx))
{
    struct sim_work work;
    return set(sim_work_of_set(&work, shape, ctx), &work, exec, node);
}

SIM_API(cuGraphExecHostNodeSetParams,
        (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p), (exec, node, p))
{
    struct sim_work work;
    return set(p ? sim_work_of_host(&work, p->fn, p->userData) : CUDA_ERROR_INVALID_VALUE, &work,
               exec, node);
}

CUresult sim_exec_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_node *n = e ? sim_node_clone_in(e->graph, (struct sim_node *)node) : NULL;
    struct sim_graph *g = sim_graph_of(child);
    if (!n || !g || n->work.kind != SIM_WORK_CHILD || !same_shape(n->work.u.child, g))
        return CUDA_ERROR_INVALID_VALUE;
    sim_device_wait(-1);
    struct sim_graph *fresh = sim_graph_clone(g);
    take_over(fresh, n->work.u.child);
    sim_graph_free(n->work.u.child);
    n->work.u.child = fresh;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child),
        (exec, node, child))
{
    return sim_exec_set_child(exec, node, child);
}

SIM_API(cuGraphNodeSetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int enabled),
        (exec, node, enabled))
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_node *n = e ? sim_node_clone_in(e->graph, (struct sim_node *)node) : NULL;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_device_wait(-1);
    n->enabled = enabled != 0;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphNodeGetEnabled, (CUgraphExec exec, CUgraphNode node, unsigned int *enabled),
        (exec, node, enabled))
{
    struct sim_graph_exec *e = sim_graph_exec_of(exec);
    struct sim_node *n = e ? sim_node_clone_in(e->graph, (struct sim_node *)node) : NULL;
    if (!n || !enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = n->enabled;
    return CUDA_SUCCESS;
}
