/* SPDX-License-Identifier: MIT */
/* Reads graphs.  Those inside them wait in a list, because they may lie in each other as deep as a
 * program likes. */
#include "hook/graph.h"

#include "base/arena.h"
#include "driver/await.h"
#include "hook/copy.h"
#include "place/migrate.h"

/* A graph still to be read. */
struct inner {
    CUgraph named, given; /* As for zc_graph_read(). */
};

struct reading {
    struct zc_graph_nodes *nodes;
    struct inner *inner;
    unsigned count, cap;
};

static void put_off(struct reading *r, CUgraph named, CUgraph given)
{
    if (named && given && zc_arena_extend(&r->inner, &r->cap, r->count, sizeof(*r->inner), 8))
        r->inner[r->count++] = (struct inner){named, given};
}

/* The block of libzc's that may be why a copy between managed and pinned memory can't become one of
 * pageable memory, or 0: the driver takes such a change in an executable graph, and the next launch
 * ends with error 700 (an H200, tests/gpu/change_facts.c). */
static CUdeviceptr frail_by(const struct zc_copy *c)
{
    bool to_managed = c->dst.real == ZC_KIND_MANAGED;
    const struct zc_operand *m = to_managed ? &c->dst : &c->src,
                            *h = to_managed ? &c->src : &c->dst;
    if (m->real != ZC_KIND_MANAGED || h->real != ZC_KIND_PINNED)
        return 0;
    return m->asked != ZC_KIND_MANAGED ? m->address : h->asked != ZC_KIND_PINNED ? h->address : 0;
}

void zc_graph_add(struct zc_graph_nodes *nodes, CUgraphNode id, struct zc_copy *c)
{
    struct zc_graph_copy n = {.id = id};
    zc_copy_resolve(c);
    zc_sides_in_graph(c);
    n.asked = zc_copy_asked(c);
    n.real = zc_copy_real(c);
    n.dst = c->dst.address;
    n.src = c->src.address;
    n.bytes = c->bytes;
    n.frail = frail_by(c);
    if (zc_arena_extend(&nodes->copy, &nodes->cap, nodes->count, sizeof(n), 8))
        nodes->copy[nodes->count++] = n;
}

void zc_graph_drop(struct zc_graph_nodes *nodes)
{
    zc_arena_put(nodes->copy, nodes->cap * sizeof(*nodes->copy));
}

static void read_kernel(struct zc_graph_nodes *nodes, CUgraphNode id)
{
    CUDA_KERNEL_NODE_PARAMS_v2 k = {.func = NULL};
    if (!zc_migrate_any())
        return;
    zc_real.cuGraphKernelNodeGetParams_v2(id, &k);
    const struct zc_launch launch = {.function = k.func ? k.func : (CUfunction)k.kern,
                                     .arguments = k.kernelParams,
                                     .extra = k.extra};
    zc_migrate_note(&nodes->launch, &launch, k.ctx);
}

static void read_copy(struct reading *r, CUgraphNode id, CUgraphNode given, CUgraphNodeType type)
{
    CUgraphNodeParams p = {.type = type};
    CUresult result = type == CU_GRAPH_NODE_TYPE_MEMCPY
                          ? zc_real.cuGraphMemcpyNodeGetParams(given, &p.memcpy.copyParams)
                          : zc_real.cuGraphMemsetNodeGetParams(given, (void *)&p.memset);
    struct zc_copy c;
    if (result != CUDA_SUCCESS)
        return;
    zc_copy_init(&c, ZC_FN_cuGraphLaunch, ZC_LEGACY);
    zc_describe_node(&c, &p);
    zc_graph_add(r->nodes, id, &c);
}

static void read_node(struct reading *r, CUgraphNode id, CUgraphNode given)
{
    CUgraphNodeType type;
    CUgraph named_child, given_child;
    if (zc_real.cuGraphNodeGetType(given, &type) != CUDA_SUCCESS)
        return;
    bool known = zc_known_node(type);
    bool hides = zc_await_node(type) || type == CU_GRAPH_NODE_TYPE_CONDITIONAL || !known;
    r->nodes->awaits |= hides;
    r->nodes->unknown |= !known;
    if (hides) {
        zc_migrate_keep_all(ZC_FN_cuGraphLaunch);
    } else if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        read_kernel(r->nodes, given);
    } else if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
        if (zc_real.cuGraphChildGraphNodeGetGraph(id, &named_child) == CUDA_SUCCESS &&
            zc_real.cuGraphChildGraphNodeGetGraph(given, &given_child) == CUDA_SUCCESS)
            put_off(r, named_child, given_child);
    } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET) {
        read_copy(r, id, given, type);
    }
}

/* In the arena; NULL for none. */
static CUgraphNode *ids_of(CUgraph graph, size_t *count_out)
{
    if (zc_real.cuGraphGetNodes(graph, NULL, count_out) != CUDA_SUCCESS || !*count_out)
        return NULL;
    size_t got = *count_out;
    CUgraphNode *ids = zc_arena_get(*count_out * sizeof(*ids));
    if (!ids || (zc_real.cuGraphGetNodes(graph, ids, &got) == CUDA_SUCCESS && got == *count_out))
        return ids;
    zc_arena_put(ids, *count_out * sizeof(*ids));
    return NULL;
}

/* The driver lists the nodes of graphs of the same shape in the same order. */
static void read_inner(struct reading *r, struct inner inner)
{
    size_t count, as_many;
    CUgraphNode *ids = ids_of(inner.named, &count);
    CUgraphNode *given = inner.given == inner.named ? NULL : ids_of(inner.given, &as_many);
    if (ids && (inner.given == inner.named || (given && as_many == count)))
        for (size_t i = 0; i < count; i++)
            read_node(r, ids[i], given ? given[i] : ids[i]);
    if (ids)
        zc_arena_put(ids, count * sizeof(*ids));
    if (given)
        zc_arena_put(given, as_many * sizeof(*given));
}

void zc_graph_read(struct zc_graph_nodes *nodes, CUgraph named, CUgraph given)
{
    struct reading r = {.nodes = nodes};
    put_off(&r, named, given);
    while (r.count)
        read_inner(&r, r.inner[--r.count]);
    zc_arena_put(r.inner, r.cap * sizeof(*r.inner));
}
