/* SPDX-License-Identifier: MIT */
/* Graphs: their copies and sets count at each launch, in whatever graph inside a graph they are. */
#pragma once

#include "driver/copy.h"
#include "driver/launch.h"

/* One copy or set of an executable graph. */
struct zc_graph_copy {
    CUgraphNode id;       /* Its node in the graph that was instantiated, which updates name. */
    CUdeviceptr dst, src; /* First addresses; 0 for arrays, and for the source of a set. */
    unsigned asked, real; /* Flows, as in struct zc_transfer. */
    uint64_t bytes;       /* That each launch moves or sets. */
    CUdeviceptr frail;    /* If not 0 it fails where it copies pageable memory, because of this. */
};

/* The record of a graph.  Begins as zeros. */
struct zc_graph_nodes {
    struct zc_graph_copy *copy; /* In the arena. */
    unsigned count, cap;
    bool awaits;  /* A node may wait for the CPU, or is conditional: no call of older drivers tells
                   * what graphs it runs. */
    bool unknown; /* libzc does not know what a node does. */
    struct zc_launch_graph launch;
};

/* Adds what the nodes of `named` do with the parameters of those of `given`, a graph of the same
 * shape, or the same graph.  All that there is memory for. */
void zc_graph_read(struct zc_graph_nodes *nodes, CUgraph named, CUgraph given);

/* Adds what one node copies or sets; `c` is described. */
void zc_graph_add(struct zc_graph_nodes *nodes, CUgraphNode id, struct zc_copy *c);

void zc_graph_drop(struct zc_graph_nodes *nodes);

/* Records what a new executable graph will copy; and forgets it. */
void zc_graph_note(CUgraphExec exec, CUgraph graph);
void zc_graph_forget(CUgraphExec exec);
