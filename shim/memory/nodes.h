/* SPDX-License-Identifier: MIT */
/* The NUMA nodes that new pages come from, as threads choose them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory of that size is worth a look at the nodes that it lies on. */
#define ZC_NODES_LEAST ((size_t)64 << 20)

/* Counts for the site of a block those bytes, by what a few of its pages tell, that lie on another
 * node than `near`, the one next to its device.  None if that is negative, or the kernel does not
 * tell (move_pages(2)). */
void zc_nodes_note(uint32_t site, const void *memory, size_t bytes, int near);

/* True if the calling thread has not chosen nodes for its new pages (set_mempolicy(2)). */
bool zc_nodes_anywhere(void);

/* For a thread that has not: its new pages come from a node while that has some; of a negative
 * node, from anywhere again. */
void zc_nodes_prefer(int node);
