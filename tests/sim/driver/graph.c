/* SPDX-License-Identifier: MIT */
/* Graphs as data: nodes, dependencies, clones, destruction. */
#include "graph.h"
#include "copy.h"
#include "pool.h"
#include <stdlib.h>
#include <string.h>

static struct sim_graph *graphs; /* of the program's */

struct sim_graph *sim_graph_new(bool listed)
{
    struct sim_graph *g = calloc(1, sizeof *g);
    if (listed)
        sim_graph_list(g);
    return g;
}

void sim_graph_list(struct sim_graph *g)
{
    g->listed = true;
    g->next = graphs;
    graphs = g;
}

struct sim_graph *sim_node_graph(const struct sim_node *n, size_t i)
{
    if (n->work.kind == SIM_WORK_CHILD)
        return i ? NULL : n->work.u.child;
    return n->work.kind == SIM_WORK_CONDITIONAL && i < n->work.u.bodies->count
               ? n->work.u.bodies->graph[i]
               : NULL;
}

static struct sim_graph *graph_in(struct sim_graph *g, CUgraph handle)
{
    struct sim_graph *found = (CUgraph)g == handle ? g : NULL;
    for (size_t i = 0; i < g->count && !found; i++)
        for (size_t k = 0; !found && sim_node_graph(g->nodes[i], k); k++)
            found = graph_in(sim_node_graph(g->nodes[i], k), handle);
    return found;
}

struct sim_graph *sim_graph_of(CUgraph handle)
{
    struct sim_graph *found = NULL;
    for (struct sim_graph *g = graphs; g && !found; g = g->next)
        found = graph_in(g, handle);
    return found;
}

size_t sim_graphs_listed(void)
{
    size_t n = 0;
    for (struct sim_graph *g = graphs; g; g = g->next)
        n++;
    return n;
}

static struct sim_node *node_in(struct sim_graph *g, CUgraphNode handle)
{
    for (size_t i = 0; i < g->count; i++) {
        struct sim_node *n = g->nodes[i];
        if ((CUgraphNode)n == handle)
            return n;
        for (size_t k = 0; sim_node_graph(g->nodes[i], k); k++) {
            n = node_in(sim_node_graph(g->nodes[i], k), handle);
            if (n)
                return n;
        }
    }
    return NULL;
}

struct sim_node *sim_node_of(CUgraphNode handle)
{
    for (struct sim_graph *g = graphs; g; g = g->next) {
        struct sim_node *n = node_in(g, handle);
        if (n)
            return n;
    }
    return NULL;
}

static void node_free(struct sim_node *n)
{
    sim_work_free(&n->work);
    free(n->deps);
    free(n);
}

void sim_graph_free(struct sim_graph *g)
{
    struct sim_graph **p = &graphs;
    while (g->listed && *p != g)
        p = &(*p)->next;
    if (g->listed)
        *p = g->next;
    for (size_t i = 0; i < g->count; i++)
        node_free(g->nodes[i]);
    free(g->nodes);
    free(g);
}

static CUdeviceptr copied(const struct sim_work *w, int to)
{
    const CUDA_MEMCPY3D *s = &w->u.copy.shape;
    if ((to ? s->dstMemoryType : s->srcMemoryType) == CU_MEMORYTYPE_HOST)
        return (CUdeviceptr)(to ? s->dstHost : s->srcHost);
    return to ? s->dstDevice : s->srcDevice;
}

static unsigned long long registered_at(CUdeviceptr va)
{
    const struct sim_block *b = va ? sim_block_find(va) : NULL;
    return b && b->kind == SIM_REGISTERED ? b->id : 0;
}

void sim_node_remember(struct sim_work *w)
{
    if (w->kind != SIM_WORK_COPY)
        return;
    sim_copy_remember(w);
    for (int i = 0; i < 2; i++)
        w->u.copy.registered[i] = registered_at(copied(w, i));
}

bool sim_node_lost(const struct sim_work *w)
{
    bool lost = false;
    sim_relock();
    for (int i = 0; i < 2; i++) {
        unsigned long long id = w->u.copy.registered[i];
        lost = lost || (id && registered_at(copied(w, i)) != id);
    }
    sim_unlock();
    return lost;
}

