/* SPDX-License-Identifier: MIT */
/* The NUMA nodes that new pages come from, as threads choose them. */
#pragma once

#include <stdbool.h>

/* True if the calling thread has not chosen nodes for its new pages (set_mempolicy(2)). */
bool zc_nodes_anywhere(void);

/* For a thread that has not: its new pages come from a node while that has some; of a negative
 * node, from anywhere again. */
void zc_nodes_prefer(int node);
