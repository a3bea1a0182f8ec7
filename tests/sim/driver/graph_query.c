/* SPDX-License-Identifier: MIT */
/* Graphs: create, clone, destroy; nodes and edges as lists. */
#include "graph.h"

SIM_API(cuGraphCreate, (CUgraph * out, unsigned int flags), (out, flags))
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)sim_graph_new(true);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphClone, (CUgraph * out, CUgraph graph), (out, graph))
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!out || !g)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *c = sim_graph_clone(g);
    sim_graph_list(c);
    *out = (CUgraph)c;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphDestroy, (CUgraph graph), (graph))
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!g || !g->listed)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_free(g);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphDestroyNode, (CUgraphNode node), (node))
{
    struct sim_node *n = sim_node_of(node);
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_node_remove(n);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode node, CUgraph clone),
        (out, node, clone))
{
    struct sim_graph *g = sim_graph_of(clone);
    struct sim_node *n = g ? sim_node_clone_in(g, (struct sim_node *)node) : NULL;
    if (!out || !n)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraphNode)n;
    return CUDA_SUCCESS;
}

SIM_API(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType *out), (node, out))
{
    struct sim_node *n = sim_node_of(node);
    if (!n || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = n->future ? (CUgraphNodeType)SIM_FUTURE_NODE : (CUgraphNodeType)n->work.kind;
    return CUDA_SUCCESS;
}

/* A list that the caller asks for in two steps: first its length, with NULL, then the items; room
 * beyond is cleared. */
struct list {
    CUgraphNode *items; /* where to put them, or NULL */
    size_t room;        /* items that fit */
    size_t count;       /* items so far */
};

static void list_add(struct list *l, struct sim_node *node)
{
    if (l->items && l->count < l->room)
        l->items[l->count] = (CUgraphNode)node;
    l->count++;
}

static void list_end(struct list *l, size_t *count)
{
    for (size_t i = l->count; l->items && i < l->room; i++)
        l->items[i] = NULL;
    *count = l->items && l->count > l->room ? l->room : l->count;
}

static CUresult nodes(CUgraph graph, CUgraphNode *out, size_t *count, bool roots)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {out, out ? *count : 0, 0};
    for (size_t i = 0; i < g->count; i++)
        if (!roots || g->nodes[i]->dep_count == 0)
            list_add(&l, g->nodes[i]);
    list_end(&l, count);
    return CUDA_SUCCESS;
}

SIM_API(cuGraphGetNodes, (CUgraph graph, CUgraphNode *out, size_t *count), (graph, out, count))
{
    return nodes(graph, out, count, false);
}

SIM_API(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode *out, size_t *count), (graph, out, count))
{
    return nodes(graph, out, count, true);
}

static CUresult edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!g || !count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    struct list f = {from, from ? *count : 0, 0}, t = {to, to ? *count : 0, 0};
    for (size_t i = 0; i < g->count; i++)
        for (size_t d = 0; d < g->nodes[i]->dep_count; d++) {
            list_add(&f, g->nodes[i]->deps[d]);
            list_add(&t, g->nodes[i]);
        }
    list_end(&f, count);
    list_end(&t, count);
    return CUDA_SUCCESS;
}

static CUresult neighbours(CUgraphNode node, CUgraphNode *out, size_t *count, bool before)
{
    struct sim_node *n = sim_node_of(node);
    if (!n || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {out, out ? *count : 0, 0};
    for (size_t i = 0; before && i < n->dep_count; i++)
        list_add(&l, n->deps[i]);
    for (size_t i = 0; !before && i < n->graph->count; i++)
        for (size_t d = 0; d < n->graph->nodes[i]->dep_count; d++)
            if (n->graph->nodes[i]->deps[d] == n)
                list_add(&l, n->graph->nodes[i]);
    list_end(&l, count);
    return CUDA_SUCCESS;
}

static CUresult link_all(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                         size_t count, bool add)
{
    struct sim_graph *g = sim_graph_of(graph);
    if (!g || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct sim_node *a = sim_node_of(from[i]), *b = sim_node_of(to[i]);
        if (!a || !b || a->graph != g || b->graph != g || (add && sim_node_depends(a, b)))
            return CUDA_ERROR_INVALID_VALUE; /* also a circle */
        if (add)
            sim_node_link(b, a);
        else if (!sim_node_unlink(b, a))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

SIM_API(cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count),
        (graph, from, to, count))
{
    return edges(graph, from, to, count);
}

SIM_API(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode *out, size_t *count),
        (node, out, count))
{
    return neighbours(node, out, count, true);
}

SIM_API(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode *out, size_t *count),
        (node, out, count))
{
    return neighbours(node, out, count, false);
}

SIM_API(cuGraphAddDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        (graph, from, to, count))
{
    return link_all(graph, from, to, count, true);
}

SIM_API(cuGraphRemoveDependencies,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
        (graph, from, to, count))
{
    return link_all(graph, from, to, count, false);
}

/* Edges of these graphs have no data of their own. */
static void edges_clear(CUgraphEdgeData *data, const size_t *count)
{
    for (size_t i = 0; data && count && i < *count; i++)
        data[i] = (CUgraphEdgeData){0};
}

SIM_API(cuGraphGetEdges_v2,
        (CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count),
        (graph, from, to, data, count))
{
    CUresult r = edges(graph, from, to, count);
    edges_clear(data, count);
    return r;
}

SIM_API(cuGraphNodeGetDependencies_v2,
        (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *count),
        (node, out, data, count))
{
    CUresult r = neighbours(node, out, count, true);
    edges_clear(data, count);
    return r;
}

SIM_API(cuGraphNodeGetDependentNodes_v2,
        (CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data, size_t *count),
        (node, out, data, count))
{
    CUresult r = neighbours(node, out, count, false);
    edges_clear(data, count);
    return r;
}

SIM_API(cuGraphAddDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
         size_t count),
        (graph, from, to, data, count))
{
    (void)data;
    return link_all(graph, from, to, count, true);
}

SIM_API(cuGraphRemoveDependencies_v2,
        (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *data,
         size_t count),
        (graph, from, to, data, count))
{
    (void)data;
    return link_all(graph, from, to, count, false);
}
