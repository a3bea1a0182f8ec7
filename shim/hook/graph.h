/* SPDX-License-Identifier: MIT */
/* Graphs: counts their copies and sets at each launch. */
#ifndef ZC_HOOK_GRAPH_H
#define ZC_HOOK_GRAPH_H

#endif
