/* SPDX-License-Identifier: MIT */
/* Graphs: nodes of work with dependencies, and their executable copies. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "stream.h"

/* One node. CUgraphNode points to it. Guarded by sim_lock. */
struct sim_node {
    struct sim_graph *graph; /* owner */
    struct sim_node *origin; /* node that it is a clone of, or NULL */
    struct sim_work work;    /* what it does, owned */
    struct sim_node **deps;  /* owned: nodes that go first */
    size_t dep_count;        /* how many */
    bool future;             /* of the type SIM_FUTURE_NODE */
    bool enabled;            /* false: does nothing (cuGraphNodeSetEnabled) */
};

/* One graph. CUgraph points to it. Nodes are in the order of their making, which is an order of
 * execution. */
struct sim_graph {
    struct sim_graph *next; /* all graphs of the program's */
    bool listed; /* in that list: a handle of the program's, not part of an executable graph or a
                    node */
    struct sim_node **nodes; /* owned */
    size_t count;            /* how many */
};

/* One executable graph. CUgraphExec points to it. */
struct sim_graph_exec {
    struct sim_graph_exec *next; /* all executable graphs */
    struct sim_graph *graph;     /* owned copy of the nodes */
    unsigned refs;               /* the program's and those of queued launches */
    cuuint64_t flags;            /* of instantiation */
};

/* The graphs of a conditional node. */
struct sim_bodies {
    cuuint64_t handle; /* whose value chooses */
    int type;          /* a CUgraphConditionalNodeType */
    unsigned count;
    struct sim_graph *graph[]; /* owned */
};

/* The copies of a batch. */
struct sim_batch {
    size_t count;
    CUdeviceptr *dsts, *srcs; /* owned, as all arrays here */
    size_t *sizes;
    CUmemcpyAttributes *attributes;
    size_t *indices, attribute_count;
    int device; /* of the node's context */
};

struct sim_bodies *sim_bodies_clone(const struct sim_bodies *bodies);
void sim_bodies_free(struct sim_bodies *bodies);
CUresult sim_bodies_run(struct sim_bodies *bodies, struct sim_context *ctx);

/* A launch of a graph begins: values that were to be reset are. */
void sim_conditions_begin(const struct sim_graph *graph);

struct sim_batch *sim_batch_clone(const struct sim_batch *batch);
void sim_batch_free(struct sim_batch *batch);
CUresult sim_batch_run(struct sim_batch *batch);

/* The graphs that a node holds, one after the other: a child or bodies; NULL behind the last. */
struct sim_graph *sim_node_graph(const struct sim_node *node, size_t i);

struct sim_graph *sim_graph_new(bool listed);
struct sim_graph *sim_graph_of(CUgraph handle);
struct sim_graph *sim_graph_clone(const struct sim_graph *graph);
void sim_graph_free(struct sim_graph *graph);

/* Makes a graph one of the program's. */
void sim_graph_list(struct sim_graph *graph);

/* The node of a handle, or NULL. */
struct sim_node *sim_node_of(CUgraphNode handle);

/* Adds a node after `deps` and takes over what the work owns, also on failure, which is
 * CUDA_ERROR_INVALID_VALUE for dependencies that are not of this graph. */
CUresult sim_node_add(struct sim_graph *graph, struct sim_node *const *deps, size_t count,
                      struct sim_work *work, struct sim_node **out);

/* A copy's node keeps where registered memory was when the node was made: once that registration
 * has ended its launch fails, also where the memory is registered anew (719, measured on an H200).
 */
void sim_node_remember(struct sim_work *work);
bool sim_node_lost(const struct sim_work *work);

/* Adds or removes one dependency. */
void sim_node_link(struct sim_node *node, struct sim_node *dep);
bool sim_node_unlink(struct sim_node *node, const struct sim_node *dep);

/* Takes a node out of its graph and frees it. */
void sim_node_remove(struct sim_node *node);

/* The clone of a node in a cloned graph, or in graphs that its nodes hold; or NULL. */
struct sim_node *sim_node_clone_in(struct sim_graph *clone, const struct sim_node *origin);

/* The executable graph of a handle, or NULL. */
struct sim_graph_exec *sim_graph_exec_of(CUgraphExec handle);

/* Gives the clone of a node in an executable graph other work, if a driver lets it have that. */
CUresult sim_exec_set(CUgraphExec exec, CUgraphNode node, struct sim_work *work);

/* The same with a child graph: another one of the same shape. */
CUresult sim_exec_set_child(CUgraphExec exec, CUgraphNode node, CUgraph child);

/* True where `node` depends on `on`, directly or not. */
bool sim_node_depends(const struct sim_node *node, const struct sim_node *on);

/* Runs the nodes of a graph, or of an executable graph, in order. Called without sim_lock. */
CUresult sim_graph_run(struct sim_graph *graph, struct sim_context *ctx);
CUresult sim_graph_exec_run(struct sim_graph_exec *exec, struct sim_context *ctx);
void sim_graph_exec_unref(struct sim_graph_exec *exec);

/* An allocation node's block keeps its address for the life of the node and its clones; it is
 * dormant, which means that nothing may touch it, except between the launch that reaches the node
 * and the free. */
CUresult sim_graph_alloc_work(struct sim_work *out, struct sim_pool *pool, size_t size);
CUresult sim_graph_alloc_run(struct sim_work *work);
void sim_graph_alloc_ref(CUdeviceptr dptr);
void sim_graph_alloc_unref(CUdeviceptr dptr);

/* Live graphs of the program's. */
size_t sim_graphs_listed(void);

/* Live graphs and executable graphs of the program's. */
size_t sim_graphs_count(void);

#endif
