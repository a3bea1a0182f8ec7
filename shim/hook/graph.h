/* SPDX-License-Identifier: MIT */
/* Graphs: counts their copies and sets at each launch. */
#pragma once

#include "driver/real.h"

/* Records what a new or updated executable graph will copy. */
void zc_graph_note(CUgraphExec exec, CUgraph graph);
