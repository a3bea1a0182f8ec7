/* Graphs: their copies and sets happen at each launch. */
#ifndef ZC_HOOK_GRAPH_H
#define ZC_HOOK_GRAPH_H

void zc_graph_reset(void); /* For the child of fork(2). */

#endif
