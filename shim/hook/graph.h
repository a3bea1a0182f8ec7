/* SPDX-License-Identifier: MIT */
/* Graphs: counts their copies and sets at each launch. */
#ifndef ZC_HOOK_GRAPH_H
#define ZC_HOOK_GRAPH_H

#include "driver/real.h"

/* Records what a new or updated executable graph will copy. */
void zc_graph_note(CUgraphExec exec, CUgraph graph);

#endif
