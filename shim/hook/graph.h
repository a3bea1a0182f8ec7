/* SPDX-License-Identifier: MIT */
/* Graphs: their copies and sets happen at each launch. */
#ifndef ZC_HOOK_GRAPH_H
#define ZC_HOOK_GRAPH_H

#endif