CUresult sim_node_add(struct sim_graph *g, struct sim_node *const *deps, size_t count,
                      struct sim_work *work, struct sim_node **out)
{
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t k = 0; k < g->count; k++)
            known = known || g->nodes[k] == deps[i];
        if (!known) {
            sim_work_free(work);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    struct sim_node *n = calloc(1, sizeof *n);
    n->graph = g;
    n->work = *work;
    sim_node_remember(&n->work);
    n->enabled = true;
    n->deps = malloc((count + 1) * sizeof *n->deps);
    if (count)
        memcpy(n->deps, deps, count * sizeof *n->deps);
    n->dep_count = count;
    g->nodes = realloc(g->nodes, (g->count + 1) * sizeof *g->nodes);
    g->nodes[g->count++] = n;
    if (out)
        *out = n;
    return CUDA_SUCCESS;
}

struct sim_graph *sim_graph_clone(const struct sim_graph *g)
{
    struct sim_graph *c = sim_graph_new(false);
    for (size_t i = 0; i < g->count; i++) {
        struct sim_work work = sim_work_clone(&g->nodes[i]->work);
        struct sim_node *n;
        sim_node_add(c, NULL, 0, &work, &n);
        n->origin = g->nodes[i];
        n->enabled = g->nodes[i]->enabled;
        n->future = g->nodes[i]->future;
    }
    for (size_t i = 0; i < g->count; i++)
        for (size_t d = 0; d < g->nodes[i]->dep_count; d++)
            sim_node_link(c->nodes[i], sim_node_clone_in(c, g->nodes[i]->deps[d]));
    return c;
}

struct sim_node *sim_node_clone_in(struct sim_graph *clone, const struct sim_node *origin)
{
    struct sim_node *found = NULL;
    for (size_t i = 0; i < clone->count && !found; i++) {
        found = clone->nodes[i]->origin == origin ? clone->nodes[i] : NULL;
        for (size_t k = 0; !found && sim_node_graph(clone->nodes[i], k); k++)
            found = sim_node_clone_in(sim_node_graph(clone->nodes[i], k), origin);
    }
    return found;
}

void sim_node_link(struct sim_node *node, struct sim_node *dep)
{
    node->deps = realloc(node->deps, (node->dep_count + 1) * sizeof *node->deps);
    node->deps[node->dep_count++] = dep;
}

bool sim_node_unlink(struct sim_node *node, const struct sim_node *dep)
{
    for (size_t i = 0; i < node->dep_count; i++)
        if (node->deps[i] == dep) {
            node->deps[i] = node->deps[--node->dep_count];
            return true;
        }
    return false;
}

bool sim_node_depends(const struct sim_node *node, const struct sim_node *on)
{
    if (node == on)
        return true;
    for (size_t i = 0; i < node->dep_count; i++)
        if (sim_node_depends(node->deps[i], on))
            return true;
    return false;
}

void sim_node_remove(struct sim_node *node)
{
    struct sim_graph *g = node->graph;
    size_t at = 0;
    for (size_t i = 0; i < g->count; i++) {
        sim_node_unlink(g->nodes[i], node);
        if (g->nodes[i] == node)
            at = i;
    }
    memmove(g->nodes + at, g->nodes + at + 1, (g->count - at - 1) * sizeof *g->nodes);
    g->count--;
    node_free(node);
}

/* Dependencies may point forward in the list of nodes, so each node waits for its turn. */
CUresult sim_graph_run(struct sim_graph *g, struct sim_context *ctx)
{
    bool *done = calloc(g->count + 1, sizeof *done);
    CUresult r = CUDA_SUCCESS;
    for (size_t left = g->count, before = left + 1; left && left != before && r == CUDA_SUCCESS;) {
        before = left;
        for (size_t i = 0; i < g->count && r == CUDA_SUCCESS; i++) {
            struct sim_node *n = g->nodes[i];
            bool ready = !done[i];
            for (size_t d = 0; d < n->dep_count && ready; d++)
                for (size_t k = 0; k < g->count; k++)
                    ready = ready && (g->nodes[k] != n->deps[d] || done[k]);
            if (!ready)
                continue;
            if (n->enabled)
                r = sim_work_run(&n->work, ctx);
            done[i] = true;
            left--;
        }
    }
    free(done);
    return r;
}
