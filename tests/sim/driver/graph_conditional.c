/* SPDX-License-Identifier: MIT */
/* Conditional nodes: graphs that run as often as a value says, which kernels set (CUDA Programming
 * Guide, "Conditional Graph Nodes"). */
#include "graph_work.h"
#include <stdlib.h>

/* One CUgraphConditionalHandle, for the life of the process. */
struct condition {
    struct condition *next;
    unsigned value;   /* now */
    unsigned initial; /* at each launch, */
    bool resets;      /* if that was asked for */
};

static struct condition *conditions;

static struct condition *condition_of(cuuint64_t handle)
{
    struct condition *c = conditions;
    while (c && (cuuint64_t)(uintptr_t)c != handle)
        c = c->next;
    return c;
}

SIM_EXPORT void sim_condition_set(unsigned long long handle, unsigned value)
{
    sim_relock();
    struct condition *c = condition_of(handle);
    if (c)
        c->value = value;
    sim_unlock();
}

static unsigned value_of(cuuint64_t handle)
{
    sim_relock();
    struct condition *c = condition_of(handle);
    unsigned value = c ? c->value : 0;
    sim_unlock();
    return value;
}

SIM_API(cuGraphConditionalHandleCreate,
        (cuuint64_t * out, CUgraph graph, CUcontext ctx, unsigned initial, unsigned flags),
        (out, graph, ctx, initial, flags))
{
    struct condition *c;
    if (!out || !sim_graph_of(graph) || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx && !sim_context_of(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    c = calloc(1, sizeof *c);
    c->value = c->initial = initial;
    c->resets = flags;
    c->next = conditions;
    conditions = c;
    *out = (cuuint64_t)(uintptr_t)c;
    return CUDA_SUCCESS;
}

static struct sim_bodies *bodies_new(cuuint64_t handle, int type, unsigned count)
{
    struct sim_bodies *b = calloc(1, sizeof *b + count * sizeof *b->graph);
    b->handle = handle;
    b->type = type;
    b->count = count;
    return b;
}

CUresult sim_work_of_bodies(struct sim_work *out, CUgraphNodeParams *p)
{
    unsigned count = p->conditional.size, type = (unsigned)p->conditional.type;
    if (!condition_of(p->conditional.handle) || type > 2 || count < 1 ||
        (type < 2 && count > (type == 0 ? 2 : 1)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_bodies *b = bodies_new(p->conditional.handle, (int)type, count);
    for (unsigned i = 0; i < count; i++)
        b->graph[i] = sim_graph_new(false);
    *out = (struct sim_work){.kind = SIM_WORK_CONDITIONAL, .u.bodies = b};
    p->conditional.phGraph_out = (CUgraph *)b->graph;
    return CUDA_SUCCESS;
}

struct sim_bodies *sim_bodies_clone(const struct sim_bodies *b)
{
    struct sim_bodies *c = bodies_new(b->handle, b->type, b->count);
    for (unsigned i = 0; i < b->count; i++)
        c->graph[i] = sim_graph_clone(b->graph[i]);
    return c;
}

void sim_bodies_free(struct sim_bodies *b)
{
    for (unsigned i = 0; i < b->count; i++)
        sim_graph_free(b->graph[i]);
    free(b);
}

CUresult sim_bodies_run(struct sim_bodies *b, struct sim_context *ctx)
{
    unsigned value = value_of(b->handle);
    CUresult r = CUDA_SUCCESS;
    if (b->type == 1) {
        for (; value && r == CUDA_SUCCESS; value = value_of(b->handle))
            r = sim_graph_run(b->graph[0], ctx);
        return r;
    }
    unsigned chosen = b->type == 0 ? !value : value;
    return chosen < b->count ? sim_graph_run(b->graph[chosen], ctx) : CUDA_SUCCESS;
}

void sim_conditions_begin(const struct sim_graph *g)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct sim_work *w = &g->nodes[i]->work;
        struct condition *c =
            w->kind == SIM_WORK_CONDITIONAL ? condition_of(w->u.bodies->handle) : NULL;
        if (c && c->resets)
            c->value = c->initial;
        for (size_t k = 0; sim_node_graph(g->nodes[i], k); k++)
            sim_conditions_begin(sim_node_graph(g->nodes[i], k));
    }
}
